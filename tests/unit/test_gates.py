"""Feature gates: Kubernetes' string form, its group switches, and refusals that teach."""

import pickle
from pathlib import Path

import click
import pytest

import weir
from weir.apiserver.options import Options
from weir.cli.main import weir as command
from weir.gates import (
    ALL_FEATURES,
    FEATURES,
    KNOWN,
    KUBERNETES_DEFAULTS,
    TOLERATION_CEL,
    TOLERATION_COMPARISON,
    GateError,
    Gates,
)
from weir.simulation.component_gates import ComponentGates

pytestmark = pytest.mark.proves("5471-13", "5471-53", "5471-72", "5721-63")

#: The commands that take `--feature-gates`, and an argument without which they would not get so far.
COMMANDS = ["apiserver", "scheduler", "controller-manager", "kubelet", "up", "explain", "lint"]
NUMERIC_OFF = "TaintTolerationComparisonOperators=false"


@pytest.mark.proves("5471-89", "5721-93", "5500-66")
def test_one_default_everywhere_the_features_of_the_keps_are_on():
    assert all(Gates().enabled(name) for name in FEATURES)
    assert Gates() == Gates.of(None) == Gates.of("") == Gates.of({}) == Options(Path()).gates == ALL_FEATURES
    assert ComponentGates() == ComponentGates.of(None) == ComponentGates.of({"kubelet": None})


@pytest.mark.proves("5471-87", "5500-9")
def test_kubernetes_default_is_one_setting_away():
    assert Gates.parse("AllAlpha=false") == KUBERNETES_DEFAULTS
    assert not (KUBERNETES_DEFAULTS.numeric or KUBERNETES_DEFAULTS.semver or KUBERNETES_DEFAULTS.cel)


@pytest.mark.parametrize("gates", [NUMERIC_OFF, {"TaintTolerationComparisonOperators": False}])
def test_a_setting_changes_only_what_it_names(gates):
    for found in (Gates.of(gates), ComponentGates.of(gates).scheduler):
        assert [name for name in FEATURES if not found.enabled(name)] == [TOLERATION_COMPARISON]


@pytest.mark.parametrize("name", COMMANDS)
def test_on_every_command_a_setting_changes_only_what_it_names(name):
    found = command.get_command(click.Context(command), name)
    (option,) = [each for each in found.params if "--feature-gates" in each.opts]
    context = click.Context(found)
    assert Gates.of(option.process_value(context, NUMERIC_OFF)) == Gates.of(NUMERIC_OFF)
    assert Gates.of(option.process_value(context, None)) == ALL_FEATURES


def test_a_misspelt_gate_is_shown_the_right_one():
    with pytest.raises(GateError, match=r"did you mean TaintTolerationCEL\?"):
        Gates.parse("TaintTolerationCELL=true")


def test_the_library_matches_with_every_feature_unless_told_otherwise():
    newer = {"key": "kernel", "operator": "SemverGt", "value": "1.2.0"}
    taint = {"key": "kernel", "value": "1.3.0", "effect": "NoSchedule"}
    assert weir.tolerates(newer, taint) and weir.tolerates(newer, taint, NUMERIC_OFF)
    assert not weir.tolerates(newer, taint, KUBERNETES_DEFAULTS)


def test_gates_are_written_with_every_feature_named():
    assert str(Gates.parse(NUMERIC_OFF)).startswith(f"{NUMERIC_OFF},TaintToleration")
    assert Gates.parse(str(KUBERNETES_DEFAULTS)) == KUBERNETES_DEFAULTS


def test_all_alpha_turns_on_what_was_not_named():
    gates = Gates.parse("AllAlpha=true,TaintTolerationCEL=false")
    assert (
        gates.enabled("MutablePVNodeAffinity")
        and gates.enabled(TOLERATION_COMPARISON)
        and not gates.enabled(TOLERATION_CEL)
    )


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
