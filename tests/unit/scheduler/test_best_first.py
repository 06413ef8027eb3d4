"""Asking the best nodes first finds what asking all of them finds, and costs the same at ten times the nodes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.unit.devices.builders import DRIVER, device, device_class, rule, slice_of
from tests.unit.scheduler.claim_scene import Scene, ask, pod
from weir.scheduler import best_first
from weir.scheduler.claim_feasibility import ClaimFeasibility
from weir.scheduler.cycle import Placement
from weir.scheduler.framework import Diagnosis, PluginError

NOWHERE = 10**9
_SHAPES = [
    [ask()],
    [ask(count=2)],
    [ask("a"), ask("b", tolerations=[{"operator": "Exists"}])],
    [
        {
            "name": "r",
            "firstAvailable": [
                {"name": "big", "deviceClassName": "a100"},
                {"name": "any", "deviceClassName": "gpu"},
            ],
        }
    ],
]
_node = st.tuples(
    st.integers(0, 3), st.integers(0, 3), st.integers(0, 7)
)  # devices, taints to avoid, CPU in use
_moves = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, 3)),
        st.tuples(st.just("node"), st.integers(0, 6), _node),
        st.tuples(st.just("gone"), st.integers(0, 6)),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("rule"), st.integers(0, 6), st.booleans()),
        st.tuples(st.just("wide"), st.booleans()),
    ),
    max_size=20,
)


def furnish(scene: Scene, number: int, devices: int, taints: int, cpu: int) -> None:
    """Bring one node into a state: how many devices it has, how little it is liked, how much is used."""
    name = f"node-{number}"
    avoided = [{"key": f"k{n}", "effect": "PreferNoSchedule"} for n in range(taints)]
    scene.node(name, taints=avoided)
    scene.put(slice_of(f"s-{number}", *scene.gpus(devices), pool=name))
    containers = [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}]
    scene.engine.forget(f"load-{number}")
    scene.engine.assume(f"load-{number}", pod(spec={"containers": containers}), name)


def feasibility_of(scene: Scene) -> ClaimFeasibility:
    (found,) = scene.engine.profile.plugins["DynamicResources"]._feasibilities._by_shape.values()  # type: ignore[attr-defined]
    assert isinstance(found, ClaimFeasibility)
    return found


@settings(max_examples=tries(80, 400), deadline=None)
@given(st.lists(_node, min_size=2, max_size=6), _moves)
def test_the_node_is_that_of_the_long_way_over_all_nodes(nodes: list[Any], moves: list[Any]) -> None:
    scene = Scene(nodes=0)
    scene.put(device_class("a100", f"device.attributes['{DRIVER}'].index == 1"))
    for number, node in enumerate(nodes):
        furnish(scene, number, *node)
    promises: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        for number, move in enumerate([("pod", 0), ("pod", 3), *moves]):
            match move:
                case ("pod", shape):
                    claim = scene.claim(f"c{number}", *_SHAPES[shape])
                    wanted = pod(f"p{number}", claim.metadata.name)
                    patch.setattr(best_first, "ASKS_ALL", 0)
                    answer = scene.place(wanted)
                    patch.setattr(best_first, "ASKS_ALL", NOWHERE)
                    plain = scene.place(wanted)
                    if isinstance(plain, Diagnosis):
                        assert answer == plain
                        scene.claims.remove_claim(claim.key)
                        continue
                    assert isinstance(answer, Placement) and answer.node == plain.node
                    scene.engine.assume(wanted.key, wanted, answer.node)
                    promises.append(scene.reserve(wanted, answer.node))
                case ("node", which, node):
                    furnish(scene, which, *node)
                case ("gone", which) if len(scene.engine.table) > 1:
                    scene.engine.table.remove_node(f"node-{which}")
                case ("end", which) if which < len(promises):
                    promises.pop(which).end()
                case ("rule", which, there):
                    if there:
                        scene.put(rule("r", {"pool": f"node-{which}"}, "x:NoSchedule"))
                    else:
                        scene.claims.remove_rule("r")
                case ("wide", there):
                    if there:
                        scene.put(slice_of("wide", *scene.gpus(1), pool="net", nodeName=None, allNodes=True))
                    else:
                        scene.claims.remove_slice("wide")


def placed(nodes: int, pods: int, *, without: int = 0) -> int:
    """Return how many searches it took to place so many pods; the first *without* nodes have no devices."""
    scene = Scene(nodes=nodes, gpus=2)
    for number in range(1, without + 1):
        scene.claims.remove_slice(f"s-{number}")
    for number in range(pods):
        scene.claim(f"c{number}")
        scene.schedule(pod(f"p{number}", f"c{number}"))
    return feasibility_of(scene).judged


def test_ten_times_the_nodes_take_no_more_searches() -> None:
    assert placed(150, 40) == placed(1_500, 40) <= 2 * 40


def test_nodes_without_devices_are_searched_once_not_by_every_pod() -> None:
    with_refusals = placed(300, 40, without=200)
    assert 200 < with_refusals <= 2 * 256 + 2 * 40


def test_a_long_log_of_devices_taken_does_not_start_every_search_again() -> None:
    scene = Scene(nodes=150, gpus=2)
    scene.claim("c")
    scene.schedule(pod("p", "c"))
    before = feasibility_of(scene).judged
    scene.claims._touch(["node-150"] * 4_999)
    for number in range(20):
        scene.claim(f"c{number}")
        scene.schedule(pod(f"p{number}", f"c{number}"))
        scene.claims._touch(["node-150"] * 999)
    assert feasibility_of(scene).judged - before <= 3 * 20


@pytest.mark.parametrize(("nodes", "breaks"), [(100, True), (101, False)])
def test_a_search_that_breaks_counts_where_kubernetes_would_surely_have_asked(
    nodes: int, breaks: bool
) -> None:
    scene = Scene(nodes=nodes, gpus=0)
    for number in range(1, nodes + 1):
        attributes = {"index": {"int": 0}} if number < nodes else {}
        scene.put(slice_of(f"s-{number}", device("gpu-0", attributes=attributes), pool=f"node-{number}"))
    scene.claim("c", ask(selectors=[{"cel": {"expression": f"device.attributes['{DRIVER}'].index == 0"}}]))
    if breaks:
        with pytest.raises(PluginError, match="no such key"):
            scene.place(pod("p", "c"))
    else:
        assert scene.schedule(pod("p", "c")) == ("node-1", ["gpu-0"])


class _Ordered:
    """Keys of rows as a feasibility has them, by blocks of 32."""

    def __init__(self, keys: list[int]) -> None:
        self._keys = np.array(keys, np.int64)
        full = np.full(-(-len(keys) // 32) * 32, -1, np.int64)
        full[: len(keys)] = self._keys
        self._blocks = full.reshape(-1, 32)

    def keys(self) -> Any:
        return self._keys

    def blocks(self) -> Any:
        return self._blocks.max(axis=1), self._blocks


@pytest.mark.parametrize("seed", range(60))
def test_the_best_rows_are_found_through_their_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(best_first, "_LOOKED", 1)
    count = rng.choice([1, 40, 700])
    keys = rng.sample(range(10 * count), count)
    share = rng.choice([0.0, 0.5, 1.0])
    keys = [-1 if rng.random() < share else key for key in keys]
    without = np.array([rng.random() < rng.choice([0.0, 0.9, 1.0]) for _ in keys])
    if rng.random() < 0.5:  # the best are among those that are left out
        without |= np.array(keys) > 5 * count
    wanted = rng.choice([1, 2, 9])
    ordered = sorted(
        (row for row in range(count) if keys[row] >= 0 and not without[row]), key=lambda row: -keys[row]
    )
    found = best_first.best_rows(_Ordered(keys), without, wanted).tolist()  # type: ignore[arg-type]
    assert found == ordered[: len(found)]
    assert len(found) >= min(len(ordered), 1) and len(found) <= wanted


def test_a_placement_in_a_large_cluster_looks_at_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.scheduler.feasibility._FLAT", 0)
    scene = Scene(nodes=1_500, gpus=2)
    table = scene.engine.table
    feasibility = scene.engine.feasibility(pod("p"))
    feasibility.sync()
    found = best_first.best_rows(feasibility, np.zeros(table.size, np.bool_), 2)
    assert 1 <= len(found) <= 2 and found[0] == feasibility.best()
