"""What breaks a goal: pods that are not ready already count as unavailable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from weir.gates import ALL_FEATURES
from weir.plan.document import Goals
from weir.plan.goals import breaches
from weir.plan.state import ClusterState
from weir.whatif.forecast import EvictedPod, Forecast, Workload, budgets
from weir.whatif.history import Cause, History, Why
from weir.whatif.run import WhatIfOptions

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEB = "default/Deployment/web"


def forecast(evicted: tuple[str, ...], before: int, lowest: int) -> Forecast:
    cause = Cause(Why.TAINT)
    leaving = tuple(
        EvictedPod(f"default/{name}", "n1", timedelta(), cause, "ReplicaSet/web-1", WEB, "n2", ends_on="n2")
        for name in evicted
    )
    gone = len(evicted)
    return Forecast((), (), leaving, workloads=(Workload(WEB, before, before, gone, gone, lowest, 0, 0),))


@pytest.mark.parametrize(
    "evicted, lowest, unready, broken",
    [
        (("a",), 3, {}, ""),
        (("a", "b"), 2, {}, "2 of 4 pods unavailable, 1 may be"),
        (("a",), 3, {"d": "n3"}, "2 of 4 pods unavailable, 1 may be; 1 is already"),
        (("d",), 3, {"d": "n1"}, ""),  # it takes nothing away
        (("a", "d"), 2, {"d": "n1"}, "2 of 4 pods unavailable, 1 may be; 1 is already"),
        (("a",), 3, {"e": ""}, "2 of 5 pods unavailable, 1 may be; 1 is already"),
        (("a",), 3, {"e": "", "f": ""}, "3 of 6 pods unavailable, 1 may be; 2 are already"),
    ],
)
def test_as_many_may_be_unavailable_with_those_that_are_already(evicted, lowest, unready, broken):
    down = {WEB: {f"default/{name}": node for name, node in unready.items()}}
    found = breaches(Goals(max_unavailable="1"), forecast(evicted, 4, lowest), {}, (), NOW, down)
    assert [each.text for each in found] == (
        [f"deployment default/web would have {broken}"] if broken else []
    )


@pytest.mark.parametrize(
    "steps, lowest",
    [
        ([(-1.0, 2, 2), (1.0, 1, 2)], [1]),
        ([(-1.0, 1, 2), (1.0, 1, 2)], []),  # the change takes nothing away
        ([(-1.0, 1, 2), (1.0, 0, 2)], [0]),
        ([(-2.0, 0, 2), (-1.0, 1, 2), (1.0, 0, 2), (2.0, 1, 2)], [0]),
        ([(-1.0, 1, 2), (1.0, 2, 2)], []),
    ],
)
def test_a_budget_that_is_broken_already_can_be_broken_further(steps, lowest):
    history = History(ALL_FEATURES)
    history.budgets["default/web"] = steps
    assert [each.lowest for each in budgets(history, {}, 10.0)] == lowest


def pod(
    name: str, phase: str, ready: str | None, owner: str = "ReplicaSet", node: str = "n1"
) -> dict[str, Any]:
    own = {"kind": owner, "name": "web-1", "uid": f"uid-{owner}", "controller": True}
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": [own]},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions},
    }


def test_which_pods_are_not_ready():
    above = {"kind": "Deployment", "name": "web", "controller": True}
    metadata = {"name": "web-1", "uid": "uid-ReplicaSet", "ownerReferences": [above]}
    pods = [
        pod("ready", "Running", "True"),
        pod("mute", "Running", None),
        pod("failing", "Running", "False"),
        pod("lost", "Running", "Unknown"),
        pod("starting", "Pending", None),
        pod("waiting", "Pending", None, node=""),
        pod("ended", "Succeeded", "False"),
        pod("job", "Pending", None, owner="Job", node=""),
        pod("going", "Running", "False"),
    ]
    pods[-1]["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    state = ClusterState.of(
        [{"kind": "ReplicaSet", "metadata": metadata}, *pods], (), WhatIfOptions(ALL_FEATURES, NOW)
    )
    assert state.unready == {
        WEB: {"default/failing": "n1", "default/lost": "n1", "default/starting": "n1", "default/waiting": ""}
    }
