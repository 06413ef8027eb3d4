"""What the cluster itself says of a pod, quoted by explain."""

from __future__ import annotations

from typing import Any

import pytest

from weir.explain.observed import observed_pod
from weir.objects.core import Pod, read
from weir.world import World

pytestmark = pytest.mark.proves("5500-56")

REJECTED = (
    "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
)
WAITS = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}


def pod(node: str = "n1", **status: Any) -> Pod:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    return read(Pod, {"metadata": {"name": "p", "namespace": "x"}, "spec": spec, "status": status})


@pytest.mark.parametrize(
    "status, says, refuses",
    [
        (
            {"phase": "Failed", "reason": "TaintToleration", "message": REJECTED},
            f"status Failed (TaintToleration): {REJECTED}",
            True,
        ),
        (
            {
                "phase": "Failed",
                "reason": "OutOfcpu",
                "message": "Pod was rejected: Node didn't have enough resource: cpu",
            },
            "status Failed (OutOfcpu): Pod was rejected: Node didn't have enough resource: cpu",
            True,
        ),
        ({"phase": "Failed", "reason": "Evicted"}, "status Failed (Evicted)", False),
        (
            {"phase": "Failed", "message": "the node was low on memory"},
            "status Failed (no reason): the node was low on memory",
            False,
        ),
        (
            {"phase": "Pending", "conditions": [WAITS]},
            "condition PodScheduled (Unschedulable): 0/1 nodes",
            True,
        ),
    ],
)
def test_the_status_comes_before_the_condition_and_older_events(
    status: dict[str, Any], says: str, refuses: bool
) -> None:
    event = {
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "x"},
        "involvedObject": {"kind": "Pod", "namespace": "x", "name": "p"},
        "reason": "FailedScheduling",
        "message": "an older attempt",
    }
    world = World.of([event])
    seen = observed_pod(pod(**status), world)
    assert (seen.says, seen.refuses) == ((says,), refuses)
