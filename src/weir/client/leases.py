"""Leader election by a Lease.

The leader renews the Lease; a candidate that observes it unchanged for its whole duration, by its own clock, takes it
over. Every write carries the resourceVersion, so of two candidates one fails. The renew deadline is shorter than the
lease duration, so that a leader that cannot renew stops acting first; `Leadership.held` is false from then on.
`confirm` reads the Lease from the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from weir import errors
from weir.client.api import Client, Unreachable
from weir.clock import Clock
from weir.errors import WeirError
from weir.objects.times import format_micro_time

Document = dict[str, Any]


class _LeasesResource:
    group, version, plural, namespaced = "coordination.k8s.io", "v1", "leases", True


LEASES = _LeasesResource()


class LeadershipLost(WeirError):
    """Another process may be acting now. Stop, and stand for election again."""


@dataclass(frozen=True)
class Timing:
    """How long a Lease lasts, how long the leader tries to renew it, how often candidates look."""

    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration_seconds > self.renew_deadline_seconds > self.retry_seconds > 0:
            raise ValueError("leader election needs lease duration > renew deadline > retry period > 0")


class Leadership:
    """The right to act, while it lasts."""

    def __init__(self, elector: Elector) -> None:
        self._elector = elector
        self.transitions = elector.transitions
        self.lost = asyncio.Event()

    @property
    def held(self) -> bool:
        """Whether acting is still safe by our own clock."""
        return not self.lost.is_set() and self._elector.renewed_recently

    def check(self) -> None:
        """Raise LeadershipLost unless acting is still safe."""
        if not self.held:
            raise LeadershipLost(f"{self._elector.identity} no longer holds {self._elector.lease}")

    async def confirm(self) -> None:
        """Raise LeadershipLost unless the server still names us: for writes that nothing else guards."""
        self.check()
        lease = await self._elector.read()
        spec = (lease or {}).get("spec") or {}
        same = spec.get("holderIdentity") == self._elector.identity
        if not same or int(spec.get("leaseTransitions") or 0) != self.transitions:
            self.lost.set()
            self.check()


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Run *work* to its end, even if cancelled repeatedly."""
    task = asyncio.ensure_future(work)
    told = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            told = True
    if told:
        raise asyncio.CancelledError


class Elector:
    """Competes for a Lease and runs a task while holding it."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        name: str,
        namespace: str,
        identity: str,
        timing: Timing | None = None,
    ) -> None:
        self._client, self._clock = client, clock
        self.name, self.namespace, self.identity = name, namespace, identity
        self._timing = timing or Timing()
        self._seen_version = ""
        self._seen_at = float("-inf")
        self._renewed_at = float("-inf")
        self._lease: Document | None = None
        self.transitions = 0

    @property
    def lease(self) -> str:
        return f"lease {self.namespace}/{self.name}"

    @property
    def renewed_recently(self) -> bool:
        return self._clock.monotonic() - self._renewed_at < self._timing.renew_deadline_seconds

    async def read(self) -> Document | None:
        """Return the Lease as the server has it."""
        return await self._client.find(LEASES, self.name, self.namespace)

    async def run(self, act: Callable[[Leadership], Awaitable[None]]) -> None:
        """Whenever elected, run *act*; cancel it when leadership is lost. Returns when *act* does."""
        while True:
            while not await self._try():
                await self._clock.sleep(self._timing.retry_seconds)
            leadership = Leadership(self)
            acting = asyncio.ensure_future(act(leadership))
            renewing = asyncio.ensure_future(self._renew())
            try:
                await asyncio.wait({acting, renewing}, return_when=asyncio.FIRST_COMPLETED)
                if acting.done():
                    acting.result()
                    return
            finally:
                leadership.lost.set()
                for task in (acting, renewing):
                    task.cancel()
                await _to_the_end(self._stop(acting, renewing))

    async def _stop(self, *tasks: asyncio.Future[None]) -> None:
        """Wait for the last of what was done, then give the Lease back, if the server answers soon."""
        await asyncio.gather(*tasks, return_exceptions=True)
        releasing = asyncio.ensure_future(self._release())
        limit = asyncio.ensure_future(self._clock.sleep(self._timing.retry_seconds))
        try:
            await asyncio.wait({releasing, limit}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (releasing, limit):
                task.cancel()
            await asyncio.gather(releasing, limit, return_exceptions=True)

    async def _renew(self) -> None:
        """Return when the Lease could not be renewed for too long, or another process has it."""
        while self.renewed_recently:
            await self._clock.sleep(self._timing.retry_seconds)
            if not await self._try_in_time() and self._taken():
                return

    async def _try_in_time(self) -> bool:
        """Like `_try`, but not beyond the renew deadline, however long the server takes to answer."""
        left = self._timing.renew_deadline_seconds - (self._clock.monotonic() - self._renewed_at)
        trying = asyncio.ensure_future(self._try())
        limit = asyncio.ensure_future(self._clock.sleep(max(0.0, left)))
        try:
            await asyncio.wait({trying, limit}, return_when=asyncio.FIRST_COMPLETED)
            return trying.done() and trying.result()
        finally:
            limit.cancel()
            trying.cancel()
            await asyncio.gather(trying, limit, return_exceptions=True)

    def _taken(self) -> bool:
        holder = ((self._lease or {}).get("spec") or {}).get("holderIdentity")
        return holder not in (self.identity, None, "")

    async def _try(self) -> bool:
        """Take or renew the Lease; return whether it is ours now. A server that is away counts as no."""
        asked_at = self._clock.monotonic()
        try:
            lease = await self.read()
            if lease is None:
                taken = await self._client.create(LEASES, self._fresh(), self.namespace)
            elif self._free(lease):
                taken = await self._client.update(LEASES, self._claimed(lease))
            else:
                return False
        except (errors.ApiError, Unreachable):  # also: another one was faster (Conflict, AlreadyExists)
            return False
        self._note(taken)
        self._renewed_at = asked_at  # before the server's answer: never later than what others see
        self.transitions = int(taken["spec"].get("leaseTransitions") or 0)
        return True

    def _note(self, lease: Document) -> None:
        version = lease["metadata"].get("resourceVersion", "")
        if version != self._seen_version:
            self._seen_version, self._seen_at = version, self._clock.monotonic()
        self._lease = lease

    def _free(self, lease: Document) -> bool:
        """Whether we may write the Lease: it is ours, unheld, or unchanged for as long as it lasts."""
        self._note(lease)
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") in (self.identity, None, ""):
            return True
        lasts = float(spec.get("leaseDurationSeconds") or self._timing.lease_duration_seconds)
        return self._clock.monotonic() - self._seen_at > lasts

    def _fresh(self) -> Document:
        now = format_micro_time(self._clock.now())
        return {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": max(1, round(self._timing.lease_duration_seconds)),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }

    def _claimed(self, lease: Document) -> Document:
        spec = dict(lease.get("spec") or {})
        now = format_micro_time(self._clock.now())
        if spec.get("holderIdentity") != self.identity:
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
            spec["acquireTime"] = now
        spec |= {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._timing.lease_duration_seconds)),
            "renewTime": now,
        }
        return {**lease, "spec": spec}

    async def _release(self) -> None:
        """Give the Lease back so that others need not wait for it to run out; if it is still ours."""
        lease = self._lease
        if lease is None or (lease.get("spec") or {}).get("holderIdentity") != self.identity:
            return
        now = format_micro_time(self._clock.now())
        spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now}
        with suppress(errors.ApiError, Unreachable):
            await self._client.update(LEASES, {**lease, "spec": spec})
        self._lease = None
        self._renewed_at = float("-inf")
