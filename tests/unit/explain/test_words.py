"""Sentences: both sides of every comparison, no operator by its API name, and the scheduler's own message."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.explain.explanation import verdict_line
from weir.explain.phrases import duration, listed
from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.explain.words import node_sentence, sentence, stay_sentence
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS, Gates
from weir.objects.core import Taint, Toleration
from weir.scheduler.reasons import TooFew, UntoleratedTaint
from weir.taints.eviction import stay
from weir.taints.toleration import Outcome, tolerates
from weir.world import World

OFF = KUBERNETES_DEFAULTS


def said(
    taint: str, *tolerations: dict[str, Any], gates: Gates = ALL_FEATURES, effect: str = "NoSchedule"
) -> str:
    """What explain says about a node with `key=value` and a pod with these tolerations."""
    key, _, value = taint.partition("=")
    node = {
        "kind": "Node",
        "metadata": {"name": "n1"},
        "spec": {"taints": [{"key": key, "value": value, "effect": effect}]},
    }
    pod = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"tolerations": list(tolerations)}}
    return node_sentence(explain(pod, World.of([node]), gates).nodes[0])


def tolerate(operator: str = "", value: str = "", **rest: Any) -> dict[str, Any]:
    return {"key": "sla", "operator": operator, "value": value, **rest}


@pytest.mark.parametrize(
    ("taint", "toleration", "text"),
    [
        ("sla=940", tolerate("Gt", "950"), "sla=940, needs > 950: refused"),
        ("sla=5", tolerate("Lt", "5"), "sla=5, needs < 5: refused"),
        ("sla=a", tolerate("Equal", "b"), "sla=a, needs = b: refused"),
        ("sla=a", tolerate("", "b"), "sla=a, needs = b: refused"),
        ("sla=a", tolerate("Equal", ""), 'sla=a, needs = "": refused'),
        ("sla=1.2.0", tolerate("SemverGt", "2"), "sla=1.2.0, needs version > 2: refused"),
        (
            "sla=high",
            tolerate("Gt", "9"),
            "sla=high, needs > 9: high is not an integer in plain form: refused",
        ),
        (
            "sla=",
            tolerate("Gt", "9"),
            "sla, needs > 9: an empty value is not an integer in plain form: refused",
        ),
        ("sla=x", tolerate("SemverLt", "2"), "sla=x, needs version < 2: x is not a version: refused"),
        (
            "sla=5.15.0-78-generic",
            tolerate("SemverGt", "5.15.0"),
            "sla=5.15.0-78-generic, needs version > 5.15.0: its suffix makes it a prerelease, below 5.15.0: refused",
        ),
        ("sla=1", tolerate("In", "1"), "sla=1, needs In 1: an operator nobody knows: refused"),
        (
            "sla=1",
            tolerate("Exists", effect="NoExecute"),
            "sla=1 has the effect NoSchedule, tolerated only for NoExecute: refused",
        ),
        ("gpu=1", tolerate("Exists"), "gpu=1 (NoSchedule), no toleration for this key: refused"),
        (
            "sla=1",
            {"expression": "taint.key == 'sla' && taint.value == '2'"},
            "sla=1, needs taint.value == '2' (false): refused",
        ),
    ],
)
def test_an_untolerated_taint_is_spelled_out(taint, toleration, text):
    assert said(taint, toleration) == text


def test_alternatives_are_joined():
    assert said("sla=800", tolerate("Equal", "900"), tolerate("Gt", "900")) == (
        "sla=800, needs = 900 or > 900: refused"
    )


def test_a_gate_that_is_off_is_named():
    assert said("sla=960", tolerate("Gt", "950"), gates=OFF) == (
        "sla=960, needs > 950: not compared, feature gate TaintTolerationComparisonOperators is off: refused"
    )


def test_an_expression_with_its_gate_off_is_not_evaluated():
    assert "feature gate TaintTolerationCEL is off" in said("a=1", {"expression": "true"}, gates=OFF)


@given(
    value=st.sampled_from(["", "1", "x", "1.2", "0950"]),
    operator=st.sampled_from(["Gt", "Lt", "Equal", "Exists", "SemverGt", "SemverLt", "SemverEq", ""]),
    asked=st.sampled_from(["", "1", "x", "2.0.0"]),
)
def test_no_sentence_about_a_known_operator_uses_its_api_name(value, operator, asked):
    toleration = Toleration("sla", operator, asked)
    outcome = tolerates(toleration, Taint("sla", value, "NoSchedule"), ALL_FEATURES)
    text = said(f"sla={value}", tolerate(operator, asked))
    assert (text == "fits") == (outcome is Outcome.TOLERATED)
    assert not {"Gt", "Lt", "Equal", "Exists", "SemverGt", "SemverLt", "SemverEq"} & set(text.split())


def test_room_is_said_in_the_units_people_write():
    assert sentence(TooFew("cpu", 1500, 4000, 3000)) == "cpu: needs 1500m, 1 free of 4"
    assert sentence(TooFew("memory", 2**31, 2**30, 2**31)) == "memory: needs 2Gi, 0 free of 1Gi"
    assert sentence(TooFew("example.com/gpu", 2, 0, 0)) == "example.com/gpu: needs 2, the node has none"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (30, "evicted after 30 s: risk=2 is tolerated only that long"),
        (0, "deleted at once: risk=2 is tolerated for no time"),
    ],
)
def test_how_long_a_pod_may_stay(seconds, text):
    toleration = Toleration("risk", "Lt", "5", "NoExecute", seconds)
    assert stay_sentence(stay([Taint("risk", "2", "NoExecute")], [toleration], ALL_FEATURES)) == text


def test_an_untolerated_taint_leaves_no_time():
    assert stay_sentence(stay([Taint("risk", "2", "NoExecute")], [], KUBERNETES_DEFAULTS)) == (
        "deleted at once: risk=2 is not tolerated"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min 1 s"), (172800, "2 d")]
)
def test_durations_are_told_in_the_largest_units(seconds, text):
    assert duration(timedelta(seconds=seconds)) == text


def test_long_lists_are_cut_but_not_to_save_one_name():
    assert [listed(list("abcde")[:n]) for n in range(6)] == [
        "", "a", "a and b", "a, b and c", "a, b and 2 more", "a, b and 3 more",
    ]  # fmt: skip


# ── the scheduler's message ──


def node(name: str, *taints: str, **status: Any) -> dict[str, Any]:
    entries = [
        dict(zip(("key", "value", "effect"), t.replace("=", ":").split(":"), strict=True)) for t in taints
    ]
    return {"kind": "Node", "metadata": {"name": name}, "spec": {"taints": entries}, "status": status}


def message(*documents: dict[str, Any], **spec: Any) -> str:
    pod = {"kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    return explain(Subject.of(pod, stored=True), World.of(documents), ALL_FEATURES).attempt.message


def small(name: str) -> dict[str, Any]:
    return node(name, allocatable={"cpu": "1", "memory": "1", "pods": "9"})


WANTS = [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "2"}}}]


@pytest.mark.parametrize(
    ("documents", "spec", "text"),
    [
        ([], {}, "no nodes available to schedule pods"),
        ([node("n1")], {}, ""),
        (
            [node("n1", "a=1:NoSchedule"), node("n2", "b=2:NoExecute")],
            {},
            "0/2 nodes are available: 1 node(s) had untolerated taint {a: 1}, 1 node(s) had untolerated taint "
            "{b: 2}. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        (
            [node("n1", "a=1:NoSchedule", "b=2:NoSchedule")],
            {"nodeSelector": {"x": "y"}},
            "0/1 nodes are available: 1 node(s) had untolerated taint {a: 1}. preemption: 0/1 nodes are "
            "available: 1 Preemption is not helpful for scheduling.",
        ),
        (
            [small("n1"), small("n2"), small("n3")],
            {"containers": WANTS},
            "0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory. preemption: 0/3 nodes are "
            "available: 3 Preemption is not helpful for scheduling.",
        ),
        (
            [small("n1")],
            {"containers": WANTS, "preemptionPolicy": "Never"},
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. preemption: not eligible due "
            "to preemptionPolicy=Never.",
        ),
    ],
)
def test_the_schedulers_message_is_its_own(documents, spec, text):
    assert message(*documents, **spec) == text


def by_name(*terms: list[str]) -> dict[str, Any]:
    selector = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}
        for names in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selector}}
    return {"affinity": {"nodeAffinity": required}}


def test_nodes_left_out_by_name_are_counted_apart():
    assert message(node("n1", "a=1:NoSchedule"), node("n2"), node("n3"), **by_name(["n1"], ["ghost"])) == (
        "0/3 nodes are available: 1 node(s) had untolerated taint {a: 1}, 2 node(s) didn't satisfy plugin(s) "
        "[NodeAffinity]. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )


def test_names_that_contradict_each_other_are_a_conflict():
    assert message(node("n1"), **by_name(["n1", "n2"])) == (
        "0/1 nodes are available: pod affinity terms conflict. preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    )


def test_an_unusable_claim_is_said_once_for_all_nodes():
    claimed = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    other = {"kind": "PersistentVolumeClaim", "metadata": {"name": "other"}, "spec": {}}
    assert message(node("n1"), other, volumes=claimed) == (
        '0/1 nodes are available: persistentvolumeclaim "data" not found. preemption: 0/1 nodes are available: '
        "1 Preemption is not helpful for scheduling."
    )


@pytest.mark.parametrize(
    ("priority", "preemption"),
    [
        (0, " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."),
        (5, " preemption: found a potential placement for pod on node n1, preempting 1 victims"),
    ],
)
def test_whether_preemption_helps_is_tried(priority, preemption):
    holder = {
        "kind": "Pod",
        "metadata": {"name": "holder"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]},
    }
    full = node("n1", allocatable={"cpu": "4", "memory": "4", "pods": "9"})
    said = message(full, holder, containers=WANTS, priority=priority)
    assert said == "0/1 nodes are available: 1 Insufficient cpu." + preemption


def test_the_histogram_is_sorted_as_text():
    nodes = [node(f"n{number}", "z=1:NoSchedule") for number in range(10)]
    others = [node(f"m{number}", "a=1:NoSchedule") for number in range(2)]
    assert message(*nodes, *others).startswith(
        "0/12 nodes are available: 10 node(s) had untolerated taint {z: 1}, 2 node(s)"
    )


# ── the verdict ──


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ([], "Pod default/web fits nowhere: the cluster has no nodes"),
        (["a"], "Pod default/web fits on 1 of 1 node: a"),
        (["a", "b", "c", "d", "e"], "Pod default/web fits on 5 of 5 nodes: a, b, c and 2 more"),
    ],
)
def test_the_verdict_is_one_line(names, line):
    pod = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {}}
    assert verdict_line(explain(pod, World.of([node(name) for name in names]), ALL_FEATURES)) == line


@pytest.mark.parametrize(
    ("taint", "line"),
    [
        ("a=1:PreferNoSchedule", "Pod default/web runs on n1 and may stay"),
        ("a=1:NoSchedule", "Pod default/web runs on n1 and may stay, but would not be placed there again"),
        ("a=1:NoExecute", "Pod default/web runs on n1 and would be deleted at once"),
        ("b=1:NoExecute", "Pod default/web runs on n1 and would be evicted after 1 min"),
    ],
)
def test_a_stored_pod_is_told_whether_it_may_stay(taint, line):
    known = [{"key": "b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    pod = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"nodeName": "n1", "tolerations": known}}
    world = World.of([pod, node("n1", taint)])
    assert verdict_line(explain(Subject.of(pod, stored=True), world, ALL_FEATURES)) == line


def test_a_reason_is_a_value():
    assert UntoleratedTaint(Taint("a", "", "NoSchedule")) == UntoleratedTaint(Taint("a", "", "NoSchedule"))
