"""Request filter that writes postponed node heartbeats before they are read.

In front of the server's handler, for all clients except the simulation's components. A request for a Node or Lease
first updates what it names; a watch on either, or an admission webhook, sees every heartbeat from then on.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from weir.simulation.kubelet.heartbeats import LEASE_NAMESPACE, Reports

_NODES: Final = re.compile(r"/api/v1/(watch/)?nodes(?:/([^/]+)(?:/.*)?)?/?$")
_LEASES: Final = re.compile(
    r"/apis/coordination\.k8s\.io/[^/]+/(watch/)?(?:namespaces/([^/]+)/)?leases(?:/([^/]+)(?:/.*)?)?/?$"
)
_WEBHOOKS: Final = re.compile(r"/apis/admissionregistration\.k8s\.io/.*webhookconfigurations")


class HeartbeatFlush:
    """A handler of requests from outside the simulation."""

    def __init__(self, handle: Callable[[Any], Awaitable[Any]]) -> None:
        self._handle = handle
        self._reports: Reports | None = None
        self._watching = 0

    def look_at(self, reports: Reports) -> None:
        """These are the nodes' reports from now on; who watches goes on watching."""
        self._reports = reports
        reports.watchers = self._watching

    async def handle(self, request: Any) -> Any:
        """Answer *request*, with everything it looks at up to date."""
        if found := _NODES.match(request.path):
            return await self._answer(request, bool(found[1]), found[2], leases=False)
        if found := _LEASES.match(request.path):
            if found[2] in (None, LEASE_NAMESPACE):
                return await self._answer(request, bool(found[1]), found[3], leases=True)
        elif request.method != "GET" and _WEBHOOKS.match(request.path):
            await self._more()  # for good: a webhook sees writes, and one may come back by another name
        return await self._handle(request)

    async def _answer(self, request: Any, watch: bool, name: str | None, *, leases: bool) -> Any:
        if watch or request.params.get("watch", "false") not in ("0", "false", "False"):
            return await self._watched(request)
        names = None if name is None else [name]
        if request.method != "POST" and self._reports is not None:
            await self._reports.catch_up(names, leases=leases, statuses=not leases)
        answer = await self._handle(request)
        if leases and request.method != "GET" and self._reports is not None:
            self._reports.postpone_no_lease(names)
        return answer

    async def _watched(self, request: Any) -> Any:
        await self._more()
        try:
            answer = await self._handle(request)
        except BaseException:
            self._less()
            raise
        if not hasattr(answer, "run"):
            self._less()
            return answer
        run = answer.run

        async def until_over(sink: Any) -> None:
            try:
                await run(sink)
            finally:
                self._less()

        answer.run = until_over
        return answer

    async def _more(self) -> None:
        self._watching += 1
        if self._reports is not None:
            await self._reports.catch_up()
            self._reports.watchers = self._watching
            self._reports.postpone_nothing()

    def _less(self) -> None:
        self._watching -= 1
        if self._reports is not None:
            self._reports.watchers = self._watching
