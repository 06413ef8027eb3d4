"""A cordoned node takes only pods that tolerate the cordon, and uncordoning it wakes the others."""

import pytest

from tests.unit.scheduler.hints import hints_of
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.plugins.node_unschedulable import NodeUnschedulable
from weir.scheduler.pod_class import PodClasses
from weir.scheduler.queueing_hints import node_events, own_events
from weir.scheduler.reasons import Cordoned

pytestmark = pytest.mark.proves("5500-50", "5500-62")

KEY = "node.kubernetes.io/unschedulable"


def node(cordoned):
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    return read(Node, {"metadata": {"name": "n"}, "spec": {"unschedulable": cordoned}, "status": status})


def pod(*tolerations):
    return read(
        Pod, {"metadata": {"name": "p", "namespace": "x"}, "spec": {"tolerations": list(tolerations)}}
    )


EXISTS = {"key": KEY, "operator": "Exists"}
BY_EXPRESSION = {"expression": f"taint.key == '{KEY}'"}
NUMERIC = {"key": KEY, "operator": "Gt", "value": "0"}


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [((), False), ((EXISTS,), True), ((BY_EXPRESSION,), True), ((NUMERIC,), False)],
)
def test_the_cordon_is_a_taint_with_an_empty_value(tolerations, fits):
    engine = Engine(ALL_FEATURES)
    engine.table.put_node(node(True))
    answer = engine.place(pod(*tolerations))
    assert isinstance(answer, Placement) == fits
    if not fits:
        assert answer.message == "0/1 nodes are available: 1 node(s) were unschedulable."


@pytest.mark.parametrize(
    ("old", "new", "woken"),
    [(True, False, True), (False, True, False), (None, False, True), (None, True, False)],
)
def test_a_node_that_is_opened_wakes_pods(old, new, woken):
    events = list(node_events(None if old is None else node(old), node(new)))
    hints = hints_of()
    assert any(hints.helps("NodeUnschedulable", pod(), event) for event in events) == woken


@pytest.mark.parametrize(
    ("added", "woken"), [(EXISTS, True), ({"key": "other", "operator": "Exists"}, False)]
)
def test_a_toleration_of_the_cordon_wakes_its_pod(added, woken):
    events = list(own_events(pod(), pod(added)))
    hints = hints_of()
    assert any(hints.helps("NodeUnschedulable", pod(), event) for event in events) == woken


def test_the_cordon_is_the_reason():
    engine = Engine(ALL_FEATURES)
    engine.table.put_node(node(True))
    plugin = NodeUnschedulable(engine.table, ALL_FEATURES).for_class(PodClasses().of(pod())).filter
    assert plugin.codes([0]).tolist() == [1] and plugin.reasons(0, 1) == (Cordoned(),)
