"""A story's view of a live cluster, with the interface of weir.simulation.cluster.Cluster.

Each story runs in a thread; its requests run on the run's event loop. Watch events are queued and delivered while
time passes, with the time at which they were seen, so a story's history is written by its own thread only. `advance`
waits in real time; a stopped run raises Stopped from it.

Removes other stories' nodes from scheduler messages. A message that a pod fits nowhere counts every node of the
cluster. Nodes of other stories are rejected for their isolating taint, other nodes for a taint or the label that the
pod selects; these counts are removed.
"""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
import queue
import re
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from weir import errors
from weir.client.api import Client
from weir.client.cache import Informer, decode_document
from weir.clock import RealClock
from weir.conformance.renaming import LABEL, STORY, Names
from weir.controllers.nodes.condition_taints import OWNED
from weir.objects.kind import Document, Kind
from weir.objects.kinds import KINDS, NAMESPACES, NODES, SERVICE_ACCOUNTS, by_kind, find_kind
from weir.objects.times import format_time
from weir.simulation.cluster import ComponentGates
from weir.simulation.drivers.device_models import DEVICES, read_all
from weir.simulation.drivers.faults import POOL, with_fault
from weir.simulation.kubelet.node_classes import SIMULATED, NodeClass, node_document
from weir.taints.notation import parse_taint, taint_document

Listener = Callable[[Document | None, Document | None], None]
T = TypeVar("T")
GLANCE_SECONDS: Final = 0.1
#: How long a namespace may take to get the account that pods of it run as; without that admission there is none.
ACCOUNT_SECONDS: Final = 5.0
#: How long nodes may take to be seen as ready and without the taints of new nodes.
READY_SECONDS: Final = 30.0
NOT_READY: Final = "node.kubernetes.io/not-ready"
#: How the API server says that it is the user who may not do something, and not the object that is refused.
_NOT_ALLOWED: Final = re.compile(r'User ".*" cannot \w+ resource')


_AVAILABLE: Final = re.compile(r"0/(\d+) nodes are available: (.*)\.", re.DOTALL)
_REASON: Final = re.compile(r"(\d+) (.*)", re.DOTALL)
_UNNAMED: Final = "node(s) had untolerated taint(s)"
#: What the plugin for claims says of its own try to help, in 1.35.
_OF_CLAIMS: Final = re.compile(r" (?:no new claims to deallocate|still not schedulable),")
_PREEMPTION: Final = " preemption: "
_SELECTOR: Final = "node(s) didn't match Pod's node affinity/selector"
#: Nodes of other stories come and go while the scheduler looks at them.
_OF_NODES: Final = ("node.kubernetes.io/not-ready: ", "node.kubernetes.io/unreachable: ")
_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"


def own_part(message: str, own: int, foreign_taints: Collection[str] = ()) -> str:
    """Return *message* as it would be with the story's *own* nodes only.

    *foreign_taints* are those of the cluster's own nodes, as the scheduler writes them: `key: value`.

    >>> taint = "2 node(s) had untolerated taint {weir.dev/conformance: x-01}"
    >>> own_part(f"0/3 nodes are available: 1 Too many pods, {taint}.", 1)
    '0/1 nodes are available: 1 Too many pods.'
    """
    first, between, second = _OF_CLAIMS.sub("", message).partition(_PREEMPTION)
    foreign = {f"node(s) had untolerated taint {{{taint}}}" for taint in (*foreign_taints, *_OF_NODES)}
    reasons = _own(first, own, foreign, _SELECTOR)
    return f"{reasons}{between}{_own(second, own, set(), _NOT_HELPFUL)}" if between else reasons


def _own(text: str, own: int, foreign: set[str], default: str) -> str:
    match = _AVAILABLE.fullmatch(text)
    if match is None:
        return text
    others = int(match[1]) - own
    reasons = []
    for part in re.split(r", (?=\d+ )", match[2]):
        counted = _REASON.fullmatch(part)
        if counted is None:
            return text
        reasons.append((int(counted[1]), counted[2]))
    for applies in (
        lambda reason: f"{{{LABEL}: " in reason,
        lambda reason: reason in foreign,
        lambda reason: reason == default,
        lambda reason: reason == _UNNAMED,
    ):
        left = []
        for number, reason in reasons:
            taken = min(number, others) if applies(reason) else 0
            others -= taken
            left.append((number - taken, reason))
        reasons = left
    shown = sorted(f"{number} {reason}" for number, reason in reasons if number)
    return f"0/{own} nodes are available: {', '.join(shown)}."


class Stopped(Exception):
    """The run was stopped."""


class RightsMissing(Exception):
    """The cluster does not let this user do what a story needs."""


