"""Scores shared by all classes of one demand are those each class would work out for itself."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler import feasibility, resource_scores
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.feasibility import Feasibility
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import build
from weir.scheduler.resource_scores import Amounts, ResourceScores

amounts = st.builds(
    Amounts,
    cpu=st.sampled_from([0, 1, 100, 999, 64_000]),
    memory=st.sampled_from([0, 1, 2**20, 3 * 2**30 + 7, 2**50]),
    counted_cpu=st.integers(0, 70_000),
    counted_memory=st.integers(0, 2**40),
    balanced=st.booleans(),
)
nodes = st.tuples(st.integers(1, 96_000), st.integers(1, 2**45), st.integers(0, 110))
pods = st.tuples(st.integers(0, 40_000), st.integers(0, 2**44))


def node(name: str, cpu: int, memory: int, count: int, taints: Any = ()) -> Node:
    amounts = {"cpu": f"{cpu}m", "memory": str(memory), "pods": str(count)}
    return read(
        Node,
        {
            "metadata": {"name": name},
            "spec": {"taints": list(taints)},
            "status": {"allocatable": amounts},
        },
    )


def pod(cpu: int, memory: int, **spec: Any) -> Pod:
    requests = {"cpu": f"{cpu}m", "memory": str(memory)}
    container = {"name": "c", "resources": {"requests": requests} if cpu or memory else {}}
    return read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}})


@settings(max_examples=tries(120, 300), deadline=None)
@given(nodes, st.lists(pods, max_size=4), amounts)
def test_one_node_alone_is_judged_as_among_many(
    shape: tuple[int, int, int], there: list[tuple[int, int]], wanted: Amounts
) -> None:
    table = NodeTable()
    table.put_node(node("n", *shape))
    for number, (cpu, memory) in enumerate(there):
        table.add_pod(str(number), build(pod(cpu, memory)), "n")
    book = ResourceScores(table)
    demand = book.of(wanted)
    book.sync(demand)
    alone = book._judge_one(table.state[:, 0].tolist(), wanted)
    assert alone == int(demand.scores[0])


class Alone(Feasibility):
    """A class that shares nothing."""

    def _shared(self) -> bool:
        return False


TAINT = {"key": "spot", "effect": "PreferNoSchedule"}
KINDS = [
    pod(cpu, memory, tolerations=tolerations)
    for cpu, memory in [(0, 0), (100, 2**20), (900, 2**28), (100, 2**29)]
    for tolerations in ([], [{"key": "spot", "operator": "Exists"}], [{"key": "sla", "operator": "Exists"}])
]


def story(seed: int, steps: int) -> list[Any]:
    """Return what happened to a small crowded cluster: pods placed and gone, nodes changed, come and gone."""
    rng = random.Random(seed)
    engine = Engine(ALL_FEATURES)
    names: list[str] = []
    placed: list[str] = []
    told: list[Any] = []
    for step in range(steps):
        dice = rng.random()
        if dice < 0.04 or len(names) < 3:
            name = f"n{rng.randrange(12)}"
            taints = rng.choice([[], [], [TAINT], [{"key": "sla", "effect": "NoSchedule"}]])
            engine.table.put_node(node(name, rng.choice([500, 4000]), 2**30, rng.choice([2, 9]), taints))
            names = list(engine.table.row_of)
        elif dice < 0.05:
            engine.table.remove_node(rng.choice(names))
            names = list(engine.table.row_of)
        elif dice < 0.25 and placed:
            engine.forget(placed.pop(rng.randrange(len(placed))))
        else:
            kind = rng.choice(KINDS)
            answer = engine.place(kind)
            told.append(answer if isinstance(answer, Placement) else answer.message)
            if isinstance(answer, Placement):
                engine.assume(str(step), kind, answer.node)
                placed.append(str(step))
            if step % 10 == 0:
                told.append(engine.scores(kind))
    return told


@pytest.mark.parametrize("seed", range(12))
def test_a_class_that_shares_places_like_one_that_does_not(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = story(seed, 400)
    monkeypatch.setattr("weir.scheduler.cycle.Feasibility", Alone)
    assert shared == story(seed, 400)


@pytest.mark.parametrize("most", [1, 2, 99])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_dropped_comes_back_the_same(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = story(seed, 300)
    monkeypatch.setattr(resource_scores, "_MOST", most)
    monkeypatch.setattr(resource_scores, "_LEAST", most)
    monkeypatch.setattr(resource_scores, "_IDLE_ROUNDS", 1)
    monkeypatch.setattr(resource_scores, "_LONGEST_FLIPS", 1)
    assert story(seed, 300) == expected


def test_scores_are_really_shared() -> None:
    table = NodeTable()
    table.put_node(node("n", 4000, 2**30, 9))
    engine = Engine(ALL_FEATURES, table=table)
    for kind in KINDS:
        engine.place(kind)
    book = resource_scores.resource_scores_of(table)
    assert len(book._kept) == 4 and len({id(each.scores) for each in book._kept}) == 4


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_a_large_cluster_is_no_other(seed: int, share: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = story(seed, 300)
    monkeypatch.setattr(feasibility, "_FLAT", 0)
    if not share:
        monkeypatch.setattr("weir.scheduler.cycle.Feasibility", Alone)
    assert story(seed, 300) == expected


def test_never_twice_is_still_a_number() -> None:
    assert int(np.int64(resource_scores.NEVER) + np.int64(feasibility._NEVER)) < 0
