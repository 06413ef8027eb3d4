"""The operator on a real, unmodified Kubernetes: the same ends as native operators have, and no wrong eviction."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.stock.flips import SITUATIONS, play
from tests.stock.real import PATIENCE_SECONDS, PODS, Plane, installed, plane
from tests.stock.scenarios import SCENARIOS, Scenario, entry, sla
from weir import errors

#: The last that can happen in a scenario, and a while.
LAST_SECONDS = 5.0
FLIPS = 40


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


@pytest.mark.parametrize("situation", SITUATIONS)
def test_nobody_is_evicted_wrongly_and_everybody_else_is(tmp_path, situation):
    result = asyncio.run(play(tmp_path, situation, FLIPS))
    print(result.line())
    assert result.flips >= FLIPS
    assert not result.wrong and not result.missed
