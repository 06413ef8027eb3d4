"""The operator on a real, unmodified Kubernetes: the same ends as native operators have, and no wrong eviction."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.stock.flips import SITUATIONS, play
from tests.stock.real import HOOKS, PATIENCE_SECONDS, PODS, Plane, has_numeric_gate, installed, plane
from tests.stock.scenarios import SCENARIOS, Scenario, entry, sla
from weir import errors
from weir.client.snapshot import WHAT_IF, snapshot
from weir.gates import ALL_FEATURES
from weir.inputs.cluster import ClusterObjects
from weir.lowering import webhooks
from weir.objects.kinds import by_kind
from weir.taints.notation import parse_taint
from weir.whatif.changes import Nodes, Taint, TaintEdit
from weir.whatif.run import WhatIfOptions

#: The last that can happen in a scenario, and a while.
LAST_SECONDS = 5.0
FLIPS = 40
GRACE_SECONDS = 3


#: Times with and without the operator differ by less; on a busy machine it takes a few tries to see it.
SAME_SECONDS, TRIES = 0.1, 5
APART_SECONDS = 0.3


async def ends(made: Plane, turn: int) -> dict[str, float | None]:
    """Return when the pod of each scenario was evicted, in seconds after the step that decides; None: it stayed.

    What a step takes to be admitted is not the pod's time: it counts from the answer to the write. They begin one
    after the other, so that what is measured is not how many of them a machine can do at once.
    """
    found: dict[str, float | None] = {}

    async def act(number: int, scenario: Scenario) -> None:
        node, pod = f"node-{turn}-{number}", f"pod-{turn}-{number}"
        await asyncio.sleep(number * APART_SECONDS)
        await made.node(node, *scenario.first)
        await made.pod(pod, *scenario.tolerations, node=node)
        await made.until(lambda: pod in made.bound, f"{pod} is bound")
        written: list[float] = []
        due = 0.0
        for pause, taints in scenario.steps:
            await asyncio.sleep(pause)
            due += pause
            await made.taint(node, *taints)
            if not written or due == scenario.evicted:
                written.append(time.monotonic())
        await asyncio.sleep(LAST_SECONDS)
        gone = made.gone.get(pod)
        found[scenario.name] = None if gone is None else gone - written[-1]

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


def quickest(tries: list[dict[str, float | None]]) -> dict[str, float | None]:
    """Return the least that each scenario took; a pod that stays in one try and leaves in another is an error."""
    found: dict[str, float | None] = {}
    for name in tries[0]:
        times = [each[name] for each in tries]
        left = [each for each in times if each is not None]
        assert len(left) in (0, len(times)), f"{name}: {times}"
        found[name] = min(left, default=None)
    return found


def difference(lowered: dict[str, float | None], natively: dict[str, float | None], name: str) -> float:
    return abs((lowered[name] or 0.0) - (natively[name] or 0.0))


def expected(scenario: Scenario) -> float | None:
    """Return when the pod has to leave, in seconds after the step that decides."""
    if scenario.evicted is None:
        return None
    written = itertools.accumulate(pause for pause, _ in scenario.steps)
    return 0.0 if scenario.evicted in written else scenario.evicted


def as_expected(scenario: Scenario, found: float | None) -> bool:
    wanted = expected(scenario)
    return found is None if wanted is None else found is not None and wanted - 0.1 <= found <= wanted + 1.0


def unsteady(tries: list[dict[str, float | None]]) -> float:
    """Return by how much the same scenario differs from itself on this machine just now."""
    return max(
        (
            max(times) - min(times)
            for name in tries[0]
            if (times := [t for each in tries if (t := each[name])])
        ),
        default=0.0,
    )


async def play_both(folder: Path) -> tuple[dict[str, float | None], dict[str, float | None], float, str]:
    """Play every scenario on both sides at the same time, again while the machine makes a difference.

    Return the times of both, how unsteady the native side is by itself, and what a second apply is refused for.
    """
    tries: tuple[list[dict[str, float | None]], ...] = ([], [])
    (folder / "stock").mkdir()
    (folder / "native").mkdir()
    async with plane(folder / "stock") as stock, installed(stock), AsyncExitStack() as stack:
        sides = [stock]
        if has_numeric_gate():
            sides.append(await stack.enter_async_context(plane(folder / "native", numeric=True)))
        for turn in range(TRIES):
            found = await asyncio.gather(*(ends(each, turn) for each in sides))
            for side, each in zip(tries, found, strict=False):
                side.append(each)
            lowered = quickest(tries[0])
            natively = quickest(tries[1]) if tries[1] else {each.name: expected(each) for each in SCENARIOS}
            if all(difference(lowered, natively, name) < SAME_SECONDS for name in lowered):
                break
        return lowered, natively, unsteady(tries[-1] or tries[0]), await apply_again(stock)


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> tuple[dict[str, float | None], dict[str, float | None], float, str]:
    return asyncio.run(play_both(tmp_path_factory.mktemp("both")))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_same_end_as_natively(both, scenario):
    lowered, natively, noise, _ = both
    at = lowered[scenario.name], natively[scenario.name]
    assert (at[0] is None) == (at[1] is None) == (scenario.evicted is None)
    if at[0] is not None and at[1] is not None:
        apart = difference(lowered, natively, scenario.name)
        print(f"{scenario.name}: lowered {at[0]:.3f} s, native {at[1]:.3f} s, {apart * 1000:.0f} ms apart")
        assert apart < SAME_SECONDS + noise


def test_a_pod_can_be_applied_again_on_the_servers_side(both):
    assert both[3] == ""


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
    await made.node("probe")
    for number in itertools.count():
        await made.taint("probe", ("probe", str(number), "NoSchedule"))
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


EXPRESSION = "taint.key == 'sla' && int(taint.value) >= 900"


async def foreseen_and_found(folder: Path, value: str) -> tuple[set[str], set[str], bool, int]:
    """Return the pods that what-if sees leave a tainted node and those that do, whether their replacements have a
    place in the forecast, and how many pods run in the end."""
    async with plane(folder) as made, installed(made):
        await made.node("m1", sla("950"))
        for kind in ("Deployment", "StatefulSet"):
            labels = {"app": kind.lower()}
            template = {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{"name": "c", "image": "i"}],
                    "terminationGracePeriodSeconds": 0,
                    "tolerations": [{"operator": "CEL", "value": EXPRESSION}],
                },
            }
            spec = {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": template,
                "podManagementPolicy": "Parallel",
            }
            if kind == "Deployment":
                del spec["podManagementPolicy"]
            await made.client.create(
                by_kind("apps/v1", kind), {"metadata": {"name": kind.lower()}, "spec": spec}, "default"
            )
        await made.until(lambda: len(made.bound) == 4, "four pods are bound")
        first = set(made.bound)
        await made.node("m2", sla("970"))
        read = await snapshot(made.client, WHAT_IF)
        held = ClusterObjects.of(
            (("the cluster", each) for each in read.documents), keep_gate=False, listed=read.listed
        )
        change = Taint(Nodes(("m1",)), (TaintEdit(parse_taint(f"sla={value}:NoExecute")),))
        forecast = await asyncio.to_thread(
            held.loaded.what_if, [change], WhatIfOptions(ALL_FEATURES, datetime.now(UTC))
        )
        await made.taint("m1", sla(value))
        await asyncio.sleep(LAST_SECONDS)
        pods = (await made.client.list(PODS, "default")).documents()
        running = sum(bool(each["spec"].get("nodeName")) for each in pods)
        placed = all(each.ends_on == "m2" and not each.lost for each in forecast.leaving)
        leaving = {each.pod.rpartition("/")[2] for each in forecast.leaving}
        return leaving, set(made.gone) & first, placed, running


@pytest.mark.parametrize("value, number", [("980", 0), ("890", 4)])
def test_what_if_foresees_what_happens_to_lowered_workloads(tmp_path, value, number):
    """The replacements of lowered pods are made and placed, and no template seems to be new."""
    leaving, gone, placed, running = asyncio.run(foreseen_and_found(tmp_path, value))
    assert leaving == gone and len(gone) == number
    assert placed and running == 4
