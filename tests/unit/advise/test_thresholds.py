"""Which values of a threshold make a difference, held against every value tried one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.advise.clusters import ask, entry, node, workload
from weir.advise.question import ordered
from weir.advise.thresholds import find_thresholds, ordered_tolerations
from weir.objects.core import Toleration
from weir.taints.operators import OPERATORS

RATED = [
    node("n1", "a", sla="951"),
    node("n2", "b", sla="951"),
    node("n3", "b", sla="940"),
    node("n4", "c", sla="700"),
]


@pytest.mark.proves("5471-23", "1.35-24")
def test_tightest_loosest_and_where_zones_are_lost():
    found = find_thresholds(ask(workload(entry("sla", "Gt", "950")), *RATED), 0, keep=3)
    assert found.steps == ("950", "939", "699")
    assert (found.now.value, found.now.nodes) == ("950", {"n1", "n2"})
    assert (found.tightest.value, found.tightest.nodes) == ("939", {"n1", "n2", "n3"})
    assert (found.loosest.value, len(found.loosest.nodes)) == ("699", 4)
    assert found.zones == (("c", "699"), ("a", "950"), ("b", "950"))


def test_more_nodes_than_any_value_gives():
    assert find_thresholds(ask(workload(entry("sla", "Gt", "950")), *RATED), 0, keep=5).tightest is None


def test_no_node_has_such_a_taint():
    found = find_thresholds(ask(workload(entry("gpu", "Lt", "5")), *RATED, node("n5")), 0, keep=1)
    assert (found.steps, found.now.nodes, found.tightest, found.loosest) == ((), {"n5"}, None, None)


@pytest.mark.parametrize(
    "operator, values, steps",
    [
        ("Lt", {"5", "12", "x"}, ["6", "13"]),
        ("SemverGt", {"1.9.4", "v1.10.2", "not"}, ["v1.10.1", "1.9.3"]),
        ("SemverLt", {"1.9.4", "1.10.0"}, ["1.9.5", "1.10.1"]),
    ],
)
def test_every_ordered_operator_has_its_values(operator, values, steps):
    nodes = [node(f"n{at}", driver=value) for at, value in enumerate(sorted(values))]
    found = find_thresholds(ask(workload(entry("driver", operator, "1")), *nodes), 0, keep=1)
    assert list(found.steps) == steps


def test_a_value_of_another_effect_makes_no_difference():
    nodes = [node("n1", sla="5"), node("n2", effect="NoExecute", sla="9")]
    found = find_thresholds(ask(workload(entry("sla", "Gt", "1", effect="NoExecute")), *nodes), 0, keep=1)
    assert found.steps == ("8",)


def test_only_thresholds_that_can_be_read_are_thresholds():
    entries = [
        Toleration("a", "Gt", "5"), Toleration("a", "Gt", "many"), Toleration("a", "Equal", "5"),
        Toleration("", "Gt", "5"), Toleration("a", "SemverLt", "1.2.3"), Toleration("a", "SemverEq", "1.2.3"),
    ]  # fmt: skip
    assert ordered_tolerations(entries) == [0, 4]


def test_two_spellings_of_one_version_are_one_step():
    assert ordered({"v1.2.0", "1.2.0", "1.3.0"}, OPERATORS["SemverGt"]) == ["1.3.0", "1.2.0"]


@settings(max_examples=15)
@given(
    values=st.lists(st.integers(-6, 6).map(str) | st.just("high"), max_size=6),
    zones=st.lists(st.sampled_from("abc"), min_size=6, max_size=6),
    now=st.integers(-7, 7).map(str),
    operator=st.sampled_from(["Gt", "Lt"]),
    keep=st.integers(1, 4),
)
def test_halving_finds_what_trying_every_value_finds(values, zones, now, operator, keep):
    nodes = [
        node(f"n{at}", zone, sla=value) for at, (value, zone) in enumerate(zip(values, zones, strict=False))
    ]
    question = ask(workload(entry("sla", operator, now)), *nodes)
    found = find_thresholds(question, 0, keep)
    tightest_first = range(8, -9, -1) if operator == "Gt" else range(-8, 9)
    tried = {str(value): question.fitting(question.with_value(0, str(value))) for value in tightest_first}
    most = max(map(len, tried.values()))

    def first(holds):
        return next((value for value, taken in tried.items() if holds(taken)), None)

    assert (found.tightest and found.tightest.value) == first(lambda taken: len(taken) >= keep)
    assert (found.loosest and found.loosest.value) == (
        first(lambda taken: len(taken) == most) if most else None
    )
    assert dict(found.zones) == {
        zone: first(lambda taken, zone=zone: zone in question.zones(taken))
        for zone in question.zones(frozenset().union(*tried.values()))
    }