@dataclass(frozen=True)
class Bridge:
    """The way from a story's thread to the run's event loop."""

    client: Client
    loop: asyncio.AbstractEventLoop
    stop: threading.Event = field(default_factory=threading.Event)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what *work* comes to. Raises Stopped."""
        if self.stop.is_set():
            work.close()
            raise Stopped
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        while True:
            try:
                return future.result(1.0)
            except concurrent.futures.TimeoutError:
                if future.done():
                    return future.result()
                if self.stop.is_set():
                    future.cancel()
                    raise Stopped from None
            except concurrent.futures.CancelledError:
                raise Stopped from None


async def wait_for_account(client: Client, namespace: str) -> None:
    """Return when pods can be created in a new namespace."""
    deadline = time.monotonic() + ACCOUNT_SECONDS
    while await client.find(SERVICE_ACCOUNTS, "default", namespace) is None and time.monotonic() < deadline:
        await asyncio.sleep(GLANCE_SECONDS)


class LiveCluster:
    """One story's part of a live cluster. Not to be shared between threads."""

    def __init__(self, bridge: Bridge, names: Names, foreign_taints: Iterable[str] = ()) -> None:
        self._bridge, self._names = bridge, names
        self._foreign = frozenset(foreign_taints)
        self._seen: queue.SimpleQueue[tuple[datetime, Listener, Document | None, Document | None]] = (
            queue.SimpleQueue()
        )
        self._told_at: datetime | None = None
        self._followers: builtins.list[asyncio.Future[Any]] = []
        self._nodes: set[str] = set()
        self._namespaces: builtins.list[str] = []

    # ── beginning and end ────────────────────────────────────────────────────────────────────────

    def open(self, namespaces: Iterable[str]) -> None:
        """Make the namespaces of the story."""
        for name in namespaces:
            self._ask(self._open(self._names.namespace(name)))
            self._namespaces.append(self._names.namespace(name))

    async def _open(self, name: str) -> None:
        client = self._bridge.client
        document = {"metadata": {"name": name, "labels": self._names.labels}}
        await client.create(NAMESPACES, document)
        await wait_for_account(client, name)

    def close(self) -> None:
        """End the watches."""
        for follower in self._followers:
            self._bridge.loop.call_soon_threadsafe(follower.cancel)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def now(self) -> datetime:
        return self._told_at or datetime.now(UTC)

    def advance(self, by: timedelta) -> None:
        """Let time pass and deliver what is seen meanwhile."""
        deadline = time.monotonic() + by.total_seconds()
        while not self._bridge.stop.is_set():
            left = deadline - time.monotonic()
            try:
                at, listener, old, new = self._seen.get(timeout=max(min(left, GLANCE_SECONDS), 0.001))
            except queue.Empty:
                if left <= 0:
                    return
                continue
            self._told_at = at
            try:
                listener(self._inward(old), self._inward(new))
            finally:
                self._told_at = None
        raise Stopped

    def wait_ready(self) -> None:
        """Wait until the story's nodes are ready, and their drivers have published their devices."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and not self._is_ready():
            self.advance(timedelta(seconds=GLANCE_SECONDS))

    def _is_ready(self) -> bool:
        nodes = self.list("Node")
        if any(taint["key"] == NOT_READY for node in nodes for taint in node["spec"].get("taints") or ()):
            return False
        drivers = {
            each.driver
            for node in nodes
            for each in read_all(
                msgspec.json.decode((node["metadata"].get("annotations") or {}).get(DEVICES, "[]"))
            )
        }
        return not drivers or drivers <= {each["spec"]["driver"] for each in self.list("ResourceSlice")}

    # ── objects ──────────────────────────────────────────────────────────────────────────────────

    def apply(self, *objects: Document) -> builtins.list[Document]:
        return [self._apply(each) for each in objects]

    def _apply(self, document: Document) -> Document:
        kind = self._kind(document)
        out = self._names.outward(document, kind)
        return self._call(kind, self._bridge.client.apply(kind, out, field_manager="weir", force=True))

    def create(self, document: Document) -> Document:
        kind = self._kind(document)
        return self._call(kind, self._bridge.client.create(kind, self._names.outward(document, kind)))

    def patch(self, kind: str, name: str, patch: Document, namespace: str = "default") -> Document:
        row = self._row(kind)
        return self._call(
            row,
            self._bridge.client.patch(
                row, self._called(row, name), self._names.patch(patch), self._in(row, namespace)
            ),
        )

    def get(self, kind: str, name: str, namespace: str = "default") -> Document | None:
        row = self._row(kind)
        stored = self._ask(self._bridge.client.find(row, self._called(row, name), self._in(row, namespace)))
        return self._inward({"kind": row.kind, **stored}) if stored is not None else None

    def list(self, kind: str) -> builtins.list[Document]:
        """Return the story's objects of a kind without a namespace."""
        selector = f"{STORY}={self._names.story}" if kind == "Node" else f"{LABEL}={self._names.run}"
        listed = self._ask(self._bridge.client.list(self._row(kind), label_selector=selector))
        return [self._inside(each) for each in listed.documents()]

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        row = self._row(kind)
        try:
            self._ask(self._bridge.client.delete(row, self._called(row, name), self._in(row, namespace)))
        except errors.NotFound:
            return
        if row is NODES:
            self._nodes.discard(name)

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────

    def add_node(
        self,
        name: str,
        *,
        node_class: NodeClass,
        taints: tuple[str, ...] = (),
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Add a node that the run's kubelets play."""
        wanted = tuple(parse_taint(text) for text in taints)
        document = node_document(name, node_class, wanted, dict(labels or {}), format_time(self.now))
        document = self._renamed_devices(document, node_class)
        out = self._names.outward(document, NODES)
        out["metadata"]["labels"] = {
            key: value for key, value in out["metadata"]["labels"].items() if key != SIMULATED
        } | {STORY: self._names.story}
        out["spec"]["taints"] = [self._names.taint, *out["spec"]["taints"]]
        self._call(NODES, self._bridge.client.create(NODES, out))
        self._nodes.add(name)

    def _renamed_devices(self, document: Document, node_class: NodeClass) -> Document:
        """Return a node whose drivers have the names that they have in the cluster."""
        if not node_class.devices:
            return document
        renamed = [
            replace(each, driver=self._names.name(each.driver), pool=self._names.name(each.pool))
            for each in node_class.devices
        ]
        text = msgspec.json.encode([each.document() for each in renamed]).decode()
        annotations = {**document["metadata"].get("annotations", {}), DEVICES: text}
        return {**document, "metadata": {**document["metadata"], "annotations": annotations}}

    def taint(self, node: str, *taints: str) -> None:
        """Give a node exactly these taints, beside those its conditions stand for."""
        stored = self.get("Node", node)
        if stored is None:
            raise errors.NotFound(f'nodes "{node}" not found')
        own = [t for t in stored["spec"].get("taints") or () if t["key"] in OWNED]
        wanted = [taint_document(parse_taint(text)) for text in taints]
        self.patch("Node", node, {"spec": {"taints": [*own, *wanted]}})

    def degrade(self, node: str, device: str = POOL, **fault: Any) -> None:
        """Let something happen to a device of a node, as weir.simulation.cluster.Cluster.degrade."""
        stored = self._ask(self._bridge.client.get(NODES, self._called(NODES, node)))
        annotations = with_fault(stored["metadata"].get("annotations") or {}, device, fault, self.now)
        self.patch("Node", node, {"metadata": {"annotations": annotations}})

    def set_gates(self, gates: ComponentGates) -> None:
        raise NotImplementedError("the gates of a live cluster are not ours to change")

    # ── watching ─────────────────────────────────────────────────────────────────────────────────

    def follow(self, kind: str, listener: Listener) -> None:
        """Tell *listener* about every object of a kind in the story's namespaces, while time passes."""
        self._ask(self._follow(self._row(kind), listener))

    async def _follow(self, row: Kind, listener: Listener) -> None:
        for namespace in self._namespaces:
            informer: Informer[Document] = Informer(
                self._bridge.client, row, RealClock(), decode_document, namespace=namespace, seed=0
            )

            def seen(old: Document | None, new: Document | None) -> None:
                self._seen.put((datetime.now(UTC), listener, old, new))

            informer.cache.listen(seen)
            self._followers.append(asyncio.ensure_future(informer.run()))
            await informer.cache.wait_synced()

    # ── words ────────────────────────────────────────────────────────────────────────────────────

    def _row(self, name: str) -> Kind:
        """Return the row of a kind, in the version that the cluster serves."""
        version = self._names.versions.get(name)
        if version:
            return by_kind(version, name)
        return next(kind for kind in KINDS if kind.stored and kind.kind == name)

    def _kind(self, document: Document) -> Kind:
        kind = find_kind(document["apiVersion"], document["kind"])
        assert kind is not None, document["kind"]
        version = self._names.versions.get(kind.kind)
        return by_kind(version, kind.kind) if version and kind.version != "v1alpha4" else kind

    def _called(self, row: Kind, name: str) -> str:
        return name if row.namespaced else f"{self._names.prefix}{name}"

    def _in(self, row: Kind, namespace: str) -> str:
        return self._names.namespace(namespace) if row.namespaced else ""

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what *work* comes to. Raises RightsMissing; what else the server says, in the story's names."""
        return self._call_as("", work)

    def _call(self, kind: Kind, work: Coroutine[Any, Any, Document]) -> Document:
        return self._inside(self._call_as(kind.kind, work))

    def _call_as(self, kind: str, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._bridge.do(work)
        except errors.Forbidden as error:
            if _NOT_ALLOWED.search(error.message):
                raise RightsMissing(self._names.text(error.message)) from None
            error.message = self._names.refusal(error.message, kind)
            raise
        except errors.ApiError as error:
            error.message = self._names.refusal(error.message, kind)
            raise

    def _inward(self, document: Document | None) -> Document | None:
        return None if document is None else self._inside(document)

    def _inside(self, document: Document) -> Document:
        """Return an object as the story would see it if it had the cluster for itself."""
        inside = self._names.inward(document)
        if inside.get("reason") == "FailedScheduling":
            for name in ("message", "note"):
                if isinstance(inside.get(name), str):
                    inside[name] = self._own_part(inside[name])
        for condition in (inside.get("status") or {}).get("conditions") or ():
            if (
                isinstance(condition, dict)
                and condition.get("type") == "PodScheduled"
                and condition.get("message")
            ):
                condition["message"] = self._own_part(condition["message"])
        return inside

    def _own_part(self, message: str) -> str:
        return own_part(message, len(self._nodes), self._foreign)
