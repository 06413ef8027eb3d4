"""Weights, topologies and keys: what is wrong with a pod's affinities and spread constraints."""

from __future__ import annotations

import pytest

from weir.validate.core.affinity import (
    NOT_EMPTY,
    POSITIVE,
    WEIGHT_RANGE,
    validate_affinity,
    validate_spread_constraints,
)
from weir.validate.ratchet import Options

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
SOUND = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
ONLY_WITH_SELECTOR = "must not be specified when labelSelector is not set"


def spread(*constraints):
    return [(error.field, error.detail) for error in validate_spread_constraints(list(constraints), "at")]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        ({"maxSkew": 0}, [("at[0].maxSkew", POSITIVE)]),
        ({"maxSkew": -1}, [("at[0].maxSkew", POSITIVE)]),
        ({"topologyKey": ""}, [("at[0].topologyKey", NOT_EMPTY)]),
        ({"topologyKey": None}, [("at[0].topologyKey", NOT_EMPTY)]),
        ({"minDomains": 1}, []),
        ({"minDomains": 0}, [("at[0].minDomains", POSITIVE)]),
        ({"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}, []),
        ({"matchLabelKeys": ["a"]}, [("at[0].matchLabelKeys", ONLY_WITH_SELECTOR)]),
        ({"matchLabelKeys": ["a"], "labelSelector": {}}, []),
    ],
)
def test_a_spread_constraint(change, wrong):
    assert spread({**SOUND, **change}) == wrong


def test_other_words_than_the_known_ones_are_refused_with_the_known_ones():
    found = spread(
        {**SOUND, "whenUnsatisfiable": "Maybe", "nodeTaintsPolicy": "Some", "nodeAffinityPolicy": "Some"}
    )
    assert [field for field, _ in found] == [
        "at[0].whenUnsatisfiable",
        "at[0].nodeAffinityPolicy",
        "at[0].nodeTaintsPolicy",
    ]


def test_min_domains_need_do_not_schedule():
    ((field, detail),) = spread({**SOUND, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2})
    assert (field, detail) == (
        "at[0].minDomains",
        "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
    )


@pytest.mark.parametrize(
    ("second", "twice"),
    [
        ({}, True),
        ({"maxSkew": 5}, True),
        ({"topologyKey": "node"}, False),
        ({"whenUnsatisfiable": "ScheduleAnyway"}, False),
    ],
)
def test_a_topology_is_spread_over_once_per_action(second, twice):
    found = [field for field, _ in spread(SOUND, {**SOUND, **second})]
    assert found == (["at[0].{topologyKey, whenUnsatisfiable}"] if twice else [])


def test_a_key_to_match_may_not_be_selected_as_well_and_must_be_a_key():
    selected = {"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]}
    assert [
        field for field, _ in spread({**SOUND, "labelSelector": selected, "matchLabelKeys": ["b", "a"]})
    ] == ["at[0][1]"]
    unreadable = {**SOUND, "labelSelector": {}, "matchLabelKeys": ["ok", "-"]}
    assert [field for field, _ in spread(unreadable)] == ["at[0].matchLabelKeys[1]"]


def affinity(**terms):
    return [(error.field, error.detail) for error in validate_affinity(terms, "at", Options())]


TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("weight", "sound"), [(0, False), (1, True), (100, True), (101, False), (None, False), (-1, False)]
)
@pytest.mark.parametrize("kind", ["nodeAffinity", "podAffinity", "podAntiAffinity"])
def test_a_weight_is_from_1_to_100(kind, weight, sound):
    what = {"preference": {}} if kind == "nodeAffinity" else {"podAffinityTerm": TERM}
    found = affinity(**{kind: {PREFERRED: [{"weight": weight, **what}]}})
    assert found == ([] if sound else [(f"at.{kind}.{PREFERRED}[0].weight", WEIGHT_RANGE)])


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({}, []),
        ({"namespaces": ["a", "B"]}, ["namespace"]),
        ({"matchLabelKeys": ["x"]}, []),
        ({"matchLabelKeys": ["-"]}, ["matchLabelKeys[0]"]),
        ({"mismatchLabelKeys": ["x", "-"]}, ["mismatchLabelKeys[1]"]),
        ({"matchLabelKeys": ["y", "x"], "mismatchLabelKeys": ["x"]}, ["matchLabelKeys[1]"]),
        ({"labelSelector": None, "matchLabelKeys": ["x"]}, ["matchLabelKeys"]),
        ({"labelSelector": None, "mismatchLabelKeys": ["x"]}, ["mismatchLabelKeys"]),
        ({"labelSelector": {"matchLabels": {"-": ""}}}, ["labelSelector.matchLabels"]),
        ({"namespaceSelector": {"matchLabels": {"-": ""}}}, ["namespaceSelector.matchLabels"]),
    ],
)
def test_a_pod_affinity_term(change, fields):
    found = affinity(podAffinity={REQUIRED: [TERM, {**TERM, **change}]})
    at = f"at.podAffinity.{REQUIRED}[1]"
    assert list(dict.fromkeys(field for field, _ in found)) == [f"{at}.{field}" for field in fields]


def test_a_term_without_topology_is_refused_for_it():
    found = affinity(podAntiAffinity={PREFERRED: [{"weight": 5, "podAffinityTerm": {}}]})
    assert found[0] == (f"at.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.topologyKey", NOT_EMPTY)


def test_preferred_values_are_not_held_to_be_label_values_required_ones_are():
    entry = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["not a label!"]}]}
    assert affinity(nodeAffinity={PREFERRED: [{"weight": 1, "preference": entry}]}) == []
    ((field, _),) = affinity(nodeAffinity={REQUIRED: {"nodeSelectorTerms": [entry]}})
    assert field == f"at.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values[0]"


def test_what_is_preferred_of_a_node_is_held_to_the_rules_of_a_selector_term():
    entry = {"matchExpressions": [{"key": "k", "operator": "Like", "values": ["a"]}]}
    ((field, _),) = affinity(nodeAffinity={PREFERRED: [{"weight": 1, "preference": entry}]})
    assert field == f"at.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].operator"


def test_keys_without_a_selector_are_refused_once():
    found = affinity(podAffinity={REQUIRED: [{"topologyKey": "zone", "matchLabelKeys": ["-"]}]})
    assert found == [(f"at.podAffinity.{REQUIRED}[0].matchLabelKeys", ONLY_WITH_SELECTOR)]


@pytest.mark.parametrize(("times", "wrong"), [(1, []), (2, [f"at.podAffinity.{REQUIRED}[0][0]"])])
def test_what_the_server_adds_for_a_key_is_no_conflict_a_second_mention_is(times, wrong):
    selector = {"matchExpressions": [{"key": "a", "operator": "Exists"}] * times}
    term = {"topologyKey": "zone", "labelSelector": selector, "matchLabelKeys": ["a"]}
    assert [field for field, _ in affinity(podAffinity={REQUIRED: [term]})] == wrong


def test_the_selector_of_a_spread_constraint_is_checked():
    found = spread({**SOUND, "labelSelector": {"matchLabels": {"-": ""}}})
    assert {field for field, _ in found} == {"at[0].labelSelector.matchLabels"}
