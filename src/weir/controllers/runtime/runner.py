"""Runs all controllers of one process on shared informers.

Kinds that the server does not serve are skipped; kinds of new CustomResourceDefinitions are added. With leader
election only the leader acts. One controller's work is in weir.controllers.runtime.worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.cache import Informer, wait_all_synced
from weir.client.leases import Elector, Leadership, Timing
from weir.clock import Clock
from weir.controllers.runtime.action_runner import ControllerContext
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.custom_kinds import CustomKinds
from weir.controllers.runtime.listers import Listers, decoder, prepare
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.worker import Worker
from weir.objects.kind import Kind
from weir.objects.kinds import CUSTOM_RESOURCE_DEFINITIONS
from weir.observe.endpoint import Pages, pages
from weir.observe.logs import Log


class Controllers:
    """Several controllers over one client."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        controllers: Sequence[Controller],
        *,
        metrics: ControllerMetrics | None = None,
        identity: str = "weir-controller-manager",
        lease_name: str = "",
        seed: int = 0,
        log: Log | None = None,
        qps: float = 0.0,
        burst: int = 0,
    ) -> None:
        """With a *lease_name* only the elected one of several processes acts.

        Each controller makes *burst* writes at once and *qps* a second, as upstream's do; 0 is no limit.
        """
        self.client, self.clock = client, clock
        self.qps, self.burst = qps, burst
        self.metrics = metrics or ControllerMetrics()
        self._identity, self._lease_name = identity, lease_name
        self._log = log or Log("weir.controllers")
        self._controllers, self._seed = controllers, seed
        self._leadership: Leadership | None = None
        self._acting = not lease_name
        self._prepare()

    def _prepare(self) -> None:
        """Begin with nothing known, as every term of office does."""
        kinds = list(dict.fromkeys(kind for controller in self._controllers for kind in controller.kinds))
        self.custom_kinds = CustomKinds()
        self._custom_tasks: dict[Kind, asyncio.Task[None]] = {}
        for controller in self._controllers:
            controller.set_custom_kinds(self.custom_kinds)
        if (
            any(controller.custom for controller in self._controllers)
            and CUSTOM_RESOURCE_DEFINITIONS not in kinds
        ):
            kinds.append(CUSTOM_RESOURCE_DEFINITIONS)
        self.informers: dict[Kind, Informer[Any]] = {}
        for number, kind in enumerate(kinds):
            informer = Informer(self.client, kind, self.clock, decoder(kind), seed=self._seed + number)
            prepare(kind, informer.cache)
            self.informers[kind] = informer
        self.listers = Listers({kind: informer.cache for kind, informer in self.informers.items()})
        context = ControllerContext(
            *(self.client, self.clock, self.metrics, self._log, self.informers, self.listers, self.check),
            qps=self.qps,
            burst=self.burst,
        )
        self.workers = [Worker(context, controller) for controller in self._controllers]

    async def run(self) -> None:
        """Act until cancelled; with leader election, only while elected."""
        if not self._lease_name:
            await self._act(None)
            return
        elector = Elector(
            self.client,
            self.clock,
            name=self._lease_name,
            namespace="kube-system",
            identity=self._identity,
            timing=Timing(),
        )
        await elector.run(self._act)

    def pages(self) -> Pages:
        """Return what the controllers serve about themselves; one that waits to be elected is well."""
        return pages(self.metrics.registry.render, self.is_well)

    def is_well(self) -> bool:
        """Return whether this process waits to be elected, or knows everything it decides on."""
        return not self._acting or all(each.cache.synced for each in self.informers.values())

    async def _act(self, leadership: Leadership | None) -> None:
        self._acting, self._leadership = True, leadership
        elected = self.metrics.elected.child(self._lease_name) if self._lease_name else None
        if elected is not None:
            elected.set(1)
        try:
            await self._control()
        finally:
            self._acting = False
            if elected is not None:
                elected.set(0)

    async def _control(self) -> None:
        self._prepare()
        await self._leave_out_unserved()
        tasks = [asyncio.ensure_future(informer.run()) for informer in self.informers.values()]
        try:
            await wait_all_synced(self.informers.values())
            self._log.v(1, "Caches populated", kinds=len(self.informers))
            for worker in self.workers:
                worker.start()
                tasks += worker.tasks
            if CUSTOM_RESOURCE_DEFINITIONS in self.informers:
                self.informers[CUSTOM_RESOURCE_DEFINITIONS].cache.listen(self._defined)
            await asyncio.gather(*tasks)
        finally:
            tasks += self._custom_tasks.values()
            for task in tasks:
                task.cancel()
            for worker in self.workers:
                worker.stop()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _defined(self, old: Any, new: Any) -> None:
        """Watch the objects of a definition that is established, and no longer those of one that is gone."""
        gone, came = self.custom_kinds.set((new or old)["metadata"]["name"], new)
        if gone is not None:
            self._custom_tasks.pop(gone).cancel()
            self.listers.caches.pop(gone, None)
            self.informers.pop(gone, None)
        if came is None:
            return
        informer = Informer(self.client, came, self.clock, decoder(came), seed=self._seed)
        self.informers[came], self.listers.caches[came] = informer, informer.cache
        for worker in self.workers:
            if worker.controller.custom:
                worker.follow(came)
        self._custom_tasks[came] = asyncio.ensure_future(informer.run())

    async def _leave_out_unserved(self) -> None:
        """Do without kinds that this server does not serve: another version's, or a feature's that is off."""
        for kind in list(self.informers):
            while True:
                try:
                    await self.client.list(kind, limit=1)
                except errors.NotFound:
                    self._log.info("not served here, left out", kind=kind.kind, version=kind.api_version)
                    del self.informers[kind], self.listers.caches[kind]
                except (errors.ApiError, Unreachable) as error:
                    self._log.info("waiting for the API", error=str(error))
                    await self.clock.sleep(1.0)
                    continue
                break

    def check(self) -> None:
        """Raise unless this process may still act."""
        if self._leadership is not None:
            self._leadership.check()

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be looked at now."""
        return all(not len(worker.queue) for worker in self.workers)
