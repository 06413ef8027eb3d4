"""One wave of a plan, made in a live cluster, until the state that the plan waits for is reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from weir.client.api import Client
from weir.client.snapshot import snapshot
from weir.clock import Clock
from weir.errors import ApiError
from weir.objects.kinds import by_kind
from weir.objects.times import format_time
from weir.plan.document import Wave
from weir.plan.live import MANAGER, LiveCluster, make
from weir.plan.task import on_nodes
from weir.plan.verify import Check, unmet
from weir.whatif.changes import Change, Nodes

Document = dict[str, Any]
#: Shows how many of the wave's conditions hold, of how many.
Tick = Callable[[int, int], None]

_LOOK_SECONDS: Final = 1.0
_EVENTS: Final = by_kind("v1", "Event")
_SEEN: Final = ("Pod", "ReplicaSet", "PodDisruptionBudget")


async def carry_out(
    client: Client,
    clock: Clock,
    wave: Wave,
    changes: Sequence[Change],
    limit_seconds: float,
    made: Callable[[list[str]], None],
    tick: Tick,
) -> list[Check]:
    """Make *changes* and wait for the state of *wave*; return what is not so after *limit_seconds*.

    *made* is called when the changes are made, with what there is to say about them.
    """
    cluster = LiveCluster(client, clock, asyncio.get_running_loop())
    try:
        notes = []
        for change in changes:
            notes += await asyncio.to_thread(make, change, cluster)
        await _record_events(client, clock, wave)
        made(notes)
        return await _wait(cluster, wave, limit_seconds, tick)
    finally:
        cluster.close()


async def take_back(client: Client, clock: Clock, changes: Sequence[Change]) -> None:
    """Make the *changes* that undo a wave, of which only a part may have been made; nodes may be gone meanwhile."""
    cluster = LiveCluster(client, clock, asyncio.get_running_loop(), force=True)
    for change in changes:
        await asyncio.to_thread(_take_back, change, cluster)


def _take_back(change: Change, cluster: LiveCluster) -> None:
    changes, nodes = [change], getattr(change, "nodes", None)
    if isinstance(nodes, Nodes):
        there = [each for each in cluster.list("Node") if each["metadata"]["name"] in nodes.names]
        changes = on_nodes(change, there)
    for each in changes:
        make(each, cluster)


async def _wait(cluster: LiveCluster, wave: Wave, limit_seconds: float, tick: Tick) -> list[Check]:
    clock = cluster.clock
    deadline = clock.monotonic() + limit_seconds
    total = len(wave.evictions) + len(wave.wait_for.workloads) + len(wave.wait_for.budgets)
    while True:
        began = clock.monotonic()
        missing = unmet(wave, (await snapshot(cluster.client, _SEEN)).documents)
        tick(total - len(missing), total)
        if (failure := cluster.failure()) is not None:
            raise failure
        now = clock.monotonic()
        if not missing or now >= deadline:
            return missing
        # a large cluster is read less often: reading takes at most a fifth of the time
        await clock.sleep(max(_LOOK_SECONDS, 4 * (now - began)))


async def _record_events(client: Client, clock: Clock, wave: Wave) -> None:
    """Write an event for each node that the wave changed; clusters that refuse events go without."""
    at = format_time(clock.now())
    message = f"Wave {wave.number} of a plan: {'; '.join(wave.changes)}"
    for node in wave.nodes:
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{node}.", "namespace": "default"},
            "involvedObject": {"kind": "Node", "apiVersion": "v1", "name": node, "uid": node},
            "type": "Normal",
            "reason": "PlanWaveMade",
            "message": message[:1024],
            "source": {"component": MANAGER},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        try:
            await client.create(_EVENTS, event, field_manager=MANAGER)
        except ApiError:
            return
