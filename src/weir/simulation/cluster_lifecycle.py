"""Lifecycle of a simulated cluster: start, passing of time, restart with other gates, end.

One event loop runs only while a call is in progress: every call waits until all components have reacted. Once an
external program gets an address, the loop runs in a thread (weir.simulation.outside).
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from weir.apiserver.build import Running, build
from weir.apiserver.options import Options
from weir.apiserver.registry import codec
from weir.apiserver.transport.http import Request
from weir.client.api import Client
from weir.client.local import LocalTransport
from weir.clock import VirtualClock
from weir.gates import GatesLike
from weir.objects.kinds import by_kind, hub_of
from weir.objects.pod_usage import UsageModel
from weir.observe.interpreter import collect_rarely
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.pod_class import SeatedPods
from weir.simulation.component_gates import ComponentGates
from weir.simulation.control_plane import ControlPlane
from weir.simulation.first_objects import ensure_storage_class
from weir.simulation.kubelet.heartbeats import HeartbeatFlush, HeartbeatLedger
from weir.simulation.kubelet.run import Hosts
from weir.simulation.outside import ExternalAccess
from weir.store import KeyValue, Write
from weir.store.log import next_version
from weir.store.memory import MemoryStore, upkeep_loop

if TYPE_CHECKING:
    from weir.simulation.outside import ExternalAccess


Document = dict[str, Any]
T = TypeVar("T")
WAIT_SECONDS: Final = 0.02  # between two questions about what goes on outside
USAGE: Final = UsageModel()
UPKEEP_SECONDS: Final = 60.0  # how long an event may outlive its hour


class ClusterClosed(RuntimeError):
    """The cluster was used after `close`."""


class ClusterLifecycle(ABC):
    """Start, time and end of a cluster; every call goes through `_wait` or `_do`."""

    def __init__(
        self,
        *,
        clock: VirtualClock | None = None,
        seed: int = 0,
        gates: GatesLike | Mapping[str, GatesLike] | ComponentGates = None,
        nodes: int = 0,
        controllers: Iterable[str] = ("*",),
        every_heartbeat: bool = False,
        holding: Iterable[Document] = (),
        hosts: Hosts | None = None,
        scheduler: SchedulerConfig | None = None,
        seats: Mapping[str, SeatedPods] | None = None,
        usage: UsageModel = USAGE,
        event_reasons: frozenset[str] | None = None,
    ) -> None:
        """*gates* default to everything on; a mapping from component to gates sets them apart.

        *holding* is there from the start and stored as it is, unchecked: each object with its kind and uid. *hosts*
        says which nodes are played, and how; the simulated ones unless given. *scheduler* configures its profiles and
        plugins (weir.scheduler.config.read_config). *seats* are pods by node that only take room, in the eyes of the
        scheduler, without being in the API. *usage* says what pods use that do not say it themselves
        (weir.objects.pod_usage). Events are written of *event_reasons* only, where given.

        Reports of nodes that are not observed are not carried out one by one unless *every_heartbeat* is asked for;
        apart from resourceVersions and counts of requests the history is the same.
        """
        self.clock = clock or VirtualClock()
        self._controllers, self._seed, self._every_heartbeat = list(controllers), seed, every_heartbeat
        self._hosts, self._scheduler, self._seats, self._usage = hosts, scheduler, seats, usage
        self._event_reasons = event_reasons
        self._outside: ExternalAccess | None = None
        self._followers: list[asyncio.Task[None]] = []
        self._onlookers = HeartbeatFlush(lambda asked: self._running.server.handle(asked))
        self._loop = asyncio.new_event_loop()
        self._gates = ComponentGates.of(gates)
        self._calm = ExitStack()
        self._calm.enter_context(collect_rarely())
        try:
            self._running, self.client = self._wait(self._build(seed, holding))
            if not holding:
                self._wait(ensure_storage_class(self.client))
            self._wait(self._begin())
            if nodes:
                self.add_nodes(nodes)
        except BaseException:
            self._calm.close()
            self._loop.close()
            raise
        self._open = True

    @abstractmethod
    def add_nodes(self, count: int = 1) -> None:
        """Add simulated nodes; a cluster may begin with some."""

    async def _build(self, seed: int, holding: Iterable[Document]) -> tuple[Running, Client]:
        items = _stored(holding)
        self._first_revision = 1 + len(items)
        # Other names and uids than those of a cluster of the same seed that the objects may come from.
        chance = random.Random(f"{seed} after {len(items)} objects" if items else seed)
        options = Options(
            data_dir=Path(),  # nothing is written: the store is in memory and there are no keys
            store="memory",
            insecure=True,
            gates=self._gates.apiserver,
            release=self._gates.release,
            authorization_modes=("AlwaysAllow",),
            usage=self._usage,
            random_bytes=chance.randbytes,
            admin_token=secrets.token_urlsafe(32),  # the same after a restart: programs outside have it
            aggregation=False,  # unused, and every object created here would change the generated names
            priority_and_fairness=False,  # no waiting: virtual time stands still until all are served
        )
        keep = options.compaction_seconds
        store = MemoryStore(
            time=self.clock.steady_time, keep_seconds=keep, revision=self._first_revision, items=items
        )
        running = await build(options, store, self.clock)
        running.chores.append(
            asyncio.ensure_future(upkeep_loop(store, self.clock, interval_seconds=UPKEEP_SECONDS))
        )
        return running, Client(self._transport(), clock=self.clock, user_agent="weir")

    def _transport(self) -> LocalTransport:
        """Return the way to whichever server runs now: one that was restarted has another token."""

        def request(
            method: str, path: str, query: str, headers: Mapping[bytes, bytes], body: bytes
        ) -> Request:
            token = f"Bearer {self._running.admin_token}".encode()
            return Request(method, path, query, {**headers, b"authorization": token}, body)

        return LocalTransport(self._onlookers.handle, request)

    async def _begin(self) -> None:
        self.plane = ControlPlane(
            self._running,
            self.clock,
            self._gates,
            controllers=self._controllers,
            seed=self._seed,
            ledger=None if self._every_heartbeat else HeartbeatLedger(self.clock),
            hosts=self._hosts,
            scheduler=self._scheduler,
            seats=self._seats,
            event_reasons=self._event_reasons,
        )
        self._onlookers.look_at(self.plane.kubelets.reports)
        self.plane.start()
        await self.clock.settle()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise ClusterClosed("this cluster is closed: nothing runs in it any more")
        if self._outside is not None:
            return self._outside.wait(work)
        return self._loop.run_until_complete(work)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it, let every component react, and raise what ended one."""
        result = self._wait(work)
        self._wait(self.clock.settle())
        self.plane.check()
        return result

    def set_gates(self, gates: GatesLike | Mapping[str, GatesLike] | ComponentGates) -> None:
        """Restart every component with other feature gates, on what is stored: an upgrade or a downgrade."""
        self._gates = ComponentGates.of(gates)
        self._wait(self.plane.kubelets.reports.catch_up())
        self._wait(self.plane.stop())
        self._wait(self._restart_server())
        self._wait(self._begin())

    async def _restart_server(self) -> None:
        """Put another server on the same store, as a new version of it would be."""
        old = self._running
        self._running = await build(
            replace(old.options, gates=self._gates.apiserver, release=self._gates.release),
            old.store,
            self.clock,
        )
        self._running.chores, self._running.port = old.chores, old.port
        self._running.listener, self._running.connections = old.listener, old.connections
        old.server.watches.close()  # listeners of the old one move to the new one
        await old.webhook_client.close()

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def advance(self, by: float | timedelta) -> None:
        """Let time pass (seconds, or a timedelta): whatever is due meanwhile happens at its time."""
        self._do(self.clock.advance(by))

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def wait_for(self, question: Callable[[], T], within: float = 30.0) -> T:
        """Ask until the answer is true, and return it: for what programs outside do, in their own time.

        The cluster's time passes meanwhile as the machine's does. Raises TimeoutError after *within* seconds.
        """
        began = asked = time.monotonic()
        while not (answer := question()):
            now = time.monotonic()
            if now - began > within:
                raise TimeoutError(f"not so within {within:g} s; the last answer was {answer!r}")
            self.advance(now - asked)
            asked = now
            time.sleep(WAIT_SECONDS)
        return answer

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Let *work* go on beside the cluster's components, until it ends or the cluster is closed."""

        async def act() -> None:
            self._followers.append(asyncio.ensure_future(work))

        self._do(act())

    # ── programs outside of this process ─────────────────────────────────────────────────────────

    @property
    def address(self) -> str:
        """The URL at which programs of this machine reach the API server; it listens from the first question on."""
        return self._external_access().address

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of `address` with all rights, for KUBECONFIG; it goes with the cluster."""
        return self._external_access().kubeconfig

    def _external_access(self) -> ExternalAccess:
        if self._loop.is_closed():
            raise ClusterClosed("this cluster is closed: nothing runs in it any more")
        if self._outside is None:
            self._outside = ExternalAccess(self._loop, lambda: self._running, self._onlookers.handle)
        return self._outside

    # ── end ──────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """End everything."""
        if self._open:
            self._open = False
            try:
                self._wait(self._unfollow())
                self._wait(self.plane.stop())
                self._wait(self._running.stop())
            finally:
                self._wait(_cancel_others())
                if self._outside is not None:
                    self._outside.close()
                self._loop.close()
                self._calm.close()

    async def _unfollow(self) -> None:
        for task in self._followers:
            task.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def _stored(documents: Iterable[Document]) -> list[KeyValue]:
    """Return *documents* as they lie in a store, each at a revision of its own."""
    items: list[KeyValue] = []
    for document in documents:
        kind = by_kind(document["apiVersion"], document["kind"])
        hub, metadata = hub_of(kind), document["metadata"]
        write = Write(
            hub.key(metadata.get("namespace", ""), metadata["name"]),
            codec.encode(document, kind),
            stamp=codec.STAMP,
        )
        item = next_version(write, None, 1 + len(items), 0.0)
        assert item is not None
        items.append(item)
    return items


async def _cancel_others() -> None:
    """End every task of this loop: what Ctrl-C interrupted is still waiting in it."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
