"""Reviews that nothing in the cluster backs: forged, dry, refused later. None leaves a trace.

They are given to the operator as if the API server had sent them: who has the secret is heard, and still not believed.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.cases import sample, table
from tests.stock.virtual import StockCluster
from weir import errors
from weir.lowering import webhooks
from weir.lowering.names import KNOWN_TRIPLES, NAMESPACE
from weir.operator import barrier, hooks
from weir.operator.holds import HOLD_SECONDS
from weir.operator.known_triples import KnownTriples, NotRecorded
from weir.operator.review_types import decode_review

GT = {"key": "sla", "operator": "Gt", "value": "0"}
DAEMON = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "d", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {
            "metadata": {"labels": {"app": "d"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}


@pytest.fixture
def stock():
    with StockCluster() as cluster:
        cluster.node("n")
        cluster.run_pod("p", GT)
        assert cluster.where("p") == "n"
        yield cluster


def taints(*values, effect="NoExecute", key="sla"):
    return [{"key": key, "value": str(value), "effect": effect} for value in values]


def update(stock, *, uid=None, name="n", new=(), **more):
    """Return a review of a node's update, true but for what is given."""
    stored = stock.get("Node", "n")
    metadata = {"name": name, "uid": uid or stored["metadata"]["uid"]}
    old = {"metadata": metadata, "spec": {}}
    request = {"uid": "u", "name": name, "oldObject": old, "object": {**old, "spec": {"taints": list(new)}}}
    return {"request": {"kind": {"kind": "Node"}, "operation": "UPDATE", **request, **more}}


def told(stock, review, path=webhooks.NODE_BARRIER_PATH):
    """Return code and message of the answer; 200 for a yes."""
    response = stock._do(stock.operators[0].review(path, review))["response"]
    status = response.get("status") or {}
    return (200, "") if response["allowed"] else (status["code"], status["message"])


def rows(stock):
    found = stock.get("ConfigMap", KNOWN_TRIPLES, NAMESPACE) or {}
    return found.get("data") or {}


def trace(stock):
    """Return all that a review could leave behind."""
    pod, node = stock.get("Pod", "p"), stock.get("Node", "n")
    operator = stock.operators[0]
    return (
        rows(stock),
        pod["spec"]["tolerations"],
        node["metadata"]["labels"],
        len(operator.barrier._holds),
        dict(operator.rules.labels.daemonsets),
        [each["reason"] for each in stock.list("Event") if each["involvedObject"]["kind"] == "Node"],
    )


def lies(stock):
    new = taints(950, 960)
    real = stock.get("Node", "n")["metadata"]["uid"]
    yield "another uid", update(stock, uid="00000000-0000-0000-0000-000000000000", new=new)
    yield "no such node", update(stock, name="ghost", new=new)
    yield (
        "created, and nobody is there",
        {
            "request": {
                "operation": "CREATE",
                "name": "ghost",
                "object": {"metadata": {"name": "ghost"}, "spec": {"taints": new}},
            }
        },
    )
    yield (
        "created, and there already",
        {
            "request": {
                "operation": "CREATE",
                "name": "n",
                "object": {"metadata": {"name": "n"}, "spec": {"taints": new}},
            }
        },
    )
    yield (
        "one name outside, another inside",
        update(stock, new=new) | {"request": {**update(stock, new=new)["request"], "name": "other"}},
    )
    renamed = update(stock, new=new)["request"]
    yield (
        "renamed",
        {"request": {**renamed, "object": {"metadata": {"name": "m", "uid": real}, "spec": {"taints": new}}}},
    )
    yield "dry", update(stock, new=new, dryRun=True)
    yield "two megabytes", update(stock, new=taints("9" * 2_000_000))
    yield "a key of no form", update(stock, new=taints(1, key="a b\n"))
    yield "an effect of no kind", update(stock, new=taints(1, effect="NoWay"))
    yield "1,500 at once", update(stock, new=taints(*range(1500)))


def test_a_review_that_the_cluster_does_not_back_leaves_no_trace(stock):
    before = trace(stock)
    for what, review in lies(stock):
        told(stock, review)
        stock.advance(1)
        assert trace(stock) == before, what
    stock.set_taints("n", ("sla", "970", "NoExecute"))  # and the administrator's own taint passes
    stock.advance(2)
    assert stock.where("p") == "n" and len(rows(stock)) == 1


