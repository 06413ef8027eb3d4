"""The annotation that tells kubelets how long to keep what they read."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.controllers.cluster.node_ttl import ANNOTATION, STEPS, NodeKey, NodeTtl, step_for
from weir.controllers.runtime.controller import Patch, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.gates import Gates
from weir.objects.kinds import NODES

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def node(name, ttl=None):
    metadata = {
        "name": name,
        "uid": name,
        "resourceVersion": "1",
        "annotations": {ANNOTATION: ttl} if ttl is not None else {},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def known(*nodes):
    return Listers.of(nodes)


def test_a_node_of_a_small_cluster_may_keep_nothing():
    patch = {"metadata": {"annotations": {ANNOTATION: "0"}}}
    (action,) = NodeTtl(Gates()).reconcile(NodeKey("n"), known(node("n")), T0)
    assert action == Patch(NODES, "n", "", patch, STRATEGIC_MERGE_PATCH)


def test_a_node_that_says_so_already_is_left_alone():
    assert list(NodeTtl(Gates()).reconcile(NodeKey("n"), known(node("n", "0")), T0)) == []


def test_the_hundred_and_first_node_changes_all_the_others():
    nodes = [node(f"n{number}", "0") for number in range(101)]
    actions = list(NodeTtl(Gates()).reconcile(NodeKey("n0"), known(*nodes), T0))
    assert sum(isinstance(action, WakeAt) for action in actions) == 100


@given(st.integers(0, 6000), st.integers(0, len(STEPS) - 1))
def test_the_step_a_cluster_ends_on_covers_its_size(nodes, current):
    low, high, _ = STEPS[step_for(nodes, current)]
    assert low <= nodes and (high is None or nodes <= high)
