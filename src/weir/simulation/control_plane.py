"""Every component but the server, each with its own client, gates and seed, on a server that is already there.

`weir up` puts it beside a server that listens, `weir.simulation.cluster.Cluster` beside one in memory under virtual
time.
Not here: the server (weir.apiserver.run), sockets and the command (weir.cli.up).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from weir.apiserver.older_release import DEFAULT_RELEASE, RELEASES
from weir.apiserver.run import Running
from weir.apiserver.transport.http import Request
from weir.client.api import Client, Transport
from weir.client.local import LocalTransport
from weir.client.version_skew import OlderTransport
from weir.clock import Clock
from weir.controllers.catalog import choose
from weir.controllers.nodes.lifecycle import NodeLifecycle
from weir.controllers.runtime.runner import Controllers
from weir.controllers.storage.volume_provisioner import NAME as PROVISIONER
from weir.gates import ALL_FEATURES, Gates, GatesLike
from weir.objects.kinds import by_kind
from weir.objects.times import format_time
from weir.observe.endpoint import Page, Pages, pages
from weir.observe.features import publish_component_features, publish_features
from weir.observe.metrics import CONTENT_TYPE, Registry, render_together
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.pod_class import PodClass
from weir.scheduler.run import Scheduler
from weir.simulation.kubelet.heartbeat_ledger import HeartbeatLedger
from weir.simulation.kubelet.node_classes import NodeClass, node_document
from weir.simulation.kubelet.run import Hosts, Kubelets

Document = dict[str, Any]
NODES: Final = by_kind("v1", "Node")
STORAGE_CLASSES: Final = by_kind("storage.k8s.io/v1", "StorageClass")
AT_ONCE: Final = 50


#: The components that ask whether a toleration tolerates a taint; the API server never does (core.md 8.5).
READERS: Final = ("scheduler", "controllers", "kubelet")


@dataclass(frozen=True)
class ComponentGates:
    """Each component's own feature gates; a cluster in which they differ is an ordinary cluster."""

    apiserver: Gates = ALL_FEATURES
    scheduler: Gates = ALL_FEATURES
    controllers: Gates = ALL_FEATURES
    kubelet: Gates = ALL_FEATURES
    #: Components from before KEP-5500, which do not know the field `expression` (core.md 8.4); an `apiserver` of an
    #: older release (`apiserver=1.35`, 1.34 unless said) knows none of the KEPs' fields
    older: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for each in sorted(self.older):
            name, equals, release = each.partition("=")
            if name not in (*READERS, "apiserver"):
                raise ValueError(f"older: {each!r} is none of {', '.join(('apiserver', *READERS))}")
            if equals and (name != "apiserver" or release not in RELEASES):
                known = ", ".join(f"apiserver={number}" for number in RELEASES)
                raise ValueError(f"older: {each!r}: a release is played of the API server only: {known}")

    @property
    def release(self) -> str:
        """The older release that the API server plays, or nothing."""
        for each in self.older:
            name, _, release = each.partition("=")
            if name == "apiserver":
                return release or DEFAULT_RELEASE
        return ""

    @classmethod
    def of(cls, gates: GatesLike | Mapping[str, GatesLike] | ComponentGates) -> ComponentGates:
        """Return gates for all components: one value for all, or a mapping from component to gates."""
        if isinstance(gates, ComponentGates):
            return gates
        if gates is None:
            return cls()
        names = ("apiserver", "scheduler", "controllers", "kubelet")
        if isinstance(gates, Mapping) and set(gates) & set(names):
            return cls(**{name: Gates.of(gates[name]) for name in names if name in gates})  # type: ignore[arg-type]
        same = Gates.of(gates)  # type: ignore[arg-type]
        return cls(same, same, same, same)


def local_client(running: Running, clock: Clock, agent: str, *, older: bool = False) -> Client:
    """Return a client of the server's own process, with the administrator's rights.

    *older* makes it one of a component that does not know the field `expression`.
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
    return Client(transport, clock=clock, user_agent=agent)


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
        seats: Mapping[str, Iterable[tuple[str, PodClass]]] | None = None,
    ) -> None:
        """With *ledger* (virtual time) nodes' reports are postponed while they are not observed.

        *hosts* says which nodes the kubelets play, and how; *scheduler* configures profiles and plugins. *seats* are
        pods by node that take room in the eyes of the scheduler without being in the API.
        """

        def client(component: str, agent: str) -> Client:
            return local_client(running, clock, agent, older=component in gates.older)

        others = {name: getattr(gates, name) for name in READERS}
        self._running = running
        publish_component_features(running.metrics.registry, others)
        config = replace(scheduler or SchedulerConfig(), leader_elect=False)
        self.scheduler = Scheduler(
            client("scheduler", "kube-scheduler"), gates.scheduler, clock, config=config, seed=seed
        )
        lifecycle = partial(NodeLifecycle, postponed=ledger)
        for node, pods in (seats or {}).items():
            for key, pod_class in pods:
                self.scheduler.state.table.add_pod(key, pod_class, node)
        chosen = choose(list(controllers), gates.controllers, {"node-lifecycle": lifecycle})
        self.controllers = Controllers(
            client("controllers", "kube-controller-manager"), clock, chosen, seed=seed + 100
        )
        publish_features(self.controllers.metrics.registry, gates.controllers)
        self.kubelets = Kubelets(
            client("kubelet", "kubelet"),
            gates.kubelet,
            clock,
            seed=seed + 200,
            ledger=ledger,
            hosts=hosts,
        )
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


async def ensure_nodes(client: Client, count: int, node_class: NodeClass, now: datetime) -> tuple[int, int]:
    """Add simulated nodes until the cluster has *count*; return how many were there and how many were added."""
    there = {each["metadata"]["name"] for each in (await client.list(NODES)).documents()}
    free = (name for name in map("node-{}".format, itertools.count()) if name not in there)
    names = list(itertools.islice(free, max(count - len(there), 0)))
    printed = format_time(now)
    for start in range(0, len(names), AT_ONCE):  # together, so that they share the disk's flushes
        await asyncio.gather(
            *(
                client.create(NODES, node_document(name, node_class, (), {}, printed))
                for name in names[start : start + AT_ONCE]
            )
        )
    return len(there), len(names)


async def ensure_storage_class(client: Client) -> None:
    """Give a cluster that has no StorageClass one whose volumes weir simulates, so that claims are served."""
    if (await client.list(STORAGE_CLASSES, limit=1)).items:
        return
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await client.create(STORAGE_CLASSES, document)
