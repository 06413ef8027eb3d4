"""A pod that needs a feature of the kubelet goes where the kubelet says it has it."""

from tests.unit.scheduler.hints import hints_of
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.queueing_hints import node_events

FEATURE = "RestartAllContainersOnContainerExits"


def node(name, *features):
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "9"}
    status = {"allocatable": amounts, "declaredFeatures": list(features)}
    return read(Node, {"metadata": {"name": name}, "status": status})


def pod(*actions):
    container = {"name": "c", "restartPolicyRules": [{"action": action} for action in actions]}
    return read(Pod, {"metadata": {"name": "p", "namespace": "x"}, "spec": {"containers": [container]}})


def engine(*nodes):
    made = Engine(ALL_FEATURES)
    for each in nodes:
        made.table.put_node(each)
    return made


def test_the_pod_goes_where_the_feature_is():
    both = engine(node("old"), node("new", "Other", FEATURE))
    assert (both.place(pod("RestartAllContainers")).node, both.place(pod("Restart")).node) == ("new", "old")


def test_a_node_without_it_says_so():
    said = "0/1 nodes are available: 1 node(s) didn't match Pod's required features."
    assert engine(node("old")).place(pod("RestartAllContainers")).message == said


def test_a_kubelet_that_learns_it_takes_the_pod():
    cluster = engine(node("n"))
    cluster.place(pod("RestartAllContainers"))
    cluster.table.put_node(node("n", FEATURE))
    assert cluster.place(pod("RestartAllContainers")).node == "n"


def test_only_the_feature_that_is_needed_wakes_the_pod():
    hints, waiting = hints_of(), pod("RestartAllContainers")
    changes = [(node("n"), node("n", "Other")), (node("n"), node("n", FEATURE)), (None, node("m"))]
    woken = [
        [hints.helps("NodeDeclaredFeatures", waiting, event) for event in node_events(old, new)]
        for old, new in changes
    ]
    assert woken == [[False], [True], [False]]
