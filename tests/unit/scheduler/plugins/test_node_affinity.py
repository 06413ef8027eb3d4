"""A preference that cannot be read breaks the attempt when nodes have to be compared, and only then."""

import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.framework import PluginError
from weir.scheduler.profile_arguments import ProfileArguments

UNREADABLE = "for 'Gt', 'Lt' operators, the value must be an integer"


def engine(*names, **arguments):
    made = Engine(ALL_FEATURES, ProfileArguments(**arguments))
    for name in names:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "9"}
        made.table.put_node(read(Node, {"metadata": {"name": name}, "status": {"allocatable": amounts}}))
    return made


def pod(*values, operator="Gt", weight=1):
    preferred = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "gen", "operator": operator, "values": [v]}]},
        }
        for v in values
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [], "affinity": affinity}})


def test_the_value_and_its_place_are_named():
    with pytest.raises(PluginError) as problem:
        engine("a", "b").place(pod("1", "x"))
    assert str(problem.value) == (
        f'running PreScore plugin "NodeAffinity": [1].matchExpressions[0].values[0]: Invalid value: "x": {UNREADABLE}'
    )


def test_several_are_told_together():
    with pytest.raises(PluginError, match=r'NodeAffinity": \[\[0\].*integer, \[1\].*integer\]$'):
        engine("a", "b").place(pod("x", "y"))


@pytest.mark.parametrize(
    ("nodes", "asking", "arguments"),
    [
        (("a",), pod("x"), {}),  # a single node is not scored
        (("a", "b"), pod("+007"), {}),
        (("a", "b"), pod("x", weight=0), {}),
        (("a", "b"), pod("x", operator="SemverGt"), {}),
        (("a", "b"), pod("x"), {"disabled_scores": frozenset({"NodeAffinity"})}),
    ],
)
def test_nobody_else_is_disturbed(nodes, asking, arguments):
    assert engine(*nodes, **arguments).place(asking).node == "a"
