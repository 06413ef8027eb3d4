"""Grace entries by default on control planes where the confirm step alone may not be enough.

Spec: stock.md 7, 11. They are written where a kube-controller-manager that takes over may read older pods
(several API servers), and where taint eviction runs apart from endpoint slices, so that a sign of the one says nothing
about the other. The second is also reported: in the log, as an event on the sentinel, in a metric.
What was seen once counts until something else is seen: while the control plane is upgraded or fails over, API servers
are missing, refuse to answer, and show no kube-controller-manager, and that is when pods need the grace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.events import ObjectReference, Recorder
from weir.clock import Clock
from weir.lowering.names import SENTINEL
from weir.observe.logs import Log
from weir.operator.barrier import Barrier
from weir.operator.control_plane import api_servers, managers
from weir.operator.entries import Entries
from weir.operator.metrics import OperatorMetrics

#: Longer than a new kube-controller-manager's list lags behind, and what a pod that is missed by a barrier stays.
GRACE_SECONDS: Final = 10
LOOK_SECONDS: Final = 300.0


class Precautions:
    """Looks at the control plane now and then; *asked* is what somebody decided, None to decide here."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        namespace: str,
        barrier: Barrier,
        entries: Entries,
        metrics: OperatorMetrics,
        recorder: Recorder,
        asked: int | None,
    ) -> None:
        self._client, self._clock, self._namespace, self._asked = client, clock, namespace, asked
        self._barrier, self._entries, self._metrics, self._recorder = barrier, entries, metrics, recorder
        self._log = Log("weir.operator")
        self._last_without: tuple[str, ...] = ()
        self._most_servers = 0
        self.changed: Callable[[], None] = lambda: None

    async def look(self) -> None:
        """Look once, and do what follows. Raises Unreachable."""
        without = ", ".join(await self._without())
        servers = await self._servers()
        default = GRACE_SECONDS if without or servers > 1 else 0
        seconds = default if self._asked is None else self._asked
        if without and without != self._barrier.apart:
            self._say(without, seconds)
        self._barrier.apart = without
        self._metrics.apart.set(1 if without else 0)
        if seconds != self._entries.grace_seconds:
            self._entries.grace_seconds = seconds
            self._metrics.grace_seconds.set(seconds)
            self._log.info("Bound pods get grace entries", seconds=seconds, apiServers=servers)
            self.changed()

    async def run(self) -> None:
        """Look again for ever."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except Unreachable as error:
                self._log.warning("The control plane could not be looked at", error=str(error))

    async def _without(self) -> tuple[str, ...]:
        try:
            found = await managers(self._client)
        except errors.ApiError as error:
            self._log.info("kube-controller-manager cannot be looked at", error=str(error))
        else:
            if found.seen:
                self._last_without = found.without
        return self._last_without

    async def _servers(self) -> int:
        try:
            self._most_servers = max(self._most_servers, await api_servers(self._client))
        except errors.ApiError as error:
            self._log.info("The API servers cannot be counted", error=str(error))
        return self._most_servers

    def _say(self, without: str, seconds: int) -> None:
        what = (
            f"grace entries of {seconds} s protect pods"
            if seconds
            else "nodes with pods that a new NoExecute taint concerns are refused it"
        )
        self._log.warning("The confirm step proves nothing here", without=without, so=what)
        self._recorder.record(
            ObjectReference("Pod", SENTINEL, self._namespace),
            "Warning",
            "ControllersApart",
            f"kube-controller-manager runs without {without}, so what it shows of the sentinel proves nothing; {what}",
        )