def test_a_write_that_is_never_stored_is_forgotten_and_repeats_do_not_renew_it(stock):
    """It holds the node's uid and all: only the write never comes, because another webhook refuses it."""
    review = update(stock, new=taints(950))
    for _ in range(40):
        assert told(stock, review)[0] == 200
        stock.advance(5)
    assert len(rows(stock)) == 1
    stock.advance(HOLD_SECONDS + 2 * 60)
    assert rows(stock) == {}


def test_what_is_announced_and_never_stored_is_bounded_and_the_pods_stay_small(stock):
    """Whoever has the secret and the uid of a node cannot fill the table, nor a pod, however long he tries."""
    codes = set()
    for number in range(100):
        values = range(number * hooks.MOST_NEW_TAINTS, (number + 1) * hooks.MOST_NEW_TAINTS)
        codes.add(told(stock, update(stock, new=taints(*values)))[0])
    assert codes == {200, 429}
    assert len(rows(stock)) <= barrier.MOST_HELD
    assert len(stock.get("Pod", "p")["spec"]["tolerations"]) <= barrier.MOST_HELD + 10
    assert stock.run_pod("q", GT), "new pods are not refused"
    stock.advance(HOLD_SECONDS + 3 * 60)
    assert rows(stock) == {}
    refilled = (HOLD_SECONDS + 3 * 60) / barrier.REFILL_SECONDS
    again = taints(*range(10_000, 10_000 + hooks.MOST_NEW_TAINTS))
    assert told(stock, update(stock, new=again))[0] == 429, "tokens come back slowly"
    assert told(stock, update(stock, new=again[: int(refilled) - 2]))[0] == 200


