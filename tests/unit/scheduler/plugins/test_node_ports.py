"""A host port can be used once on a node, and a pod that leaves frees its own."""

import pytest

from tests.unit.scheduler.hints import hints_of
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.plugins.node_ports import conflicts
from weir.scheduler.queueing_hints import pod_events


def pod(name, port, address="", protocol="TCP"):
    ports = [{"containerPort": 80, "hostPort": port, "hostIP": address, "protocol": protocol}]
    spec = {"containers": [{"name": "c", "ports": ports}]}
    return read(Pod, {"metadata": {"name": name, "namespace": "x"}, "spec": spec})


def place(wanted, *there):
    engine = Engine(ALL_FEATURES)
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    engine.table.put_node(read(Node, {"metadata": {"name": "n"}, "status": status}))
    for number, each in enumerate(there):
        engine.assume(str(number), each, "n")
    answer = engine.place(wanted)
    return answer.node if isinstance(answer, Placement) else answer.message


TAKEN = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."


@pytest.mark.parametrize(
    ("held", "answer"),
    [
        (pod("a", 80), TAKEN),
        (pod("a", 81), "n"),
        (pod("a", 80, protocol="UDP"), "n"),
        (pod("a", 80, "10.0.0.1"), TAKEN),  # every address is one of them
    ],
)
def test_a_port_is_refused_where_it_is_held(held, answer):
    assert place(pod("b", 80), held) == answer


def test_ports_of_two_addresses_do_not_meet():
    assert not conflicts(("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80))


@pytest.mark.parametrize(("port", "woken"), [(80, True), (81, False)])
def test_only_a_pod_that_held_the_port_wakes_one_that_waits_for_it(port, woken):
    hints, waiting = hints_of(), pod("b", 80)
    events = pod_events(pod("a", port), None)
    assert any(hints.helps("NodePorts", waiting, event) for event in events) == woken
