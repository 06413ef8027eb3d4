"""Marks of the operator that users write themselves, on pods, templates, volumes and nodes: none is believed blindly.

A mark gives a pod no toleration that it does not declare, stops no write of anybody else, leaves nothing on nodes, and
makes an uninstallation write nothing that its author could not.
"""

from __future__ import annotations

import json

import pytest

from tests.stock.virtual import StockCluster
from weir.install.removal import plan, remove
from weir.lowering.names import (
    GATE,
    GRACE,
    LABEL_PREFIX,
    LABEL_VALUE,
    REQUIREMENTS,
    TOLERATIONS,
    daemonset_hash,
    label_key,
    marker_key,
    requirement_hash,
    toleration_hash,
)
from weir.lowering.tolerations import MOST_ORIGINALS, read_originals
from weir.operator.controller import UNUSED_SECONDS

GT = {"key": "sla", "operator": "Gt", "value": "900"}
GT_HASH = toleration_hash(GT)
EVERYTHING = {"operator": "Exists"}
ANY_CEL = {"operator": "CEL", "value": "true"}
NEWER = {"key": "v", "operator": "SemverGt", "values": ["1.0.0"]}


def under_own_hash(*entries):
    return {toleration_hash(entry): entry for entry in entries}


#: Texts of the annotation: what somebody might try, and none of which lowering writes.
FORGED = {
    "not JSON": "{",
    "a list": "[]",
    "a number": "5",
    "NaN": '{"a": NaN}',
    "deep": "[" * 100_000,
    "deep inside": '{"aaaaaaaaaaaaaaaaaaaa": ' + '{"a":' * 50_000,
    "a long number": '{"a": ' + "9" * 100_000 + "}",
    "a lone surrogate": '{"a": {"key": "\\ud800", "operator": "Gt", "value": "1"}}',
    "tolerates everything": json.dumps({"a" * 20: EVERYTHING}),
    "everything under its own hash": json.dumps(under_own_hash(EVERYTHING)),
    "everything under another's hash": json.dumps({GT_HASH: EVERYTHING}),
    "an expression under another's hash": json.dumps({GT_HASH: ANY_CEL}),
    "an expression with a key": json.dumps(under_own_hash({**ANY_CEL, "key": "a"})),
    "an expression of no language": json.dumps(under_own_hash({"operator": "CEL", "value": "taint."})),
    "a key that is a list": json.dumps({"a" * 20: {"key": ["sla"], "operator": "Gt", "value": "1"}}),
    "a value that is an object": json.dumps({"a" * 20: {"key": "sla", "operator": "Gt", "value": {}}}),
    "an operator that is a list": json.dumps({"a" * 20: {"key": "sla", "operator": ["Gt"]}}),
    "seconds in words": json.dumps({GT_HASH: {**GT, "tolerationSeconds": "soon"}}),
    "seconds as yes": json.dumps({GT_HASH: {**GT, "tolerationSeconds": True}}),
    "seconds beyond a number": json.dumps({GT_HASH: {**GT, "tolerationSeconds": 1 << 80}}),
    "more than a toleration": json.dumps({GT_HASH: {**GT, "expression": "true"}}),
    "a value that is no number": json.dumps(under_own_hash({**GT, "value": "many"})),
    "a hash with a slash": json.dumps({"../../x": GT}),
    "a long hash": json.dumps({"a" * 70_000: GT}),
    "nulls": json.dumps({"a": None, GT_HASH: None}),
}


@pytest.fixture(scope="module")
def stock():
    with StockCluster() as cluster:
        cluster.node("n", v="2.0.0")
        cluster.node("m")
        cluster.set_taints("n", ("sla", "950", "NoSchedule"))
        cluster.set_taints("m", ("dedicated", "other", "NoSchedule"))
        cluster.advance(2)
        yield cluster


@pytest.fixture(autouse=True)
def nothing_fails(stock, caplog):
    """Whatever is written, the operator goes on and an administrator's taint passes."""
    yield
    assert "failed" not in caplog.text and "Traceback" not in caplog.text
    number = stock.__dict__["flips"] = stock.__dict__.get("flips", 1000) + 1
    stock.set_taints("n", ("sla", str(number), "NoExecute"))
    stock.set_taints("n", ("sla", "950", "NoSchedule"))
    stock.advance(1)


