"""What gets a pod past a taint or a cordon: which edits, what they say, cost and change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from weir.explain.edits.edit import Edit
from weir.explain.edits.taints import (
    AddToleration,
    ChangeThreshold,
    EnableGate,
    RemoveTaint,
    Uncordon,
    for_taint,
)
from weir.gates import TOLERATION_CEL, TOLERATION_COMPARISON, Gates
from weir.objects.core import Node, Pod, Taint, Toleration, read
from weir.scheduler.reasons import Attempt, UntoleratedTaint
from weir.taints.operators import Outcome

SLA = Taint("sla", "950", "NoSchedule")
ABOVE = Toleration("sla", "Gt", "960", "NoSchedule")
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def node(*taints: dict[str, Any], **spec: Any) -> Node:
    return read(Node, {"metadata": {"name": "n1"}, "spec": {"taints": list(taints), **spec}})


def answers(taint: Taint, *attempts: Attempt, cordoned: bool = False, tolerations: Any = None) -> list[Edit]:
    written = [each.toleration for each in attempts] if tolerations is None else tolerations
    pod = read(Pod, {"spec": {"tolerations": [msgspec.to_builtins(each) for each in written]}})
    return list(for_taint(UntoleratedTaint(taint, attempts), node(unschedulable=cordoned or None), pod))


def told(edits: list[Edit]) -> list[str]:
    return [edit.say() for edit in edits]


# ── which ──


def test_a_taint_is_tolerated_by_its_value_or_removed():
    assert told(answers(SLA)) == [
        "also tolerate sla = 950 (NoSchedule)",
        "remove the taint sla=950:NoSchedule from n1, for every pod",
    ]


@pytest.mark.parametrize("value", ["", "a b", "-x"])
def test_a_taint_whose_value_a_toleration_cannot_say_is_tolerated_whatever_it_is(value):
    (added, _) = answers(Taint("sla", value, "NoSchedule"))
    assert added == AddToleration(Toleration("sla", "Exists", "", "NoSchedule"), 1.0)
    assert added.say() == "also tolerate sla (NoSchedule)"


@pytest.mark.parametrize(
    "outcome, moved", [(Outcome.NOT_GREATER, True), (Outcome.NOT_LESS, True), (Outcome.OTHER_VALUE, False)]
)
def test_a_threshold_that_was_missed_may_be_moved(outcome, moved):
    edits = answers(SLA, Attempt(ABOVE, outcome))
    distance = 10 / 960
    assert edits[0] == AddToleration(Toleration("sla", "Equal", "950", "NoSchedule"), distance)
    assert (ChangeThreshold(ABOVE, "949", distance) in edits) is moved


def test_a_threshold_that_the_pod_does_not_write_itself_is_not_moved():
    edits = answers(SLA, Attempt(ABOVE, Outcome.NOT_GREATER), tolerations=())
    assert [type(edit) for edit in edits] == [AddToleration, RemoveTaint]


def test_a_threshold_that_cannot_be_written_is_not_moved():
    smallest = Taint("sla", str(-(2**63)), "NoSchedule")
    edits = answers(smallest, Attempt(ABOVE, Outcome.NOT_GREATER))
    assert [type(edit) for edit in edits] == [AddToleration, RemoveTaint]


@pytest.mark.parametrize("outcome", [Outcome.OTHER_KEY, Outcome.OTHER_EFFECT])
def test_entries_for_something_else_are_not_near(outcome):
    assert answers(SLA, Attempt(ABOVE, outcome)) == answers(SLA)


def test_the_nearest_entry_says_how_far_it_is():
    far, near = Toleration("sla", "Gt", "1900"), Toleration("sla", "Gt", "1000")
    edits = answers(SLA, Attempt(far, Outcome.NOT_GREATER), Attempt(near, Outcome.NOT_GREATER))
    assert isinstance(edits[0], AddToleration) and edits[0].distance == 50 / 1000


@pytest.mark.parametrize("effect, seconds", [("NoExecute", 30), ("NoSchedule", None)])
def test_a_new_entry_lasts_as_long_as_the_first_that_was_near(effect, seconds):
    first = Toleration("sla", "Gt", "960", effect, 30)
    second = Toleration("sla", "Gt", "970", effect, 60)
    other = Toleration("x", "Exists", "", effect, 90)
    tried = [(other, Outcome.OTHER_KEY), (first, Outcome.NOT_GREATER), (second, Outcome.NOT_GREATER)]
    edits = answers(Taint("sla", "950", effect), *(Attempt(*each) for each in tried))
    assert isinstance(edits[0], AddToleration) and edits[0].toleration.toleration_seconds == seconds
    (alone, _) = answers(Taint("sla", "950", effect), Attempt(other, Outcome.OTHER_KEY))
    assert isinstance(alone, AddToleration) and alone.toleration.toleration_seconds is None


def test_a_gate_that_is_off_may_be_turned_on_once():
    attempts = [Attempt(ABOVE, Outcome.GATE_OFF), Attempt(Toleration("sla", "Lt", "5"), Outcome.GATE_OFF)]
    gates = [edit for edit in answers(SLA, *attempts) if isinstance(edit, EnableGate)]
    assert gates == [EnableGate(TOLERATION_COMPARISON)]
    assert not any(isinstance(edit, EnableGate) for edit in answers(SLA, Attempt(ABOVE, Outcome.NOT_GREATER)))


@pytest.mark.parametrize(
    "taint, cordoned, lifted",
    [
        (Taint(CORDON["key"], "", "NoSchedule"), True, True),
        (Taint(CORDON["key"], "", "NoSchedule"), False, False),
        (Taint(CORDON["key"], "", "NoExecute"), True, False),
        (SLA, True, False),
    ],
)
def test_a_cordon_is_lifted_rather_than_tolerated(taint, cordoned, lifted):
    assert (answers(taint, cordoned=cordoned)[0] == Uncordon("n1")) is lifted


# ── what they cost ──


@pytest.mark.parametrize(
    "edit, cost",
    [
        (AddToleration(Toleration("sla", "Equal", "950", "NoSchedule")), 10),
        (AddToleration(Toleration("sla", "Equal", "950", "NoSchedule"), 0.5), 12.5),
        (AddToleration(Toleration("sla", "Exists", "", "NoSchedule"), 1.0), 20),
        (AddToleration(Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"), 1.0), 60),
        (
            AddToleration(
                Toleration("node.cloudprovider.kubernetes.io/shutdown", "Exists", "", "NoSchedule")
            ),
            60,
        ),
        (AddToleration(Toleration("node.kubernetes.io/pool", "Equal", "x", "NoSchedule")), 10),
        (ChangeThreshold(ABOVE, "949"), 12),
        (ChangeThreshold(ABOVE, "949", 0.5), 14.5),
        (RemoveTaint("n1", SLA), 65),
        (Uncordon("n1"), 50),
        (EnableGate(TOLERATION_CEL), 45),
    ],
)
def test_what_permits_more_costs_more(edit, cost):
    assert edit.cost == cost


# ── what they say and do ──


@pytest.mark.parametrize(
    "edit, said, command, side, of",
    [
        (ChangeThreshold(ABOVE, "949"), "tolerate sla > 949 instead of > 960", "", "pod", ""),
        (
            AddToleration(Toleration("sla", "Equal", "950", "NoExecute", 0)),
            "also tolerate sla = 950 (NoExecute), for 0 s as the others have it",
            "",
            "pod",
            "",
        ),
        (
            RemoveTaint("n1", SLA),
            "remove the taint sla=950:NoSchedule from n1, for every pod",
            "kubectl taint nodes n1 sla=950:NoSchedule-",
            "node",
            "n1",
        ),
        (Uncordon("n1"), "let n1 take new pods again", "kubectl uncordon n1", "node", "n1"),
        (
            EnableGate("G"),
            "turn the feature gate G on in API server, scheduler, controllers and kubelet",
            "--feature-gates=G=true",
            "cluster",
            "",
        ),
    ],
)
def test_an_edit_says_what_it_does(edit, said, command, side, of):
    assert (edit.say(), edit.command, edit.side, edit.node) == (said, command, side, of)


def test_a_toleration_is_added_after_those_that_are_there():
    spec: dict[str, Any] = {"tolerations": [{"key": "x"}]}
    AddToleration(Toleration("sla", "Equal", "950", "NoSchedule", 5)).on_pod(spec)
    entry = {
        "key": "sla",
        "operator": "Equal",
        "value": "950",
        "effect": "NoSchedule",
        "tolerationSeconds": 5,
    }
    assert spec["tolerations"] == [{"key": "x"}, entry]
    bare: dict[str, Any] = {"tolerations": None}
    AddToleration(Toleration("sla", "Exists", "", "NoSchedule")).on_pod(bare)
    assert [each["key"] for each in bare["tolerations"]] == ["sla"]


def test_a_threshold_is_moved_where_it_stands():
    entry = {"key": "sla", "operator": "Gt", "value": "960", "effect": "NoSchedule"}
    spec = {"tolerations": [{"key": "x", "value": "960"}, entry]}
    ChangeThreshold(ABOVE, "949").on_pod(spec)
    assert spec["tolerations"] == [{"key": "x", "value": "960"}, {**entry, "value": "949"}]


def test_a_taint_is_removed_by_key_and_effect():
    there = [
        {"key": "sla", "value": value, "effect": effect}
        for value, effect in (("1", "NoSchedule"), ("2", "NoExecute"))
    ]
    after = RemoveTaint("n1", SLA).on_node(node(*there, {"key": "x", "effect": "NoSchedule"}))
    assert [(each.key, each.effect) for each in after.taints] == [("sla", "NoExecute"), ("x", "NoSchedule")]


def test_uncordoning_takes_the_mark_and_its_taint_away():
    after = Uncordon("n1").on_node(node(CORDON, {**CORDON, "effect": "NoExecute"}, unschedulable=True))
    assert (after.spec.unschedulable, [each.effect for each in after.taints]) == (None, ["NoExecute"])


def test_a_gate_is_turned_on():
    off = Gates.of({TOLERATION_CEL: False})
    assert EnableGate(TOLERATION_CEL).on_gates(off).enabled(TOLERATION_CEL)
