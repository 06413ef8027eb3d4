"""Carries out controllers' actions: creates, deletes and patches objects, evicts pods, records events.

Each write counts against its controller's rate limit and is made only while this process is the leader; a write that
an informer will show sets an expectation. Evictions run concurrently with other actions and are retried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.cache import Informer, ObjectKey
from weir.client.events import Recorder
from weir.client.queue import WorkQueue
from weir.client.rest import RateLimiter
from weir.clock import Clock
from weir.controllers.runtime.controller import (
    Action,
    ActionContext,
    Controller,
    Count,
    Create,
    Delete,
    Evict,
    Observe,
    Patch,
    Record,
    Retry,
    Steps,
    WakeAt,
)
from weir.controllers.runtime.expectations import Expectations, is_deleting
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.pod_eviction import Evicted, evict_pod
from weir.objects.kind import Kind
from weir.objects.kinds import PODS
from weir.observe.logs import Log, ObjectRef

EVICTIONS_AT_ONCE: Final = 32
EVICTION_TRIES: Final = 5
EVICTION_PAUSE_SECONDS: Final = 0.01


class Requeue(errors.WeirError):
    """A controller requested another sync of a key later."""


@dataclass(frozen=True)
class ControllerContext:
    """What all controllers of one process share."""

    client: Client
    clock: Clock
    metrics: ControllerMetrics
    log: Log
    informers: Mapping[Kind, Informer[Any]]
    listers: Listers
    check: Callable[[], None]  #: raises unless this process may still act
    qps: float = 0.0  #: writes a second of each controller; 0 is no limit
    burst: int = 0


class ActionRunner:
    """Carries out what one controller wants."""

    def __init__(
        self, context: ControllerContext, controller: Controller, queue: WorkQueue[Hashable]
    ) -> None:
        self._context, self._controller, self._queue = context, controller, queue
        self._clock, self._client = context.clock, context.client
        self._limiter = RateLimiter(context.qps, context.burst, context.clock)
        self._calm = asyncio.Event()  # no pod is being evicted: what has a deadline goes before its events
        self._calm.set()
        source = controller.event_source or controller.name
        self.recorder = Recorder(context.client, context.clock, source, calm=self._calm)
        self._evicting: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(EVICTIONS_AT_ONCE)
        self.expectations = Expectations(context.informers, context.clock)

    def stop(self) -> None:
        for task in self._evicting:
            task.cancel()

    async def carry_out(self, action: Action) -> list[asyncio.Future[None]]:
        """Do it, and return what to wait for until the result is known here."""
        if isinstance(action, Record):
            self.recorder.record(action.about, action.type, action.reason, action.message)
            return []
        if isinstance(action, WakeAt):
            wait = (action.at - self._clock.now()).total_seconds()
            self._queue.add_after(action.key, max(wait, 0.0))
            return []
        if isinstance(action, Retry):
            raise Requeue(action.why)
        if isinstance(action, Count):
            getattr(self._context.metrics, action.metric).child(*action.labels).inc(action.by)
            return []
        if isinstance(action, Observe):
            getattr(self._context.metrics, action.metric).child().observe(action.seconds)
            return []
        self._context.check()
        await self._limiter.wait()
        self._context.check()  # it may have been put out of office while it waited
        if isinstance(action, Evict):
            task = asyncio.ensure_future(self._evict(action))
            self._evicting.add(task)
            self._calm.clear()
            task.add_done_callback(self._evicted)
            return []
        if isinstance(action, Create):
            return await self._create(action)
        if isinstance(action, Delete):
            return await self._delete(action)
        assert isinstance(action, Patch)
        return await self._patch(action)

    async def take_steps(self, action: Steps, seen: list[asyncio.Future[None]]) -> Exception | None:
        """Let it carry itself out; return what stopped it. What it made before that is waited for all the same."""
        self._context.check()
        context = ActionContext(self._client, self._clock, self.recorder, self._context.metrics)
        try:
            outcome = await action.carry_out(context)
        except (errors.ApiError, Unreachable) as error:
            return error
        finally:
            for kind, key in context.made:
                seen += self.expectations.presence(kind, key, created=True)
        for each in self._controller.carried_out(action, outcome, self._clock.now()):
            seen += await self.carry_out(each)
        return None

    async def _create(self, action: Create) -> list[asyncio.Future[None]]:
        try:
            made = await self._client.create(action.kind, dict(action.document), action.namespace)
        except errors.AlreadyExists:
            return []
        name = made["metadata"]["name"]
        self._say("Created object", action.kind, action.namespace, name)
        if action.about is not None:
            noun = action.kind.kind.lower() if action.kind is PODS else action.kind.kind
            message = action.event_message or f"Created {noun}: {name}"
            self.recorder.record(action.about, "Normal", "SuccessfulCreate", message)
        return self.expectations.presence(action.kind, ObjectKey(action.namespace, name), created=True)

    async def _delete(self, action: Delete) -> list[asyncio.Future[None]]:
        key = ObjectKey(action.namespace, action.name)
        for kind, name, uid in action.unless_present:
            found = await self._client.find(kind, name, action.namespace if kind.namespaced else "")
            if found is not None and found["metadata"]["uid"] == uid:
                return []  # it is there after all; the copy does not show it yet
        try:
            await self._client.delete(
                action.kind,
                action.name,
                action.namespace,
                uid=action.uid,
                grace_period_seconds=action.grace_period_seconds,
                propagation_policy=action.propagation_policy,
                read=False,
            )
        except errors.NotFound:
            return []
        except errors.Conflict:
            if action.uid:
                return []  # another object of the same name: not the one meant
            raise
        self._say("Deleted object", action.kind, action.namespace, action.name)
        if action.about is not None:
            noun = action.kind.kind.lower() if action.kind is PODS else action.kind.kind
            message = action.event_message or f"Deleted {noun}: {action.name}"
            self.recorder.record(action.about, "Normal", "SuccessfulDelete", message)
        return self.expectations.presence(action.kind, key, created=False)

    async def _patch(self, action: Patch) -> list[asyncio.Future[None]]:
        for kind, name, uid in action.while_present:
            found = await self._client.find(kind, name, action.namespace if kind.namespaced else "")
            if found is None or found["metadata"]["uid"] != uid or is_deleting(found):
                return []  # it is going, or another one of the same name; the copy does not show it yet
        try:
            made = await self._client.patch(
                action.kind,
                action.name,
                dict(action.patch),
                action.namespace,
                patch_type=action.patch_type,
                subresource=action.subresource,
                field_manager=action.field_manager,
                force=action.force,
                read=action.held,
            )
        except errors.NotFound:
            return []
        self._say("Patched object", action.kind, action.namespace, action.name)
        return self.expectations.version(action.kind, made) if action.held else []

    def _say(self, what: str, kind: Kind, namespace: str, name: str) -> None:
        """Log what was done, from `-v 4` on."""
        if self._context.log.shows(4):
            about = ObjectRef(namespace, name)
            self._context.log.v(4, what, controller=self._controller.name, kind=kind.kind, object=about)

    # ── eviction ─────────────────────────────────────────────────────────────────────────────────

    def _evicted(self, task: asyncio.Task[None]) -> None:
        self._evicting.discard(task)
        if not self._evicting:
            self._calm.set()

    async def _evict(self, action: Evict) -> None:
        async with self._room:
            try:
                for attempt in range(1, EVICTION_TRIES + 1):
                    try:
                        await self._evict_once(action)
                        break
                    except (errors.ApiError, Unreachable) as error:
                        if attempt == EVICTION_TRIES:
                            self._context.log.warning(
                                "a pod could not be evicted",
                                pod=f"{action.eviction.namespace}/{action.eviction.name}",
                                error=str(error),
                            )
                    await self._clock.sleep(EVICTION_PAUSE_SECONDS)
            finally:
                self._controller.eviction_ended(action)

    async def _evict_once(self, action: Evict) -> None:
        if await evict_pod(self._client, self._clock, self.recorder, action.eviction) is Evicted.GONE:
            return
        gone = action.eviction
        self._context.log.v(
            2,
            "Evicted pod",
            controller=self._controller.name,
            pod=ObjectRef(gone.namespace, gone.name),
            reason=gone.reason,
            message=gone.event[1] if gone.event else gone.message,
        )
        late = (self._clock.now() - action.due).total_seconds()
        self._context.metrics.pod_deletions.child().inc()
        self._context.metrics.pod_deletion_duration.child().observe(max(late, 0.0))