def values(tolerations):
    return {(each.get("key"), each.get("value"), each.get("effect")) for each in tolerations}


def own(labels):
    return {key for key in labels if key.startswith(LABEL_PREFIX)}


_names = iter(f"p{number}" for number in range(1000))


def written(stock, annotations, *tolerations, **more):
    """Create a pod with these marks; return its tolerations when the operator is done with it, without defaults."""
    name = next(_names)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"tolerations": list(tolerations), "containers": [{"name": "c", "image": "i"}], **more},
    }
    stock.create(pod)
    stock.advance(3)
    found = stock.get("Pod", name)
    return [each for each in found["spec"]["tolerations"] if not (each.get("key") or "").startswith("node.")]


@pytest.mark.parametrize("text", FORGED.values(), ids=FORGED)
def test_what_lowering_would_not_write_is_no_original(text):
    assert read_originals({TOLERATIONS: text}) == {}
    assert read_originals({REQUIREMENTS: text}, REQUIREMENTS) == {}


@pytest.mark.parametrize("what", sorted(set(FORGED) - {"a long hash"}))
def test_a_forged_annotation_gives_no_toleration(stock, what):
    hashes = ["a" * 20, GT_HASH]
    hashes += [toleration_hash(each) for each in (EVERYTHING, {**ANY_CEL, "key": "a"})]
    markers = [{"key": marker_key(each), "operator": "Exists"} for each in hashes]
    found = written(stock, {TOLERATIONS: FORGED[what], REQUIREMENTS: FORGED[what]}, *markers)
    assert [each for each in found if each not in markers] == []


def test_a_mark_on_a_living_pod_gives_what_its_author_declares_and_nothing_else(stock):
    name = next(_names)
    stock.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"no": "where"}},
        }
    )
    stock.advance(1)
    for text in (FORGED["everything under another's hash"], FORGED["everything under its own hash"]):
        stored = stock.get("Pod", name)["spec"]["tolerations"]
        markers = [
            {"key": marker_key(hash_), "operator": "Exists"}
            for hash_ in (GT_HASH, toleration_hash(EVERYTHING))
            if not any(each.get("key") == marker_key(hash_) for each in stored)
        ]
        patch = {"metadata": {"annotations": {TOLERATIONS: text}}, "spec": {"tolerations": stored + markers}}
        stock.patch("Pod", name, patch, "default")
        stock.advance(2)
        keys = {each.get("key") for each in stock.get("Pod", name)["spec"]["tolerations"]}
        assert not keys & {"sla", "dedicated"}


def test_originals_beyond_the_bound_are_not_read():
    many = under_own_hash(*({**GT, "value": str(value)} for value in range(MOST_ORIGINALS + 50)))
    assert len(read_originals({TOLERATIONS: json.dumps(many)})) == MOST_ORIGINALS
    assert read_originals({TOLERATIONS: json.dumps(many) + " " * 300_000}) == {}


def test_a_gate_that_somebody_wrote_holds_nobody_for_ever(stock):
    name = next(_names)
    stock.run_pod(name, schedulingGates=[{"name": GATE}])
    assert not stock.get("Pod", name)["spec"].get("schedulingGates")


def test_a_selector_on_a_label_of_another_holds_nobody(stock):
    """It is pending because no node has the label, as it would be without the operator."""
    name = next(_names)
    stock.run_pod(name, nodeSelector={LABEL_PREFIX + "ab" * 10: LABEL_VALUE})
    assert not stock.get("Pod", name)["spec"].get("schedulingGates")


@pytest.mark.parametrize(
    "requirement, hash_",
    [
        (NEWER, "not its own"),
        (NEWER, "../../etc"),
        ({**NEWER, "operator": "Exists"}, None),
        ({**NEWER, "operator": "In", "values": ["2.0.0"]}, None),
        ({**NEWER, "values": ["nonsense"]}, None),
        ({**NEWER, "values": [5]}, None),
        ({**NEWER, "values": "1.0.0"}, None),
        ({**NEWER, "key": "a b"}, None),
        ({**NEWER, "more": 1}, None),
    ],
)
def test_forged_requirements_give_nodes_no_label(stock, requirement, hash_):
    hash_ = hash_ or requirement_hash({**requirement, "values": list(requirement["values"])})
    before = own(stock.get("Node", "n")["metadata"]["labels"])
    annotations = {REQUIREMENTS: json.dumps({hash_: requirement})}
    written(stock, annotations)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": next(_names), "annotations": annotations},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
        },
    }
    stock.create(volume)
    stock.advance(2)
    assert own(stock.get("Node", "n")["metadata"]["labels"]) == before


