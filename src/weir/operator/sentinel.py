"""Confirmation that this replica and kube-controller-manager have read every pod written so far.

Spec: stock.md 7. Pods come in one order, by resourceVersion. So a component that shows a change of the sentinel pod has
seen every pod written before it. This replica shows it in its own copy (`catch_up`); kube-controller-manager in the
EndpointSlice that it writes (`confirm`, or `confirm_mark` of a change that was made to catch up). Many callers share
one change. The counter is raised from the stored pod with
its resourceVersion, so that of several replicas none ever lowers it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from weir import errors
from weir.client.api import Client, path_of
from weir.client.cache import Cache, ObjectKey
from weir.clock import Clock
from weir.lowering.names import OPERATOR, SENTINEL
from weir.lowering.sentinel import address, counter_of, is_reached, sentinel_pod, sentinel_service
from weir.objects.kinds import PODS, SERVICES
from weir.operator.coalesced import Coalesced
from weir.operator.metrics import OperatorMetrics
from weir.operator.views import LoweredPod, pod_decoder, version_of

_TRIES: Final = 20

Document = dict[str, Any]


class Mark(NamedTuple):
    """One change of the sentinel."""

    counter: int
    version: int
    uid: str
    lost: int  #: how many sentinels were seen to go before


class Sentinel:
    """Counts up, and waits until the count is shown."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        namespace: str,
        pods: Cache[LoweredPod],
        slices: Cache[Document],
        metrics: OperatorMetrics,
    ) -> None:
        self._client, self._clock, self._namespace, self._metrics = client, clock, namespace, metrics
        self._key = ObjectKey(namespace, SENTINEL)
        self._pods, self._slices = pods, slices
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._decode = pod_decoder(self._key)
        self._path = path_of(PODS, namespace, SENTINEL)
        pods.listen(self._changed)
        slices.listen(self._slice_changed)
        self.catch_up = Coalesced(self._catch_up)
        self.confirm = Coalesced(self._confirm)
        self._lost = 0  #: how often a sentinel was seen to go: nobody will show what was written into it
        #: Every pod at or below this resourceVersion is known to kube-controller-manager.
        self.confirmed = 0
        self._asked = 0  #: the last change whose confirmation was waited for

    async def ensure(self) -> None:
        """Make the pod and its Service where the installation has not, and these rights are given."""
        if await self._client.find(PODS, SENTINEL, self._namespace) is not None:
            return
        pod = sentinel_pod(self._namespace)
        with suppress(errors.AlreadyExists):
            await self._client.create(SERVICES, sentinel_service(self._namespace), self._namespace)
        with suppress(errors.AlreadyExists):
            try:
                await self._client.create(PODS, pod, self._namespace)
            except errors.Forbidden:  # a namespace made by hand has no account of the operator's
                del pod["spec"]["serviceAccountName"]
                await self._client.create(PODS, pod, self._namespace)

    # ── counting ─────────────────────────────────────────────────────────────────────────────────

    async def _raise(self) -> Mark:
        """Change the sentinel; return what was written."""
        lost = self._lost
        known = self._pods.get(self._key)  # good enough for a first try: the server checks its version
        for _ in range(_TRIES):
            if known is None:
                try:
                    known = self._decode(await self._client.call("GET", self._path))
                except errors.NotFound:
                    await self.ensure()
                    continue
            last = max(counter_of(known.address), self._shown(known.metadata.uid), 0)
            ip = address(last + 1, self._family())
            patch = {
                "metadata": {"resourceVersion": known.metadata.resource_version},
                "status": {"podIP": ip, "podIPs": [{"ip": ip}]},
            }
            try:
                written = await self._client.patch(
                    PODS, SENTINEL, patch, self._namespace, subresource="status", field_manager=OPERATOR
                )
            except (errors.Conflict, errors.NotFound):
                known = None
                continue
            version = version_of(written["metadata"]["resourceVersion"])
            return Mark(counter_of(ip), version, known.metadata.uid, lost)
        raise errors.Conflict(f"pod {self._key} is changed by others all the time")

    async def _catch_up(self) -> Mark:
        return await self._raised(lambda mark: self._own_version() >= mark.version)

    async def _confirm(self) -> Mark:
        return await self.confirm_mark(await self._raise())

    async def confirm_mark(self, mark: Mark) -> Mark:
        """Return when kube-controller-manager shows *mark*, or a later one where that sentinel is gone."""
        began = self._clock.monotonic()
        if mark.version > self._asked:
            self._asked = mark.version
            self._metrics.confirms.child().inc()
        mark = await self._raised(lambda mark: is_reached(self._shown(mark.uid), mark.counter), mark)
        self.confirmed = max(self.confirmed, mark.version)
        self._metrics.confirm_duration.child().observe(self._clock.monotonic() - began)
        return mark

    async def _raised(self, shown: Callable[[Mark], bool], mark: Mark | None = None) -> Mark:
        """Change the sentinel, unless *mark* was made already, and wait until that is *shown*.

        Again with the next sentinel where it is replaced.
        """
        while True:
            made = mark or await self._raise()
            await self._until(lambda: self._lost != made.lost or shown(made))  # noqa: B023 (awaited here)
            if shown(made):
                return made
            mark = None

    # ── what is shown ────────────────────────────────────────────────────────────────────────────

    def _family(self) -> str:
        return next((each.get("addressType") or "IPv4" for each in self._slices), "IPv4")

    def _own_version(self) -> int:
        pod = self._pods.get(self._key)
        return 0 if pod is None else pod.version

    def _shown(self, uid: str) -> int:
        """Return the highest counter that kube-controller-manager shows for the sentinel with this uid."""
        return max(
            (
                counter_of(text)
                for each in self._slices
                for endpoint in each.get("endpoints") or ()
                if (endpoint.get("targetRef") or {}).get("uid") == uid
                for text in endpoint.get("addresses") or ()
            ),
            default=-1,
        )

    async def _until(self, holds: Callable[[], bool]) -> None:
        if holds():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = (holds, future)
        self._waiting.append(waiting)
        try:
            await future
        finally:
            self._waiting.remove(waiting)

    def _changed(self, old: LoweredPod | None, new: LoweredPod | None) -> None:
        pod = new or old
        if pod is None or (pod.metadata.namespace, pod.metadata.name) != self._key:
            return
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._lost += 1
        self._wake()

    def _slice_changed(self, old: Document | None, new: Document | None) -> None:
        self._wake()

    def _wake(self) -> None:
        for holds, future in self._waiting:
            if not future.done() and holds():
                future.set_result(None)
