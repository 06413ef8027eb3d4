"""All components except the API server, in one process, each with its own client, gates and seed.

Used by `weir.simulation.cluster.Cluster` under virtual time and by `weir up --in-one-process`.

In-process clients of components that share the server's process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from weir.apiserver.build import Running
from weir.apiserver.transport.http import Request
from weir.client.api import Client, Transport
from weir.client.local import LocalTransport
from weir.client.version_skew import OlderTransport
from weir.clock import Clock
from weir.controllers.nodes.lifecycle import NodeLifecycle
from weir.observe.endpoint import Page, Pages, pages
from weir.observe.metrics import CONTENT_TYPE, Registry, render_together
from weir.observe.process_metrics import publish_component_features
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.pod_class import SeatedPods
from weir.simulation.component_gates import READERS, ComponentGates
from weir.simulation.components import AGENTS, make_controllers, make_kubelets, make_scheduler
from weir.simulation.kubelet.heartbeats import HeartbeatLedger
from weir.simulation.kubelet.run import Hosts


def local_client(
    running: Running,
    clock: Clock,
    agent: str,
    *,
    older: bool = False,
    event_reasons: frozenset[str] | None = None,
) -> Client:
    """Return a client of the server's own process, with the administrator's rights.

    *older* makes it one of a component that does not know the field `expression`; *event_reasons* are those that its
    component writes events of, all unless given.
    """
    make: Callable[..., Request] = Request
    headers: dict[str, str] = {}
    if running.options.insecure or running.credentials is None:
        headers["authorization"] = f"Bearer {running.admin_token}"
    else:

        def certified(*given: Any) -> Request:  # with the certificate as it is then: it may have been renewed
            return Request(*given, peer_certificate=running.admin_certificate)

        make = certified
    transport: Transport = LocalTransport(running.server.handle, make, headers)
    if older:
        transport = OlderTransport(transport)
    return Client(transport, clock=clock, user_agent=agent, event_reasons=event_reasons)


class ControlPlane:
    """Scheduler, controllers and simulated kubelets beside one server."""

    def __init__(
        self,
        running: Running,
        clock: Clock,
        gates: ComponentGates,
        *,
        controllers: Iterable[str] = ("*",),
        seed: int = 0,
        ledger: HeartbeatLedger | None = None,
        hosts: Hosts | None = None,
        scheduler: SchedulerConfig | None = None,
        seats: Mapping[str, SeatedPods] | None = None,
        event_reasons: frozenset[str] | None = None,
    ) -> None:
        """With *ledger* (virtual time) nodes' reports are postponed while they are not observed.

        *hosts* says which nodes the kubelets play, and how; *scheduler* configures profiles and plugins. *seats* are
        pods by node that take room in the eyes of the scheduler without being in the API. Events are written of
        *event_reasons* only, where given.
        """

        def client(component: str) -> Client:
            older = component in gates.older
            return local_client(running, clock, AGENTS[component], older=older, event_reasons=event_reasons)

        others = {name: getattr(gates, name) for name in READERS}
        self._running = running
        publish_component_features(running.metrics.registry, others)
        self.scheduler = make_scheduler(client("scheduler"), gates.scheduler, clock, seed, scheduler)
        for node, pods in (seats or {}).items():
            self.scheduler.state.table.expect_pods(node, pods)
        lifecycle = {"node-lifecycle": partial(NodeLifecycle, postponed=ledger)}
        keys = running.credentials
        self.controllers = make_controllers(
            client("controllers"),
            gates.controllers,
            clock,
            seed,
            controllers,
            lifecycle,
            None if keys is None else keys.directory,
        )
        self.kubelets = make_kubelets(client("kubelet"), gates.kubelet, clock, seed, ledger, hosts)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Let every component begin."""
        parts = (self.scheduler, self.controllers, self.kubelets)
        self._tasks = [asyncio.ensure_future(part.run()) for part in parts]

    def registries(self) -> dict[str, Registry]:
        """Return the metrics of every component, the API server's among them, up to date."""
        self._running.metrics.measure()
        self.scheduler.measure()
        return {
            "apiserver": self._running.metrics.registry,
            "scheduler": self.scheduler.metrics.registry,
            "controllers": self.controllers.metrics.registry,
            "kubelet": self.kubelets.metrics.registry,
        }

    def pages(self) -> Pages:
        """Return what one port serves of all components: /metrics, each one's below it, and health."""

        def of(component: str) -> Page:
            return Page(200, CONTENT_TYPE, self.registries()[component].render())

        each = {f"/metrics/{name}": partial(of, name) for name in ("apiserver", *READERS)}
        return {**pages(lambda: render_together(self.registries()), self.controllers.is_well), **each}

    def check(self) -> None:
        """Raise what ended a component that should still run."""
        for task in self._tasks:
            if task.done():
                task.result()
                raise RuntimeError("a component ended by itself")

    def failures(self) -> Iterator[str]:
        """Yield where a controller's own code failed and has not succeeded since."""
        for worker in self.controllers.workers:
            for key, error in worker.failed.items():
                names = (getattr(key, name, "") for name in ("namespace", "name"))
                which = "/".join(filter(None, names)) or str(key)
                yield f"{worker.controller.name} at {which} ({error})"

    async def watch_over(self) -> None:
        """Return only by raising, when a component ends that should still run."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        raise RuntimeError("a component ended by itself")

    async def stop(self) -> None:
        """End every component."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