def test_labels_that_somebody_wrote_on_a_node_go_and_do_no_harm(stock):
    forged = {LABEL_PREFIX + text: value for text, value in (("ab" * 10, "true"), ("x", "false"), ("y", ""))}
    stock.patch("Node", "n", {"metadata": {"labels": forged}})
    stock.advance(10)
    stock.set_taints("n", ("sla", "951", "NoSchedule"))
    stock.advance(UNUSED_SECONDS + 200)
    assert not own(stock.get("Node", "n")["metadata"]["labels"]) & forged.keys()


def test_a_pod_that_says_it_is_a_daemons_keeps_no_label_on_a_node(stock):
    """The label of another namespace's DaemonSet does not stay for the sake of a pod that selects it."""
    rules = stock.operators[0].rules
    daemonset = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [GT]},
            },
        },
    }
    stock.create(daemonset)
    stock.advance(3)
    (label,) = rules.labels.daemonsets
    assert label == label_key(daemonset_hash("default", "d", [GT]))
    assert rules.runs_here(label, "n")
    stock.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mallory"}})
    stock.advance(1)
    stock.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "x", "namespace": "mallory"},
            "spec": {
                "nodeName": "m",
                "nodeSelector": {label: LABEL_VALUE},
                "containers": [{"name": "c", "image": "i"}],
                "tolerations": [EVERYTHING],
            },
        }
    )
    stock.advance(1)
    assert not rules.runs_here(label, "m")
    stock.delete("DaemonSet", "d", "default")
    stock.advance(3)
    assert rules.labels.daemonsets == {}


def test_a_daemonset_cannot_take_the_label_of_another():
    """One from before the installation, whose template names the label that another will have."""
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    victim = label_key(daemonset_hash("default", "d", [GT]))

    def daemonset(name, **spec):
        return {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"app": "d"}},
                "template": {**template, "spec": {**template["spec"], **spec}},
            },
        }

    with StockCluster(install=False) as cluster:
        cluster.node("n", "sla=950:NoSchedule")
        cluster.create(daemonset("a", nodeSelector={victim: LABEL_VALUE}, tolerations=[EVERYTHING]))
        cluster.install()
        cluster.create(daemonset("d", tolerations=[GT]))
        cluster.advance(3)
        found = cluster.operators[0].rules
        assert found._owners[victim].name == "d" and GT in found.labels.daemonsets[victim]


def test_forged_grace_is_its_authors_own_affair(stock):
    forged = [
        {"key": GRACE, "operator": "Exists"},
        {"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10},
    ]
    found = written(stock, {TOLERATIONS: FORGED["tolerates everything"]}, *forged)
    assert found == forged


def test_an_uninstallation_reads_forged_marks_and_lets_go_only_what_is_held():
    """Nothing of what an annotation says is written to anything."""
    with StockCluster() as cluster:
        cluster.node("n")
        for number, text in enumerate(FORGED.values()):
            if len(text) > 60_000:
                continue
            metadata = {"annotations": {TOLERATIONS: text, REQUIREMENTS: text}, "labels": {"app": "x"}}
            spec = {
                "containers": [{"name": "c", "image": "i"}],
                "tolerations": [{"key": marker_key(GT_HASH), "operator": "Exists"}],
            }
            cluster.create(
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": f"d{number}", "namespace": "default"},
                    "spec": {
                        "selector": {"matchLabels": {"app": "x"}},
                        "template": {"metadata": metadata, "spec": spec},
                    },
                }
            )
        cluster.advance(5)

        def stored():
            return [
                (each["metadata"]["name"], each["spec"]["tolerations"])
                for each in cluster.list("Pod", "default")
            ]

        before = stored()
        found = cluster._do(plan(cluster.client))
        assert found.workloads == (), "nobody relies on the operator"

        async def take_out():
            return [line async for line in remove(cluster.client, found)]

        assert not [line for line in cluster._do(take_out()) if "let go" in line]
        assert stored() == before
