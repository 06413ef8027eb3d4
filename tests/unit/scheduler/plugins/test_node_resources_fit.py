"""Requests must fit what a node has left; all shortages are named, and each strategy scores by its own line."""

import numpy as np
import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import Code
from weir.scheduler.plugins.node_resources_fit import broken_line, least_allocated, most_allocated
from weir.scheduler.profile_arguments import FitArguments, ProfileArguments


def node(name="n", cpu="4", memory="8Gi", pods="110", **more):
    status = {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **more}}
    return read(Node, {"metadata": {"name": name}, "status": status})


def pod(**requests):
    resources = {"requests": {name.replace("__", "/"): amount for name, amount in requests.items()}}
    spec = {"containers": [{"name": "c", "resources": resources}]}
    return read(Pod, {"metadata": {"name": "p", "namespace": "x"}, "spec": spec})


def statuses(wanted, *nodes, arguments=None, there=()):
    engine = Engine(ALL_FEATURES, arguments)
    for each in nodes:
        engine.table.put_node(each)
    for number, each in enumerate(there):
        engine.assume(str(number), each, nodes[0].name)
    return engine.statuses(wanted)


def test_every_shortage_is_named_in_order():
    wanted = pod(cpu="8", memory="16Gi", example_com__gpu="1")
    found = statuses(wanted, node(pods="0"))["n"]
    assert found.reasons == (
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient example_com/gpu",
    )


@pytest.mark.parametrize(("cpu", "code"), [("3", Code.UNSCHEDULABLE), ("5", Code.UNRESOLVABLE)])
def test_preemption_helps_only_where_the_node_is_large_enough(cpu, code):
    assert statuses(pod(cpu=cpu), node(), there=[pod(cpu="2")])["n"].code is code


def test_what_is_not_asked_for_is_never_short():
    assert statuses(pod(memory="1Gi"), node(), there=[pod(cpu="9")]) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        FitArguments(ignored_resources=frozenset({"example.com/gpu"})),
        FitArguments(ignored_groups=frozenset({"example.com"})),
    ],
)
def test_an_ignored_resource_is_not_looked_at(arguments):
    wanted = read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}})  # fmt: skip
    assert statuses(wanted, node(), arguments=ProfileArguments(fit=arguments)) == {}
    assert statuses(wanted, node())["n"].reasons == ("Insufficient example.com/gpu",)


@pytest.mark.parametrize(("strategy", "chosen"), [("LeastAllocated", "roomy"), ("MostAllocated", "tight")])
def test_the_strategy_decides_between_emptier_and_fuller_nodes(strategy, chosen):
    engine = Engine(ALL_FEATURES, ProfileArguments(fit=FitArguments(strategy)))
    engine.table.put_node(node("tight", cpu="2", memory="4Gi"))
    engine.table.put_node(node("roomy", cpu="32", memory="64Gi"))
    answer = engine.place(pod(cpu="1", memory="2Gi"))
    assert isinstance(answer, Placement) and answer.node == chosen


def test_scores_are_cut_as_go_cuts_them():
    capacity, used = np.array([3, 3, 3]), np.array([1, 2, 4])
    assert least_allocated(capacity, used).tolist() == [66, 33, 0]
    assert most_allocated(capacity, used).tolist() == [33, 66, 100]
    assert broken_line(np.array([0, 25, 50, 100]), ((0, 10), (50, 3), (100, 0))).tolist() == [100, 65, 30, 0]
