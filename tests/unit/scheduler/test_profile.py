"""Plugins of every scope take part in a decision as if each node were asked anew."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import (
    Code,
    Extensions,
    FilterPlugin,
    Normalize,
    Plugin,
    Scope,
    ScorePlugin,
    Status,
)
from weir.scheduler.node_columns import Ids
from weir.scheduler.node_table import USED_PODS, NodeTable
from weir.scheduler.plugins.registry import IN_TREE_REGISTRY, Registration
from weir.scheduler.pod_class import PodClass
from weir.scheduler.profile_arguments import ProfileArguments
from weir.scheduler.queueing_hints import QueueingHint

NAME = "Crowd"


class Crowd(Plugin):
    """Refuses nodes with many pods and scores by their number, in whatever scope and normalization is asked for."""

    name = NAME

    def __init__(self, table: NodeTable, scope: Scope, normalize: Normalize) -> None:
        self._made = table, scope, normalize

    def for_class(self, pod: PodClass) -> Extensions:
        bound = Bound(*self._made)
        return Extensions(filter=bound, score=bound)

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {}


class Bound(FilterPlugin, ScorePlugin):
    name = NAME

    def __init__(self, table: NodeTable, scope: Scope, normalize: Normalize) -> None:
        self._table, self.scope, self.normalize = table, scope, normalize

    def codes(self, rows: Any) -> Ids:
        return (self._table.state[USED_PODS, rows] >= 6).astype(np.int32)

    def status(self, code: int) -> Status:
        return Status(Code.UNSCHEDULABLE, ("node(s) were crowded",), NAME)

    def score(self, rows: Any) -> Ids:
        return self._table.state[USED_PODS, rows].astype(np.int32)


def normalised(raw: list[int], *, reverse: bool) -> list[int]:
    """The plain definition of weir.scheduler.profile.normalized: core.md 3.4, "Default normaliser"."""
    highest = max(raw, default=0)
    if highest == 0:
        return [100] * len(raw) if reverse else raw
    return [100 - 100 * score // highest if reverse else 100 * score // highest for score in raw]


ONLY_IT = ProfileArguments(
    disabled_filters=frozenset(IN_TREE_REGISTRY.filters),
    disabled_scores=frozenset(IN_TREE_REGISTRY.points["score"]),
)


@pytest.mark.parametrize("arguments", [ONLY_IT, ProfileArguments()])
@pytest.mark.parametrize("normalize", Normalize)
@pytest.mark.parametrize("seed", range(4))
def test_a_score_that_moves_with_every_pod_is_normalized_over_feasible_nodes(
    seed: int, normalize: Normalize, arguments: ProfileArguments
) -> None:
    rng = random.Random(seed)
    made = Registration(NAME, ("filter", "score"), lambda h: Crowd(h.table, Scope.PODS, normalize), weight=7)
    engine = Engine(ALL_FEATURES, arguments, registry=IN_TREE_REGISTRY.register(made))
    plain = Engine(ALL_FEATURES, arguments, table=engine.table)
    room = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    for number in range(8):
        engine.table.put_node(
            read(Node, {"metadata": {"name": f"n{number}"}, "status": {"allocatable": room}})
        )
    pod = read(Pod, {"metadata": {"name": "p", "namespace": "x"}})
    for number in range(60):
        without = plain.scores(pod)
        there = {name: int(engine.table.state[USED_PODS, engine.table.row_of[name]]) for name in without}
        feasible = [name for name, count in there.items() if count < 6]
        raw = [there[name] for name in feasible]
        if normalize is not Normalize.NONE:
            raw = normalised(raw, reverse=normalize is Normalize.REVERSED)
        expected = {name: without[name] + 7 * score for name, score in zip(feasible, raw, strict=True)}
        assert engine.scores(pod) == expected
        answer = engine.place(pod)
        assert isinstance(answer, Placement) == bool(feasible)
        if isinstance(answer, Placement):
            assert expected[answer.node] == max(expected.values())
        engine.assume(str(number), pod, rng.choice(list(there)))


def test_a_filter_that_looks_at_pods_switches_the_shared_scores_off() -> None:
    made = Registration(NAME, ("filter",), lambda h: Crowd(h.table, Scope.PODS, Normalize.NONE))
    pod = read(Pod, {"metadata": {"name": "p"}})
    default = Engine(ALL_FEATURES).feasibility(pod).plugins
    other = Engine(ALL_FEATURES, registry=IN_TREE_REGISTRY.register(made)).feasibility(pod).plugins
    assert default.default_resources is not None and other.default_resources is None
