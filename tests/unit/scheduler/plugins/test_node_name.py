"""A pod that names its node goes there or nowhere."""

import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine, Placement


def place(wanted):
    engine = Engine(ALL_FEATURES)
    for name in ("a", "b"):
        status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
        engine.table.put_node(read(Node, {"metadata": {"name": name}, "status": status}))
    answer = engine.place(read(Pod, {"metadata": {"name": "p"}, "spec": {"nodeName": wanted}}))
    return answer.node if isinstance(answer, Placement) else answer.message


@pytest.mark.parametrize("wanted", ["a", "b"])
def test_the_named_node_is_the_only_one_looked_at(wanted):
    assert place(wanted) == wanted


def test_a_node_that_is_not_there_takes_no_pod():
    assert place("gone") == "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeName]."