def test_writes_that_are_stored_cost_nothing(stock):
    for number in range(barrier.MOST_HELD // 50):
        for _ in range(2):  # more in all than may be held at once
            stock.set_taints("n", *((f"k{each}", str(number), "NoSchedule") for each in range(60)))
        stock.advance(1)
    assert len(stock.operators[0].barrier._holds) == 0


def test_a_node_that_comes_back_under_its_name_evicts_nobody(stock):
    """Its pods are bound before it is there, so this review is believed about them."""
    stored = stock.get("Node", "n")
    name = stored["metadata"]["name"]
    stock.delete("Node", "n")
    stock.advance(0.1)
    review = {
        "request": {
            "operation": "CREATE",
            "name": name,
            "object": {"metadata": {"name": name}, "spec": {"taints": taints(955)}},
        }
    }
    assert told(stock, review)[0] == 200
    values = [each.get("value") for each in stock.get("Pod", "p")["spec"]["tolerations"]]
    assert "955" in values and rows(stock) == {}


# ── DaemonSets ───────────────────────────────────────────────────────────────────────────────────


def daemon_review(stored, value, *, name=None, uid=None, **more):
    metadata = {**stored["metadata"], **({"uid": uid} if uid else {}), **({"name": name} if name else {})}
    old = {**stored, "kind": "DaemonSet", "metadata": metadata}
    template = old["spec"]["template"]
    spec = {**template["spec"], "tolerations": [{"key": "sla", "operator": "Gt", "value": str(value)}]}
    new = {**old, "spec": {**old["spec"], "template": {**template, "spec": spec}}}
    request = {"uid": "u", "kind": {"kind": "DaemonSet"}, "name": metadata["name"], "namespace": "default"}
    return {"request": {**request, "object": new, "oldObject": old, **more}}


def own_labels(stock):
    return [
        label
        for label in stock.get("Node", "n")["metadata"]["labels"]
        if label.startswith("lowered.weir.dev/")
    ]


def test_forged_reviews_of_daemonsets_give_nodes_no_labels(stock):
    stored = stock.create(DAEMON)
    stock.advance(2)
    for review in (
        daemon_review(stored, 1, uid="00000000-0000-0000-0000-000000000000"),
        daemon_review(stored, 1, name="ghost"),
        daemon_review(stored, 1, dryRun=True),
    ):
        told(stock, review, webhooks.DAEMONSET_PATH)
        assert own_labels(stock) == []


def test_a_daemonset_that_is_announced_again_and_again_has_one_label_and_loses_it_when_it_is_not_stored(
    stock,
):
    stored = stock.create(DAEMON)
    stock.advance(2)
    for value in range(201):
        code, _ = told(stock, daemon_review(stored, value), webhooks.DAEMONSET_PATH)
        assert code in (200, 429)
        stock.advance(0.1)
        assert len(own_labels(stock)) == 1, "it keeps the label it was given"
    stock.advance(HOLD_SECONDS + 3 * 60)
    assert own_labels(stock) == [] and stock.operators[0].rules.labels.daemonsets == {}
    code, _ = told(stock, daemon_review(stored, 1), webhooks.DAEMONSET_PATH)
    assert code == 200


def test_a_daemonset_that_is_stored_keeps_its_label(stock):
    stock.create(DAEMON)
    stock.advance(2)
    tolerations = [{"key": "sla", "operator": "Gt", "value": "5"}]
    stock.patch("DaemonSet", "d", {"spec": {"template": {"spec": {"tolerations": tolerations}}}}, "default")
    stock.advance(HOLD_SECONDS + 3 * 60)
    assert len(own_labels(stock)) == 1 and len(stock.operators[0].rules._holds) == 0


# ── the table ────────────────────────────────────────────────────────────────────────────────────


def test_one_bad_row_never_spoils_a_batch(stock, monkeypatch, caplog):
    from weir.lowering.triples import Triple, table_key

    known = KnownTriples(stock.client, stock.clock, "default")
    dropped = []
    known.dropped = lambda: dropped.append(1)
    good = [Triple("sla", str(value), "NoExecute") for value in range(40)]
    bad = Triple("sla", "bad", "NoExecute")
    patch = stock.client.patch

    async def picky(kind, name, body, *given, **more):
        if kind.kind == "ConfigMap" and table_key(bad) in body["data"]:
            raise errors.Invalid("data: Too long")
        return await patch(kind, name, body, *given, **more)

    monkeypatch.setattr(stock.client, "patch", picky)

    async def both():
        import asyncio

        return await asyncio.gather(known.add(good), known.add([bad]), return_exceptions=True)

    stock._do(known.add(good[:1]))
    first, second = stock._do(both())
    assert first is None and isinstance(second, NotRecorded)
    assert set(good) <= set(known.known) and bad not in known.known
    assert dropped == [1] and caplog.text.count("takes no row for a taint") == 1
    stock._do(known.add([Triple("sla", "later", "NoExecute")]))  # and the bad one is not tried again


def test_the_table_is_bounded_in_rows_and_bytes(stock, monkeypatch):
    from weir.lowering.triples import Triple
    from weir.operator import known_triples

    monkeypatch.setattr(known_triples, "MOST_PARTS", 1)
    monkeypatch.setattr(known_triples, "MOST_ROWS", 5)
    known = KnownTriples(stock.client, stock.clock, "default")
    stock._do(known.add([Triple("sla", str(value), "NoExecute") for value in range(5)]))
    with pytest.raises(NotRecorded, match="no room"):
        stock._do(known.add([Triple("sla", "6", "NoExecute")]))
    monkeypatch.setattr(known_triples, "MOST_ROWS", 100)
    monkeypatch.setattr(known_triples, "MOST_TABLE_BYTES", 900)
    with pytest.raises(NotRecorded, match="no room"):
        stock._do(known.add([Triple("k" * 60, "v" * 60 + str(value), "NoExecute") for value in range(5)]))


def test_rows_that_somebody_else_wrote_are_not_believed(stock):
    import json

    stock.set_taints("n", ("sla", "970", "NoExecute"))
    forged = {
        "a" * 20: json.dumps(["sla", "1", "NoExecute", "2026-01-01T00:00:00Z"]),  # another's key
        "b": "[" * 100_000,
        "c": json.dumps(["a b", "", "NoWay", ""]),
        "d": json.dumps(["sla", {}, [], 5]),
        "e": "null",
    }
    stock.patch("ConfigMap", KNOWN_TRIPLES, {"data": forged}, NAMESPACE)
    known = stock.operators[0].known
    stock._do(known.read())
    assert [str(each) for each in known.known if each.key == "sla"] == ["sla=970:NoExecute"]


# ── what is shown of it ──────────────────────────────────────────────────────────────────────────


def test_labels_of_metrics_and_lines_of_logs_are_never_a_strangers_text(stock, caplog):
    for what, review in lies(stock):
        told(stock, review)
        assert what
    assert max(map(len, caplog.text.splitlines()), default=0) < 2_000
    page = stock.operators[0].metrics.registry.render()
    assert len(page) < 200_000 and b"ghost" not in page
    paths = set(stock.operators[0].metrics.hook_duration._children)
    assert {labels[0] for labels in paths} <= webhooks.SERVED_PATHS


# ── other types than an API server sends ─────────────────────────────────────────────────────────

WRONG = (None, True, -1, 1e308, 2**70, "", "9" * 5000, [], {}, [None], [[]], {"": None}, {"a": {"b": [1]}})


def places(value, at=()):
    yield at
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in pairs:
        yield from places(member, (*at, key))


def replaced(value, at, other):
    if not at:
        return other
    key, *rest = at
    copy = value.copy()
    copy[key] = replaced(value[key], rest, other)
    return copy


REQUIREMENT = {"key": "v", "operator": "SemverGt", "values": ["1.0.0"]}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [REQUIREMENT], "matchFields": [REQUIREMENT]}]}


