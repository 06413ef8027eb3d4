"""The operator on a real, unmodified Kubernetes: the same ends as native operators have, and no wrong eviction."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path

import pytest

from tests.stock.flips import SITUATIONS, play
from tests.stock.real import HOOKS, PATIENCE_SECONDS, PODS, Plane, installed, plane
from tests.stock.scenarios import SCENARIOS, Scenario, entry, sla
from weir import errors
from weir.lowering import webhooks

#: The last that can happen in a scenario, and a while.
LAST_SECONDS = 5.0
FLIPS = 40
GRACE_SECONDS = 3


async def ends(made: Plane) -> dict[str, float | None]:
    """Return when the pod of each scenario was evicted, in seconds after its first step; None: it stayed."""
    found: dict[str, float | None] = {}

    async def act(number: int, scenario: Scenario) -> None:
        node, pod = f"node-{number}", f"pod-{number}"
        await made.node(node, *scenario.first)
        await made.pod(pod, *scenario.tolerations, node=node)
        await made.until(lambda: pod in made.bound, f"{pod} is bound")
        began = None
        for pause, taints in scenario.steps:
            await asyncio.sleep(pause)
            await made.taint(node, *taints)
            began = began or time.monotonic()  # what a step takes to be admitted is not the pod's time
        assert began is not None
        await asyncio.sleep(LAST_SECONDS)
        gone = made.gone.get(pod)
        found[scenario.name] = None if gone is None else gone - began

    await asyncio.gather(*(act(number, scenario) for number, scenario in enumerate(SCENARIOS)))
    return found


async def apply_again(made: Plane) -> str:
    """Apply a pod, let weir add an entry, apply it again without force; return what the server refuses, or ""."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "applied", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [entry("Gt", "900")]},
    }
    await made.node("apply", sla("950"))
    await made.client.apply(PODS, pod, field_manager="kubectl")
    await made.until(lambda: "applied" in made.bound, "the applied pod is bound")
    stored = await made.client.get(PODS, "applied", "default")
    await made.taint(stored["spec"]["nodeName"], sla("970"))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            await made.client.apply(PODS, pod, field_manager="kubectl")
            return ""
        except errors.Conflict as error:  # the list is given back right after the write
            if time.monotonic() > deadline:
                return str(error)
            await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> tuple[dict[str, float | None], dict[str, float | None], str]:
    async def stock() -> tuple[dict[str, float | None], str]:
        async with plane(tmp_path_factory.mktemp("stock")) as made, installed(made):
            return await ends(made), await apply_again(made)

    async def native() -> dict[str, float | None]:
        async with plane(tmp_path_factory.mktemp("native"), numeric=True) as made:
            return await ends(made)

    lowered, refused = asyncio.run(stock())
    return lowered, asyncio.run(native()), refused


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_same_end_as_natively(both, scenario):
    lowered, natively = (each[scenario.name] for each in both[:2])
    assert (lowered is None) == (natively is None) == (scenario.evicted is None)
    if lowered is not None and natively is not None:
        print(f"{scenario.name}: lowered {lowered:.3f} s, native {natively:.3f} s")
        assert abs(lowered - natively) < 1.0  # a loaded machine; the figure itself is printed


def test_a_pod_can_be_applied_again_on_the_servers_side(both):
    assert both[2] == ""


async def without_a_barrier(folder: Path, grace_seconds: int, flips: int) -> tuple[int, float]:
    """Return how many pods are left after taints came before their entries, and when they leave for a mismatch."""
    async with plane(folder) as made, installed(made, grace_seconds=grace_seconds):
        await made.node("n", sla("950"))
        names = [f"p{number}" for number in range(5)]
        for name in names:
            await made.pod(name, entry("Gt", "900"), node="n")
        await made.until(lambda: all(name in made.bound for name in names), "pods are bound")
        if grace_seconds:
            await made.until(lambda: all(name in made.graced for name in names), "pods have grace")
        await made.client.delete(HOOKS[1], webhooks.VALIDATING_CONFIGURATION)
        await not_called(made)
        for number in range(flips):
            await made.taint("n", sla(str(1_000 + number)))
            await asyncio.sleep(GRACE_SECONDS / 2)
        await asyncio.sleep(GRACE_SECONDS + 1)
        left = sum(name not in made.gone for name in names)
        if not left:
            return 0, 0.0
        began = time.monotonic()
        await made.taint("n", sla("800"))
        await made.until(lambda: all(name in made.gone for name in names), "evictions", 30.0)
        return left, max(made.gone[name] for name in names) - began


async def not_called(made: Plane) -> None:
    """Return when the API server has forgotten the barrier."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for number in itertools.count():
        await made.node(f"probe-{number}", ("probe", str(number), "NoSchedule"))
        await asyncio.sleep(0.2)
        if "A node got taints past the hook" in made.operators[0].log:
            return
        assert time.monotonic() < deadline


def test_grace_saves_pods_whose_entries_come_after_the_taint(tmp_path):
    """Each flip would evict all five pods: the entry that tolerates the taint is written after it."""
    left, late = asyncio.run(without_a_barrier(tmp_path, GRACE_SECONDS, 4))
    print(
        f"with grace {left} of 5 pods are left, and a mismatch that no barrier announced leaves after {late:.1f} s"
    )
    assert left == 5 and late > GRACE_SECONDS - 1


def test_without_grace_they_are_lost(tmp_path):
    left, _ = asyncio.run(without_a_barrier(tmp_path, 0, 1))
    assert left < 5


@pytest.mark.parametrize("situation", SITUATIONS)
def test_nobody_is_evicted_wrongly_and_everybody_else_is(tmp_path, situation):
    result = asyncio.run(play(tmp_path, situation, FLIPS))
    print(result.line())
    assert result.flips >= FLIPS
    assert not result.wrong and not result.missed
