"""PreBind: writes what plugins reserved and waits until it is in effect.

Spec: core.md 3.1 "PreBind", 3.7.6; dra.md 4.2. While a reservation waits for others (a volume to be provisioned, a
device to be attached), its binding slot is given to other pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from weir.client.api import Client
from weir.clock import Clock
from weir.errors import WeirError
from weir.objects.kinds import by_kind
from weir.scheduler.claim_writes import reserve_claims, unreserve
from weir.scheduler.framework import PluginError, Reservation
from weir.scheduler.metrics import SchedulerMetrics
from weir.scheduler.plugins.claim_reservation import ClaimReservation, NotReady
from weir.scheduler.plugins.volume_reservation import VolumeReservation
from weir.scheduler.status_reporter import StatusReporter

_CHECK_SECONDS: Final = 0.2


class PreBind:
    """Keeps promises, or takes them back."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        room: asyncio.Semaphore,
        reporter: StatusReporter,
        metrics: SchedulerMetrics,
    ) -> None:
        self._client, self._clock, self._room, self._reporter = client, clock, room, reporter
        self._metrics = metrics

    async def keep(self, promises: Iterable[Reservation], patience: float) -> None:
        """Write the reservations and wait until they are in effect, at most *patience* seconds; raises PluginError."""
        for promise in promises:
            try:
                if isinstance(promise, ClaimReservation):
                    await self._keep_claims(promise)
                elif isinstance(promise, VolumeReservation):
                    await self._keep_volumes(promise, patience)
            except PluginError as error:
                raise PluginError(f'running PreBind plugin "{promise.plugin}": {error}') from error

    async def _keep_volumes(self, promise: VolumeReservation, patience: float) -> None:
        try:
            for write in promise.writes():
                kind = by_kind("v1", write.kind)
                answer = await self._client.patch(kind, write.name, write.patch, write.namespace)
                promise.wrote(write, answer["metadata"].get("resourceVersion", ""))
        except (WeirError, OSError, TimeoutError) as error:
            raise PluginError(f"binding volumes: {error}") from error
        late = PluginError("binding volumes: context deadline exceeded")
        await self._settle(promise, patience, late)

    async def _keep_claims(self, promise: ClaimReservation) -> None:
        try:
            await reserve_claims(promise, self._client, self._clock)
        finally:
            if promise.extended is not None:
                self._metrics.note_claim_created(well=promise.extended.written is not None)
        if promise.waits():
            note = f"waiting for binding conditions for device on node {promise.node}"
            self._reporter.record_event(promise.pod, "Normal", "BindingConditionsPending", "Scheduling", note)
            late = NotReady("device binding timeout: context deadline exceeded", "timeout")
            began = self._clock.monotonic()
            try:
                await self._settle(promise, promise.binding_seconds, late)
            except NotReady as error:
                self._note_conditions(promise, error.outcome, began)
                raise
            self._note_conditions(promise, "success", began)

    def _note_conditions(self, promise: ClaimReservation, outcome: str, began: float) -> None:
        waited = self._clock.monotonic() - began
        self._metrics.note_conditions(promise.results(), promise.pod.spec.scheduler_name, outcome, waited)

    async def _settle(self, promise: Reservation, patience: float, late: PluginError) -> None:
        """Wait until the promise is kept; others are bound meanwhile."""
        if promise.settled():
            return
        self._room.release()
        try:
            deadline = self._clock.monotonic() + patience
            while not promise.settled():
                if self._clock.monotonic() >= deadline:
                    raise late
                await self._clock.sleep(_CHECK_SECONDS)
        finally:
            await self._room.acquire()

    async def take_back(self, promises: Iterable[Reservation]) -> None:
        """Undo what was already written for a pod that was not bound after all (Unreserve)."""
        for promise in promises:
            if isinstance(promise, ClaimReservation):
                await unreserve(promise, self._client, self._clock)
