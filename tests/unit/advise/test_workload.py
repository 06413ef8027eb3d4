"""Who is one value from nowhere, which entries nothing uses, and which change would help."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.advise.clusters import APART, ask, entry, node, workload
from weir.advise.question import Question
from weir.advise.workload import Advice, advise


def said(advice: Advice) -> list[tuple[str, str, str]]:
    return [(change.kind, change.toleration.key, change.value) for change in advice.changes]


def test_all_nodes_share_the_value_it_rests_on():
    nodes = [node("n1", sla="951"), node("n2", sla="951"), node("n3", sla="940"), node("n4", sla="700")]
    found = advise(ask(workload(entry("sla", "Gt", "950"), replicas=2), *nodes))
    assert (str(found.resting_on), found.rank[0]) == ("sla=951:NoSchedule", 1)
    assert said(found) == [("loosen", "sla", "939")] and found.changes[0].nodes == {"n1", "n2", "n3"}


def test_two_values_are_not_fragile_and_nothing_is_advised():
    nodes = [node("n1", sla="951"), node("n2", sla="960")]
    found = advise(ask(workload(entry("sla", "Gt", "950"), replicas=2), *nodes))
    assert (found.fragile, found.changes, found.rank[0]) == (False, (), 3)


def test_a_node_without_the_taint_is_enough():
    found = advise(ask(workload(entry("sla", "Gt", "950")), node("n1", sla="951"), node("n2")))
    assert (found.fragile, found.nodes) == (False, {"n1", "n2"})


def test_another_entry_that_takes_the_next_value_too_is_enough():
    entries = [entry("sla", "Gt", "950"), entry("sla", "Lt", "951")]
    assert not advise(ask(workload(*entries), node("n1", sla="960"))).fragile


def test_an_exact_value_is_no_threshold():
    assert not advise(ask(workload(entry("sla", "Equal", "951")), node("n1", sla="951"))).fragile


def test_nowhere_to_go_gets_the_nearest_value_that_gives_enough():
    nodes = [node("n1", sla="900"), node("n2", sla="800"), node("n3", sla="10")]
    found = advise(ask(workload(entry("sla", "Gt", "950"), replicas=2, **APART), *nodes))
    assert (found.rank[0], said(found), found.changes[0].nodes) == (
        0,
        [("loosen", "sla", "799")],
        {"n1", "n2"},
    )


def test_the_most_that_one_threshold_gives_when_none_gives_enough():
    found = advise(
        ask(
            workload(entry("sla", "Gt", "950"), replicas=9, **APART),
            node("n1", sla="900"),
            node("n2", sla="800"),
        )
    )
    assert said(found) == [("loosen", "sla", "799")]


def test_fewer_than_wanted_and_keep_says_how_many_are():
    nodes = [node("n1", sla="951"), node("n2", sla="960"), node("n3", sla="10")]
    question = ask(workload(entry("sla", "Gt", "950")), *nodes)
    assert (advise(question).rank[0], advise(question, keep=3).rank[0]) == (3, 2)
    assert said(advise(question, keep=3)) == [("loosen", "sla", "9")]


SMALL = {"status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "9"}}}
ONE_CPU = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}
OWN = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}


def named(name: str, **more: Any) -> dict[str, Any]:
    made = node(name) | more
    made["metadata"]["labels"]["kubernetes.io/hostname"] = name
    return made


@pytest.mark.parametrize(
    "spec, wanted",
    [
        ({}, 1),
        (APART, 4),
        ({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [OWN]}}}, 4),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **OWN}]},
            3,
        ),
        ({"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **OWN}]}, 1),
        ({"nodeSelector": {"kubernetes.io/hostname": "n1"}}, 1),
        (ONE_CPU, 1),
        (
            {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1500m"}}}]},
            4,
        ),
    ],
)
def test_nodes_are_wanted_where_replicas_need_them(spec, wanted):
    found = advise(ask(workload(replicas=4, **spec), *(named(f"n{number}", **SMALL) for number in range(3))))
    assert (found.keep, found.rank[0]) == (wanted, 3 if wanted < 4 else 2)


def test_an_entry_that_no_taint_needs_goes_and_those_of_conditions_stay():
    entries = [
        entry("gpu", "Exists"),
        entry("node.kubernetes.io/not-ready", "Exists", effect="NoExecute"),
        entry("sla", "Gt", "10"),
        entry("sla", "Lt", "10", effect="NoExecute"),
    ]
    found = advise(ask(workload(*entries), node("n1", sla="951"), node("n2")))
    assert [(each.key, each.effect) for each in found.unused] == [("gpu", ""), ("sla", "NoExecute")]
    assert found.changes[0].after.pod_spec["tolerations"] == entries[1:]


def test_an_entry_that_waits_for_another_value_is_used():
    entries = [entry("sla", "Gt", "990"), entry("sla", "Gt", "10")]
    assert advise(ask(workload(*entries), node("n1", sla="951"), node("n2"))).unused == ()


def test_an_expression_is_used_where_it_holds():
    entries = [{"expression": f"taint.key == '{key}'"} for key in ("sla", "gpu")]
    found = advise(ask(workload(*entries), node("n1", sla="951")))
    assert [each.expression for each in found.unused] == ["taint.key == 'gpu'"]


def test_an_entry_behind_one_that_shortens_a_stay_is_used():
    entries = [entry("sla", "Gt", "10", effect="NoExecute", tolerationSeconds=5), entry("sla", "Exists")]
    assert advise(ask(workload(*entries), node("n1", effect="NoExecute", sla="951"))).unused == ()


def test_what_is_refused_is_said():
    found = advise(ask(workload(entry("sla", "Gt", "many")), node("n1")))
    assert found.refused and found.nodes == frozenset()


ENTRIES = st.lists(
    st.builds(
        entry,
        st.sampled_from(["sla", "gpu"]),
        st.sampled_from(["Gt", "Lt"]),
        st.integers(-3, 3).map(str),
    ),
    max_size=3,
)
NODES = st.lists(
    st.dictionaries(st.sampled_from(["sla", "gpu"]), st.integers(-3, 3).map(str)), min_size=1, max_size=5
)


def rebuilt(question: Question, document: Any, nodes: list[dict[str, str]]) -> frozenset[str]:
    """Return what a question about *document* in a cluster made anew is answered."""
    return ask(document, *(node(f"n{at}", **taints) for at, taints in enumerate(nodes))).fitting()


@settings(max_examples=60)
@given(entries=ENTRIES, nodes=NODES, keep=st.integers(1, 3))
def test_everything_advised_holds_when_it_is_asked_about_anew(entries, nodes, keep):
    question = ask(workload(*entries), *(node(f"n{at}", **taints) for at, taints in enumerate(nodes)))
    found = advise(question, keep)
    for change in found.changes:
        assert rebuilt(question, change.after.document, nodes) == change.nodes
        assert (
            change.nodes == found.nodes if change.kind == "remove" else len(change.nodes) > len(found.nodes)
        )
    if found.resting_on is not None:
        key, value = found.resting_on.key, found.resting_on.value
        thresholds = [each["value"] for each in entries if each["key"] == key]
        moved = [{**taints, key: thresholds[0]} if taints.get(key) == value else taints for taints in nodes]
        left = rebuilt(question, question.subject.document, moved)
        assert left == frozenset() or len(thresholds) > 1
