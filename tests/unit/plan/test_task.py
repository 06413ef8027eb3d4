"""Tasks of plans: which changes a wave of some items makes, and what is left of a plan that stopped."""

from __future__ import annotations

import pytest

from weir.plan.task import remaining
from weir.taints.notation import parse_taint
from weir.whatif.changes import Apply, Cordon, Drain, Nodes, Taint, TaintEdit

TAINT = TaintEdit(parse_taint("maintenance=1:NoExecute"))


def node(name, *, cordoned=False):
    return {"kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True} if cordoned else {}}


def taint(*names, edit=TAINT):
    return Taint(Nodes(names), (edit,))


def waves(task):
    """Return what all items in one wave, and each in its own, are changed by."""
    alone = task.wave(task.items, first=True, last=True, prepared=False)
    last = task.wave(task.items[-1:], first=False, last=True, prepared=True)
    return [[each.say() for each in wave] for wave in (alone, last)]


def test_nodes_that_the_stopped_plan_cordoned_are_opened_by_the_last_wave():
    left = [taint("b"), taint("c"), Cordon(Nodes(("a", "b", "c")), on=False)]
    _, task = remaining(left, [node(name, cordoned=True) for name in "abc"])
    assert task.items == ("b", "c")
    assert waves(task) == [
        ["taint b c maintenance=1:NoExecute", "uncordon a b c"],
        ["taint c maintenance=1:NoExecute", "uncordon a b c"],
    ]


def test_a_plan_that_stopped_before_its_first_wave_is_asked_as_it_was():
    left = [Cordon(Nodes(("b", "c"))), taint("b"), taint("c"), Cordon(Nodes(("b", "c")), on=False)]
    change, task = remaining(left, [node("b"), node("c"), node("d", cordoned=True)])
    assert change == taint("b", "c")
    assert waves(task)[0] == ["taint b c maintenance=1:NoExecute"]


def test_nodes_that_are_gone_are_left_out():
    change, task = remaining([taint("b"), taint("c")], [node("c")])
    assert change == taint("c")
    assert task.items == ("c",)


def test_manifests_keep_their_order():
    first, second = ({"kind": "DeviceTaintRule", "metadata": {"name": name}} for name in "ba")
    change, task = remaining([Apply((first,)), Apply((second,))], [])
    assert change == Apply((first, second))
    assert task.items == ("devicetaintrule/b", "devicetaintrule/a")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([taint("a"), taint("b", edit=TaintEdit(parse_taint("other:NoExecute")))], "of several kinds"),
        ([taint("a"), Drain(Nodes(("b",)))], "of several kinds"),
        ([taint("gone")], "none of its nodes is there any more"),
        ([], "of several kinds"),
    ],
)
def test_what_is_no_single_change_is_refused(changes, why):
    with pytest.raises(ValueError, match=why):
        remaining(changes, [node("a"), node("b")])
