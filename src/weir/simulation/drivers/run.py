"""Runs the simulated drivers of all simulated nodes: publishes slices from node annotations.

Changes of the slices by other clients are reverted. After a restart existing slices are adopted. A node that is
switched off publishes nothing; its slices stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.cache import Informer, ObjectKey, decode_document
from weir.client.events import Recorder, reference
from weir.client.queue import WorkQueue, work
from weir.clock import Clock
from weir.objects.kinds import RESOURCE_SLICES, by_kind
from weir.observe.logs import Log
from weir.simulation.drivers.device_models import DEVICES, Devices, DevicesError, read_all
from weir.simulation.drivers.faults import (
    ANNOTATION,
    Condition,
    Fault,
    FaultError,
    condition,
    read_annotation,
)
from weir.simulation.drivers.publisher import MARKS, Plan, PoolLocation, device_class, dropped, plan
from weir.simulation.kubelet.node_classes import is_off

CLASSES: Final = by_kind("resource.k8s.io/v1", "DeviceClass")
WORKERS: Final = 4
ASK_AGAIN_SECONDS: Final = 30.0
INVALID: Final = "InvalidDevices"
DROPPED: Final = "DroppedFields"

Document = dict[str, Any]


class PoolKey(NamedTuple):
    """A pool whose slices may have to change."""

    driver: str
    pool: str


class Drivers:
    """Every driver of the nodes an informer knows, over one client."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        nodes: Informer[Document],
        recorder: Recorder,
        log: Log,
        marks: Mapping[str, str] = MARKS,
    ) -> None:
        """*marks* are the labels of what is published here, and by which it is known again."""
        self._client, self._clock, self._nodes = client, clock, nodes
        self._recorder, self._log = recorder, log
        self._marks = marks
        self._slices: Informer[Document] = Informer(
            client, RESOURCE_SLICES, clock, decode_document, label_selector=_selector(marks), seed=0
        )
        self._queue: WorkQueue[PoolKey] = WorkQueue(clock)
        self._by_pool: dict[PoolKey, dict[str, Devices]] = {}  # → node → what it has there
        self._of_node: dict[str, tuple[PoolKey, ...]] = {}
        self._stored: dict[PoolKey, dict[str, Document]] = {}  # by name, as last written or seen
        self._deleted: set[str] = set()  # uids of slices we deleted and whose events may still come
        self._classes: set[str] = set()
        self._told: dict[str, str] = {}  # node → what was wrong with its description

    async def run(self) -> None:
        """Publish until cancelled; where devices are not served, wait until they are."""
        await self._until_served()
        tasks = [asyncio.ensure_future(self._slices.run())]
        try:
            await self._nodes.cache.wait_synced()
            await self._slices.cache.wait_synced()
            self._slices.cache.listen(self._slice_changed)
            self._nodes.cache.listen(self._node_changed)
            tasks += [
                asyncio.ensure_future(work(self._queue, self._publish, failed=self._failed))
                for _ in range(WORKERS)
            ]
            await asyncio.gather(*tasks)
        finally:
            self._queue.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_served(self) -> None:
        while True:
            try:
                await self._client.list(RESOURCE_SLICES, limit=1)
                return
            except (errors.ApiError, Unreachable) as error:
                self._log.v(2, "devices cannot be published", err=str(error))
            await self._clock.sleep(ASK_AGAIN_SECONDS)

    # ── changes ──────────────────────────────────────────────────────────────────────────────────

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        node = new or old
        assert node is not None
        name = node["metadata"]["name"]
        if old is not None and new is not None and _device_annotations(old) == _device_annotations(new):
            return  # a heartbeat
        before = self._of_node.pop(name, ())
        for key in before:
            self._by_pool[key].pop(name, None)
            if not self._by_pool[key]:
                del self._by_pool[key]
        found = {PoolKey(each.driver, each.pool or name): each for each in self._read(new)} if new else {}
        for key, devices in found.items():
            self._by_pool.setdefault(key, {})[name] = devices
        if found:
            self._of_node[name] = tuple(found)
        for key in {**dict.fromkeys(before), **found}:
            self._queue.add(key)

    def _read(self, node: Document) -> tuple[Devices, ...]:
        """Return the devices a node says it has; none, and an event, when that cannot be read."""
        text = (node["metadata"].get("annotations") or {}).get(DEVICES)
        name = node["metadata"]["name"]
        if not text:
            return ()
        try:
            found = read_all(msgspec.json.decode(text))
        except (DevicesError, msgspec.DecodeError) as error:
            self._record(node, INVALID, f"annotation {DEVICES}: {error}")
            return ()
        self._told.pop(name, None)
        return found

    def _slice_changed(self, old: Document | None, new: Document | None) -> None:
        found = new or old
        assert found is not None
        key, name, uid = _key_of(found), found["metadata"]["name"], found["metadata"]["uid"]
        known = self._stored.setdefault(key, {})
        if new is None:
            self._deleted.discard(uid)
            if name in known and known[name]["metadata"]["uid"] == uid:
                del known[name]
                self._queue.add(key)
        elif uid not in self._deleted and _newer(new, known.get(name)):
            known[name] = new
            self._queue.add(key)

    def _failed(self, key: PoolKey, error: Exception) -> None:
        if isinstance(error, errors.Invalid):
            for name in sorted(self._by_pool.get(key, ()))[:1]:
                node = self._node(name)
                if node is not None:
                    self._record(node, INVALID, str(error))
            return
        if isinstance(error, errors.WeirError):
            self._log.v(4, "will be tried again", pool="/".join(key), err=str(error))
            return
        try:
            raise error
        except Exception:
            self._log.exception("a simulated driver failed", pool="/".join(key))

    # ── publishing ───────────────────────────────────────────────────────────────────────────────

    async def _publish(self, key: PoolKey) -> None:
        holders = self._by_pool.get(key, {})
        stored = self._stored.setdefault(key, {})
        if not holders:
            await self._carry_out(key, Plan(delete=tuple(stored.values())), None)
            self._stored.pop(key, None)
            return
        name = min(holders)
        devices, node = holders[name], self._node(name)
        if node is None or is_off(node):
            return  # the node is off
        now = self._clock.now()
        holds = condition(self._faults(node, devices), now)
        place = (
            PoolLocation.shared(devices.pool, devices.node_labels)
            if devices.pool
            else PoolLocation.on_node(name, node["metadata"]["uid"])
        )
        await self._ensure_class(devices)
        await self._carry_out(key, plan(devices, place, list(stored.values()), holds, self._marks), node)
        self._wake_for(key, holds, now)

    def _wake_for(self, key: PoolKey, holds: Condition, now: datetime) -> None:
        if holds.changes_at is not None:
            self._queue.add_after(key, max(0.001, (holds.changes_at - now).total_seconds()))

    def _faults(self, node: Document, devices: Devices) -> list[Fault]:
        """Return the faults of a node's devices: those of the schedule, then those a user made."""
        created = datetime.fromisoformat(node["metadata"]["creationTimestamp"])
        found = devices.faults(created)
        for annotation, text in sorted((node["metadata"].get("annotations") or {}).items()):
            if annotation.startswith(ANNOTATION):
                try:
                    found += read_annotation(annotation, text, created)
                except FaultError as error:
                    self._record(node, INVALID, f"annotation {annotation}: {error}")
        return found

    async def _ensure_class(self, devices: Devices) -> None:
        if devices.driver in self._classes:
            return
        with suppress(errors.AlreadyExists):  # a user's own stays as it is
            await self._client.create(CLASSES, device_class(devices, self._marks))
        self._classes.add(devices.driver)

    async def _carry_out(self, key: PoolKey, wanted: Plan, node: Document | None) -> None:
        for number, document in enumerate((*wanted.create, *wanted.update)):
            created = number < len(wanted.create)
            if created:
                answer = await self._client.create(RESOURCE_SLICES, document)
            else:
                try:
                    answer = await self._client.update(RESOURCE_SLICES, document)
                except errors.NotFound:  # gone meanwhile: it is created when its deletion is seen
                    self._stored.get(key, {}).pop(document["metadata"]["name"], None)
                    raise
                except errors.Conflict:
                    fresh = await self._client.find(RESOURCE_SLICES, document["metadata"]["name"])
                    if fresh is not None:
                        self._stored.setdefault(key, {})[fresh["metadata"]["name"]] = fresh
                    raise
            features = dropped(document, answer)
            if features and node is not None:
                message = (
                    f'pool "{key.pool}", slice #{int(answer["metadata"]["name"].partition("-")[0], 16)}: some fields '
                    f"were dropped by the apiserver, probably because these features are disabled: {' '.join(features)}"
                )
                self._record(node, DROPPED, message)
                answer = {**answer, "spec": document["spec"]}  # as good as it gets here: not written again
            self._stored.setdefault(key, {})[answer["metadata"]["name"]] = answer
        for document in wanted.delete:
            metadata = document["metadata"]
            self._deleted.add(metadata["uid"])
            self._stored.get(key, {}).pop(metadata["name"], None)
            try:
                await self._client.delete(RESOURCE_SLICES, metadata["name"], uid=metadata["uid"])
            except (errors.NotFound, errors.Conflict):
                self._deleted.discard(metadata["uid"])

    def _node(self, name: str) -> Document | None:
        return self._nodes.cache.get(ObjectKey("", name))

    def _record(self, node: Document, reason: str, message: str) -> None:
        name = node["metadata"]["name"]
        if self._told.get(name) == message:
            return
        self._told[name] = message
        self._log.info("a driver has a problem", node=name, reason=reason, message=message)
        self._recorder.record(reference(node, "Node", "v1"), "Warning", reason, message)


def _selector(marks: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in marks.items())


def _device_annotations(node: Document) -> tuple[object, ...]:
    """Return all that a driver reads of a node."""
    annotations = node["metadata"].get("annotations") or {}
    faults = sorted((name, text) for name, text in annotations.items() if name.startswith(ANNOTATION))
    return annotations.get(DEVICES), faults, is_off(node), node["metadata"]["uid"]


def _key_of(found: Document) -> PoolKey:
    return PoolKey(found["spec"]["driver"], found["spec"]["pool"]["name"])


def _newer(new: Document, known: Document | None) -> bool:
    if known is None or known["metadata"]["uid"] != new["metadata"]["uid"]:
        return True
    return int(new["metadata"]["resourceVersion"]) > int(known["metadata"]["resourceVersion"])
