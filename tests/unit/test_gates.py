"""Feature gates: Kubernetes' string form, its group switches, and refusals that teach."""

import pickle

import pytest

from weir.gates import ALL_FEATURES, KNOWN, TOLERATION_CEL, TOLERATION_COMPARISON, GateError, Gates


def test_the_keps_features_are_off_by_default():
    assert not (Gates().numeric or Gates().semver or Gates().cel)


def test_all_alpha_turns_on_what_was_not_named():
    gates = Gates.parse("AllAlpha=true,TaintTolerationCEL=false")
    assert gates.enabled(TOLERATION_COMPARISON) and not gates.enabled(TOLERATION_CEL)


@pytest.mark.parametrize(
    "text", ["TaintTolerationCEL=1", "TaintTolerationCEL=T", " TaintTolerationCEL = true ,"]
)
def test_every_spelling_of_true_is_taken(text):
    assert Gates.parse(text).cel


@pytest.mark.parametrize(
    "text, words",
    [
        ("Nope=true", "unrecognized feature gate: Nope; known gates: AllAlpha, AllBeta,"),
        ("TaintTolerationCEL", "missing bool value for feature gate TaintTolerationCEL"),
        ("TaintTolerationCEL=maybe", "is not a bool"),
        ("NodeInclusionPolicyInPodTopologySpread=false", "feature is locked to true"),
        ("DRADeviceTaintRules=true,DRADeviceTaints=false", "needs DRADeviceTaints"),
    ],
)
def test_a_setting_that_cannot_be_used_says_what_to_write(text, words):
    with pytest.raises(GateError) as refused:
        Gates.parse(text)
    assert words in str(refused.value)


def test_turning_a_prerequisite_off_turns_its_dependants_off():
    assert not Gates({"DRADeviceTaints": False}).enabled("DRADeviceTaintRules")


def test_gates_are_values():
    assert Gates.of("TaintTolerationCEL=true") == Gates.of({"TaintTolerationCEL": True})
    assert {ALL_FEATURES: 1}[Gates.parse(ALL_FEATURES.changes())] == 1
    assert pickle.loads(pickle.dumps(ALL_FEATURES)) == ALL_FEATURES


def test_gates_cannot_be_changed():
    with pytest.raises(AttributeError):
        ALL_FEATURES.cel = False  # type: ignore[misc]


def test_every_prerequisite_is_a_known_gate():
    assert all(not gate.needs or gate.needs in KNOWN for gate in KNOWN.values())


def test_turning_a_gate_off_takes_along_what_needs_it_also_when_that_was_on_before():
    gates = ALL_FEATURES.replace({"DynamicResourceAllocation": False})
    assert not any(gates.enabled(name) for name in ("DRADeviceTaints", "DRADeviceTaintRules"))
