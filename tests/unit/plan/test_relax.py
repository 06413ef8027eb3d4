"""What would make a plan possible, where there is none."""

from __future__ import annotations

from tests.unit.whatif.test_run import FLEET, NOW, claimed, gpus, node, rule
from weir.gates import ALL_FEATURES
from weir.plan.goals import read_goals
from weir.plan.relax import find
from weir.plan.search import NoPlan
from weir.plan.state import ClusterState
from weir.whatif.changes import Apply
from weir.whatif.run import WhatIfOptions


def test_where_devices_are_missing_a_node_that_has_some_is_added():
    objects = [*FLEET, *(gpus(name) for name in "ab"), *(node(name) for name in "ab")]
    state = ClusterState.of(
        [*objects, *claimed(0, "a"), *claimed(1, "b")], (), WhatIfOptions(ALL_FEATURES, NOW, 600.0)
    )
    recall = rule(effect="NoExecute")
    recall["spec"]["deviceSelector"] = {"driver": "gpu.example.com", "pool": "a"}
    goals = read_goals(max_unavailable="100%")
    _, outcome = find([Apply((recall,))], state, goals, lambda what, done, total: None)
    assert isinstance(outcome, NoPlan)
    assert outcome.relaxations == ["1 more node like a (`weir what-if add-nodes 1 --like a`)"]
