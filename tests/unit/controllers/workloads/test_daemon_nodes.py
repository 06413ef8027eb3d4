"""Which node a daemon pod is on or meant for, and whether a node should run one."""

from __future__ import annotations

import random

import pytest

from weir.controllers.runtime.views import Node, Pod
from weir.controllers.workloads.daemon_nodes import (
    NEITHER,
    EligibleNodes,
    ShouldRun,
    daemon_tolerations,
    node_of,
    should_run,
    spec_for,
    template_pod,
)
from weir.gates import ALL_FEATURES
from weir.objects.core import Toleration, read
from weir.taints.operators import Outcome


def meant_for(*fields, bound="", key="required"):
    terms = {"nodeSelectorTerms": [{"matchFields": list(fields)}]} if fields else None
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {name: terms}} if terms else {}
    return read(Pod, {"metadata": {"name": "p"}, "spec": {"nodeName": bound, "affinity": affinity}})


def field(operator="In", values=("n1",), key="metadata.name"):
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        (meant_for(field()), "n1"),
        (meant_for(field(), bound="n2"), "n2"),
        (meant_for(), ""),
        (meant_for(field("NotIn")), ""),
        (meant_for(field(key="metadata.namespace")), ""),
        (meant_for(field(values=())), ""),
        (meant_for(field("NotIn", ("n3",)), field()), "n1"),
    ],
)
def test_an_unbound_daemon_pod_belongs_to_the_node_its_affinity_names(pod, node):
    assert node_of(pod) == node


def test_a_pod_made_for_a_node_is_found_again_as_that_nodes():
    made = spec_for({"spec": {"affinity": {"podAffinity": {}}}}, "n7", [])
    assert (node_of(read(Pod, {"spec": made})), made["affinity"]["podAffinity"]) == ("n7", {})


def test_the_templates_own_required_node_affinity_is_replaced_the_preferred_one_kept():
    own = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]},
           "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}  # fmt: skip
    made = spec_for({"spec": {"affinity": {"nodeAffinity": own}}}, "n", [])["affinity"]["nodeAffinity"]
    assert made == {
        **own,
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [field(values=("n",))]}]
        },
    }


def node(*taints, **labels):
    entries = [{"key": "k", "value": "", "effect": effect} for effect in taints]
    return read(Node, {"metadata": {"name": "n", "labels": labels}, "spec": {"taints": entries}})


def template(**spec):
    found = template_pod({"spec": {"template": {"spec": {"containers": [], **spec}}}})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("pod", "there", "answer"),
    [
        (template(), node(), ShouldRun(True, True)),
        (template(nodeName="n"), node(), ShouldRun(True, True)),
        (template(nodeName="other"), node(), ShouldRun(False, False)),
        (template(nodeSelector={"a": "b"}), node(), ShouldRun(False, False)),
        (template(nodeSelector={"a": "b"}), node(a="b"), ShouldRun(True, True)),
        (template(), node("NoSchedule"), ShouldRun(False, True)),
        (template(), node("NoExecute"), ShouldRun(False, False)),
        (template(), node("PreferNoSchedule"), ShouldRun(True, True)),
        (
            template(tolerations=[{"key": "k", "operator": "Exists"}]),
            node("NoExecute"),
            ShouldRun(True, True),
        ),
    ],
)
def test_a_node_runs_daemon_pods_it_selects_and_whose_taints_they_tolerate(pod, there, answer):
    assert should_run(pod, there, ALL_FEATURES) == answer


def some_node(rng, number):
    labels = {key: rng.choice("abc") for key in ("zone", "pool") if rng.random() < 0.8}
    taints = [
        {"key": "k", "value": rng.choice("01"), "effect": rng.choice(["NoSchedule", "NoExecute"])}
        for _ in range(rng.choice([0, 0, 1, 2]))
    ]
    return read(Node, {"metadata": {"name": f"n{number}", "labels": labels}, "spec": {"taints": taints}})


def some_requirement(rng):
    operator = rng.choice(["In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Odd"])
    values = [] if operator in ("Exists", "DoesNotExist") else rng.choices("abc1", k=rng.randrange(3))
    return {"key": rng.choice(["zone", "pool", "not a key"]), "operator": operator, "values": values}


def some_term(rng):
    fields = [
        field(rng.choice(["In", "NotIn"]), rng.choices(["n1", "n2", "n99"], k=rng.choice([1, 1, 2])), key)
        for key in rng.choices(["metadata.name", "metadata.namespace"], (5, 1), k=rng.choice([0, 0, 1, 2]))
    ]
    expressions = [some_requirement(rng) for _ in range(rng.randrange(3))]
    return {"matchFields": fields, "matchExpressions": expressions}


def some_template(rng):
    terms = {"nodeSelectorTerms": [some_term(rng) for _ in range(rng.randrange(3))]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return template(
        nodeName=rng.choice(["", "", "", "n1"]),
        nodeSelector={key: rng.choice("abc") for key in ("zone", "pool") if rng.random() < 0.2},
        affinity=rng.choice([{}, required, required]),
        tolerations=rng.choice([[], [{"key": "k", "value": "1"}], [{"operator": "Exists"}]]),
    )


def test_nodes_that_are_found_are_those_that_each_by_itself_should_run_the_pod():
    rng = random.Random(3)
    nodes = [some_node(rng, number) for number in range(30)]
    eligible, found, none = EligibleNodes(nodes), 0, 0
    for _ in range(300):
        pod = some_template(rng)
        plain = {each.name: should_run(pod, each, ALL_FEATURES) for each in nodes}
        verdicts = [(each.name, verdict) for each, verdict in eligible.verdicts(pod, ALL_FEATURES)]
        assert len(dict(verdicts)) == len(verdicts)
        assert {**dict.fromkeys(plain, NEITHER), **dict(verdicts)} == plain
        found, none = found + bool(verdicts), none + (not verdicts)
    assert found > 50 < none


def test_a_template_is_held_against_the_nodes_it_selects_and_against_every_list_of_taints_once():
    nodes = [
        read(Node, {"metadata": {"name": f"n{i}", "labels": {"pool": "a" if i < 3 else "b"}},
                    "spec": {"taints": [{"key": "k", "value": "1", "effect": "NoSchedule"}]}})
        for i in range(50)
    ]  # fmt: skip
    evaluated = []
    pod = template(nodeSelector={"pool": "a"}, tolerations=[{"expression": "true"}])

    def evaluate(expression, taint):
        evaluated.append(taint)
        return Outcome.TOLERATED

    assert len(list(EligibleNodes(nodes).verdicts(pod, ALL_FEATURES, evaluate))) == 3
    assert len(evaluated) == 1


def test_a_template_that_cannot_be_read_describes_no_pod():
    assert template_pod({"spec": {"template": {"spec": {"tolerations": "all"}}}}) is None


def test_daemons_tolerate_what_a_node_puts_on_itself_the_network_only_on_the_hosts_own():
    keys = [entry.key for entry in daemon_tolerations([], host_network=False)]
    with_network = [entry.key for entry in daemon_tolerations([], host_network=True)]
    assert (len(keys), with_network) == (6, [*keys, "node.kubernetes.io/network-unavailable"])


def test_a_toleration_of_the_template_keeps_its_place_and_loses_its_seconds():
    mine = [
        Toleration("a", "Exists", "", "NoExecute", 5),
        Toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute", 30),
    ]
    found = daemon_tolerations(mine, host_network=False)
    assert (len(found), found[0].toleration_seconds, found[1].toleration_seconds) == (7, 5, None)
