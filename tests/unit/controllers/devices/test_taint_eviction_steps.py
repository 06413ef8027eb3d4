"""How a pod leaves because of a device's taint: what is written, what comes of it, and what is counted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from weir.controllers.devices.eviction_queue import PodKey
from weir.controllers.devices.taint_eviction_steps import EvictPod, about
from weir.controllers.runtime.pod_eviction import Evicted

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = PodKey("team", "p", "u")


class World:
    """A server with at most one pod, and the metrics of a controller, which note what is done."""

    def __init__(self, pod: dict[str, Any] | None) -> None:
        self.pod, self.done, self.counted = pod, [], []  # type: ignore[var-annotated]

    def now(self) -> datetime:
        return NOW

    async def find(self, kind: Any, name: str, namespace: str) -> dict[str, Any] | None:
        return self.pod

    async def patch(self, kind: Any, name: str, patch: dict[str, Any], *_: Any, **__: Any) -> None:
        (condition,) = patch["status"]["conditions"]
        self.done.append((condition["reason"], condition["message"], "observedGeneration" in condition))

    async def delete(self, kind: Any, name: str, namespace: str, **more: Any) -> None:
        self.done.append(("delete", f"{namespace}/{name}", more["uid"]))

    def record(self, reference: Any, *words: str) -> None:
        self.done.append((reference, *words))

    def child(self) -> World:
        return self

    def inc(self) -> None:
        self.counted.append("one")

    def observe(self, seconds: float) -> None:
        self.counted.append(seconds)


def pod(uid: str = "u", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "team", "uid": uid, "generation": 3, **metadata},
        "status": {},
    }


def carried_out(there: dict[str, Any] | None, late: float = 0.0) -> tuple[Evicted, World]:
    world = World(there)
    metrics = SimpleNamespace(device_pod_deletions=world, device_pod_deletion_duration=world)
    context = SimpleNamespace(client=world, clock=world, recorder=world, metrics=metrics)
    eviction = EvictPod(KEY, NOW - timedelta(seconds=late), ())
    return asyncio.run(eviction.carry_out(context)), world  # type: ignore[arg-type]


def test_event_condition_and_deletion_come_in_this_order():
    outcome, world = carried_out(pod())
    assert outcome is Evicted.DELETED
    assert world.done == [
        (about(KEY), "Normal", "DeviceTaintManagerEviction", "Marking for deletion"),
        ("DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint", False),
        ("delete", "team/p", "u"),
    ]


@pytest.mark.parametrize("late, told", [(2.5, 2.5), (0.0, 0.0), (-1.0, 0.0)])
def test_a_deletion_is_counted_with_how_late_it_was(late, told):
    assert carried_out(pod(), late)[1].counted == ["one", told]


def test_a_pod_that_leaves_already_is_left_alone_and_counted():
    outcome, world = carried_out(pod(deletionTimestamp="2026-01-01T12:00:00Z"))
    assert (outcome, world.done, world.counted) == (Evicted.LEAVING, [], ["one", 0.0])


@pytest.mark.parametrize("there", [None, pod("another")])
def test_a_pod_that_is_gone_or_another_is_not_counted(there):
    outcome, world = carried_out(there)
    assert (outcome, world.done, world.counted) == (Evicted.GONE, [], [])


def test_events_are_about_the_pod_and_no_version_of_it():
    found = about(KEY)
    assert (found.kind, found.namespace, found.name, found.uid) == ("Pod", "team", "p", "u")