def rich_pod(operator):
    """Return a pod with every field that a webhook reads."""
    owner = {"kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    fields = {"f:spec": {"f:tolerations": {}}}
    managers = [{"manager": "m", "operation": "Update", "subresource": "", "fieldsV1": fields}]
    annotations = {"weir.dev/tolerations": '[{key: a, operator: Gt, value: "1"}]', "a": "b"}
    spec = {
        "nodeName": "n",
        "nodeSelector": {"a": "b"},
        "tolerations": [
            {"key": "sla", "operator": operator, "value": "0", "effect": "NoExecute", "tolerationSeconds": 5},
            {"operator": "CEL", "value": "taint.key == 'a'"},
            {"key": "lowered.weir.dev/x-fdcc9d2b737318a9a2b8", "operator": "Exists"},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": TERMS,
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": TERMS["nodeSelectorTerms"][0]}
                ],
            }
        },
        "schedulingGates": [{"name": "lowered.weir.dev/gate"}],
    }
    metadata = {
        "name": "q", "namespace": "default", "uid": "q", "labels": {"a": "b"}, "annotations": annotations,
        "managedFields": managers, "ownerReferences": [owner],
    }  # fmt: skip
    return {"metadata": metadata, "spec": spec}


def true_reviews(stock, path):
    """Return the requests of reviews that mean what they say, one for each kind of object that a webhook is shown."""
    node, pod = stock.get("Node", "n"), stock.get("Pod", "p")
    tainted = {**node, "spec": {**(node.get("spec") or {}), "taints": taints(5)}}
    about = {"uid": "u", "namespace": "default", "dryRun": False, "subResource": "status"}
    return [
        {
            **about,
            "operation": "UPDATE",
            "name": name,
            "kind": {"kind": kind},
            "object": new,
            "oldObject": old,
        }
        for kind, name, new, old in (
            ("Node", "n", tainted, node),
            ("Pod", "p", pod, pod),
            ("DaemonSet", "d", DAEMON, DAEMON),
            ("Pod", "q", rich_pod("Gt"), rich_pod("Lt")),
            ("Deployment", "w", {"spec": {"template": rich_pod("Gt")}}, None),
            ("CronJob", "c", {"spec": {"jobTemplate": {"spec": {"template": rich_pod("Lt")}}}}, None),
            (
                "PersistentVolume",
                "v",
                {"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": TERMS}}},
                None,
            ),
        )
    ]


@table
@pytest.mark.parametrize("path", sorted(webhooks.SERVED_PATHS))
def test_a_field_of_another_type_is_refused_at_the_door_and_ends_in_no_bug(stock, path):
    refused, number = 0, 0
    for request in true_reviews(stock, path):
        for at in list(places(request))[1:]:
            for value in sample(WRONG, len(WRONG), f"{path}{at}"):
                number += 1
                review = {"request": replaced(request, at, value)}
                try:
                    decoded = decode_review(msgspec.json.encode(review))
                except ValueError:
                    refused += 1
                else:
                    told(stock, decoded, path)
    assert 0 < refused < number
