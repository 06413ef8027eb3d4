"""A cluster's objects and the components that act on them, under virtual time and without a server.

It can be asked and changed as weir.simulation.cluster.Cluster can, and decides as it does: who is evicted, made again,
placed and refused follows from the same functions. Not everything that a server does is here
(weir.forecast.coverage).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Self

from weir.controllers.catalog import choose
from weir.controllers.nodes.lifecycle import NodeLifecycle
from weir.errors import NotFound
from weir.forecast.client import ObjectsClient
from weir.forecast.controllers import Controllers
from weir.forecast.kubelets import Kubelets
from weir.forecast.objects import Objects
from weir.forecast.scheduler import ForecastScheduler
from weir.forecast.timeline import Timeline
from weir.forecast.views import Views, follow
from weir.gates import Gates
from weir.objects.kinds import NODES, PODS, by_kind
from weir.scheduler.pod_class import SeatedPods
from weir.selectors.labels import parse
from weir.simulation.kubelet.behaviour import Life
from weir.simulation.kubelet.heartbeats import HeartbeatLedger
from weir.simulation.named_kinds import kind_called

Document = dict[str, Any]
Observer = Callable[[datetime, Document | None, Document | None], None]


@dataclass(frozen=True)
class Components:
    """The components of a forecast."""

    scheduler: ForecastScheduler
    controllers: Controllers

    def failures(self) -> Iterator[str]:
        """Yield where a controller's own code failed and has not succeeded since."""
        for worker in self.controllers.workers:
            for key, error in worker.failed.items():
                names = (getattr(key, name, "") for name in ("namespace", "name"))
                which = "/".join(filter(None, names)) or str(key)
                yield f"{worker.controller.name} at {which} ({error})"


class ForecastCluster:
    """The objects of a snapshot, and what becomes of them."""

    def __init__(
        self,
        *,
        start: datetime,
        gates: Gates,
        holding: Iterable[Document],
        controllers: Sequence[str],
        life_of: Callable[[Document], Life],
        seats: Mapping[str, SeatedPods],
        event_reasons: frozenset[str],
        seed: int = 0,
    ) -> None:
        """*holding* is there from the start; *seats* are pods by node that only take room."""
        self.clock = timeline = Timeline(start)
        self.objects = objects = Objects(timeline, gates, seed, holding)
        self.client = client = ObjectsClient(objects, timeline, event_reasons)
        self._events: list[Document] = []
        views, ledger = Views(), HeartbeatLedger(timeline)
        lifecycle = {"node-lifecycle": partial(NodeLifecycle, postponed=ledger)}
        chosen = choose(list(controllers), gates, lifecycle)
        shared = {PODS: follow(objects, PODS, views.pod), NODES: follow(objects, NODES, views.node)}
        scheduler = ForecastScheduler(timeline, objects, client, shared, gates, seed, seats)
        hosts = Controllers(timeline, objects, client, shared, chosen, self._events)
        kubelets = Kubelets(timeline, objects, client, shared[PODS], views, gates, seed, ledger, life_of)
        self.plane = Components(scheduler, hosts)
        objects.listen(
            PODS, lambda old, new: views.forget_pod(old["metadata"]["uid"]) if new is None and old else None
        )
        kubelets.start()
        scheduler.wake()
        hosts.start()

    # ── objects ──────────────────────────────────────────────────────────────────────────────────

    def get(self, kind: str, name: str, namespace: str = "default") -> Document | None:
        """Return one object, or None."""
        return self.objects.find(kind_called(kind), namespace, name)

    def list(self, kind: str, namespace: str = "", selector: str = "") -> list[Document]:
        """Return the objects of a kind in the order of their names, of all namespaces unless one is named."""
        chosen = parse(selector)
        held = self.objects.of(kind_called(kind))
        return [
            each
            for key, each in sorted(held.items())
            if (not namespace or key.namespace == namespace)
            and chosen.matches(each["metadata"].get("labels") or {})
        ]

    def create(self, document: Document) -> Document:
        """Create one object; raises what the server answers."""
        kind = by_kind(document["apiVersion"], document["kind"])
        made = self.objects.create(kind, document, document["metadata"].get("namespace", "default"))
        self.clock.run_ready()
        return made

    def apply(self, document: Document) -> Document:
        """Create or change one object as a forced server-side apply; raises what the server answers."""
        kind, metadata = by_kind(document["apiVersion"], document["kind"]), dict(document["metadata"])
        if kind.namespaced:
            metadata.setdefault("namespace", "default")
        made = self.objects.apply(kind, {**document, "metadata": metadata}, "weir")
        self.clock.run_ready()
        return made

    def patch(self, kind: str, name: str, patch: Document, namespace: str = "default") -> Document:
        """Change an object by a JSON merge patch."""
        made = self.objects.patch(kind_called(kind), namespace, name, patch)
        self.clock.run_ready()
        return made

    def patch_all(self, kind: str, patches: Mapping[str, Document], namespace: str = "default") -> None:
        """Change several objects by JSON merge patches, all before any component sees the first."""
        row = kind_called(kind)
        for name, patch in patches.items():
            self.objects.patch(row, namespace, name, patch)
        self.clock.run_ready()

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object, if it is there."""
        try:
            self.objects.delete(kind_called(kind), namespace, name)
        except NotFound:
            return
        self.clock.run_ready()

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def revision(self) -> int:
        """The number of writes so far."""
        return self.objects.revision

    def advance(self, seconds: float) -> None:
        """Let time pass: whatever is due meanwhile happens at its time."""
        self.clock.pass_time(seconds)

    def suspend_evictions(self, owners: set[str]) -> None:
        """Evict no pod of these controllers (uids) from now on."""
        self.plane.controllers.suspended |= owners

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Let *work* go on beside the components, until it ends."""
        self.clock.run(work)
        self.clock.run_ready()

    # ── telling ──────────────────────────────────────────────────────────────────────────────────

    def observe(self, kind: str, observer: Observer) -> None:
        """Call *observer* with (time, before, after) at the moment of every write to an object of a kind."""
        self.objects.listen(kind_called(kind), lambda old, new: observer(self.clock.now(), old, new))

    def events(self, reason: str = "") -> Sequence[Document]:
        """Return the events that were kept, in the order in which they happened."""
        return [each for each in self._events if not reason or each["reason"] == reason]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        return
