"""Tasks of plans: which changes a wave of some items makes, and what is left of a plan that stopped."""

from __future__ import annotations

import pytest

from weir.plan.task import remaining, task_of
from weir.taints.notation import parse_taint
from weir.whatif.changes import Apply, ChangeError, Cordon, Drain, Nodes, Taint, TaintEdit

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


def tainted(name, *taints):
    return {"kind": "Node", "metadata": {"name": name}, "spec": {"taints": list(taints)}}


def test_nodes_that_have_the_taint_already_are_left_out():
    has = {"key": "maintenance", "value": "1", "effect": "NoExecute", "timeAdded": "2026-03-01T12:00:00Z"}
    other = has | {"value": "2"}
    task = task_of([taint("a", "b", "c")], [tainted("a", has), tainted("b", other), tainted("c")])
    assert task.items == ("b", "c")
    assert waves(task)[0] == ["taint b c maintenance=1:NoExecute"]
    assert task_of([taint("a")], [tainted("a", has)]).items == ("a",)


def test_a_taint_is_removed_from_the_nodes_that_have_it():
    old = {"key": "old", "effect": "NoSchedule"}
    nodes = [tainted("a", old), tainted("b"), tainted("c")]
    for each, label in zip(nodes, ("x", "x", "y"), strict=True):
        each["metadata"]["labels"] = {"pool": label}
    removal = TaintEdit(parse_taint("old:NoSchedule"), removes=True)
    task = task_of([Taint(Nodes(selector="pool=x"), (removal,))], nodes)
    assert waves(task)[0] == ["taint a old:NoSchedule-"]
    task = task_of([Taint(Nodes(selector="pool=x"), (TAINT, removal))], nodes)
    assert waves(task)[0] == [
        "taint a maintenance=1:NoExecute old:NoSchedule-",
        "taint b maintenance=1:NoExecute",
    ]
    with pytest.raises(ChangeError, match="node b has no taint old"):
        task_of([taint("a", "b", edit=removal)], nodes)
