"""What an update is spared because the stored object has it already."""

from __future__ import annotations

import pytest

from weir.gates import ALL_FEATURES, EXTENDED, SEMVER_COMPARISON, TOLERATION_CEL, TOLERATION_COMPARISON, Gates
from weir.validate.ratchet import CLOSED, Options, options_for, pod_options, volume_options

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
OFF = Gates({"AllAlpha": False, "AllBeta": False})


def expression(operator="In", values=("a",)):
    return {"key": "k", "operator": operator, "values": list(values)}


def required(*expressions):
    return {
        "affinity": {
            "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}
        }
    }


def preferred(*expressions):
    term = {"weight": 1, "preference": {"matchExpressions": list(expressions)}}
    return {"affinity": {"nodeAffinity": {PREFERRED: [term]}}}


@pytest.mark.proves(
    "5721-65", "5721-73", "5721-74", "5721-86", "5721-109", "5500-41", "5500-42", "5500-61", "5500-90"
)
@pytest.mark.parametrize(
    ("old", "spared"),
    [
        ({}, {}),
        ({"tolerations": [{"operator": "Gt"}]}, {"features": frozenset({TOLERATION_COMPARISON})}),
        (
            {"tolerations": [{"operator": "Exists"}, {"operator": "Lt"}]},
            {"features": frozenset({TOLERATION_COMPARISON})},
        ),
        ({"tolerations": [{"operator": "SemverEq"}]}, {"features": frozenset({SEMVER_COMPARISON})}),
        ({"tolerations": [{"expression": "true"}]}, {"features": frozenset({TOLERATION_CEL})}),
        ({"tolerations": [{"operator": "Exists"}]}, {}),
        (required(expression("SemverGt")), {"features": frozenset({SEMVER_COMPARISON})}),
        (required(expression("Gt")), {}),
        (preferred(expression("SemverLt")), {"features": frozenset({SEMVER_COMPARISON})}),
        (preferred(expression("In")), {}),
        (required(expression(values=("not a label!",))), {"label_values": False}),
        (required(expression(), expression(values=("a", "-"))), {"label_values": False}),
        (required(expression("Exists", ())), {}),
        (preferred(expression(values=("not a label!",))), {}),
    ],
)
def test_a_pod_may_go_on_with_what_it_was_stored_with(old, spared):
    assert pod_options(OFF, {"containers": [], **old}) == Options(shares=False, **spared)


@pytest.mark.proves("5721-86", "5500-90")
def test_without_an_old_spec_the_gates_decide():
    assert pod_options(ALL_FEATURES, None) == options_for(ALL_FEATURES)
    assert pod_options(ALL_FEATURES, None).allows(SEMVER_COMPARISON)
    assert not pod_options(OFF, None).allows(SEMVER_COMPARISON)


@pytest.mark.proves("5721-65")
@pytest.mark.parametrize("gates", [OFF, ALL_FEATURES])
def test_what_a_gate_allows_needs_no_ratchet(gates):
    found = pod_options(gates, {"containers": []})
    assert all(found.allows(gate) == gates.enabled(gate) for gate in EXTENDED) and found.allows("")


@pytest.mark.proves("5721-75")
@pytest.mark.parametrize(
    ("affinity", "spared"),
    [
        (None, {}),
        ({"required": None}, {}),
        ({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression()]}]}}, {}),
        (
            {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression("SemverGt")]}]}},
            {"features": frozenset({SEMVER_COMPARISON})},
        ),
        (
            {"required": {"nodeSelectorTerms": [{}, {"matchExpressions": [expression(values=("?",))]}]}},
            {"label_values": False},
        ),
    ],
)
def test_a_volume_may_go_on_with_what_it_was_stored_with(affinity, spared):
    assert volume_options(OFF, {"nodeAffinity": affinity}) == Options(shares=False, **spared)
    assert volume_options(OFF, None) == options_for(OFF)


def test_what_never_takes_gated_forms_takes_none_and_says_never():
    assert Options(frozenset(), never=True) == CLOSED
    assert not options_for(ALL_FEATURES).never
