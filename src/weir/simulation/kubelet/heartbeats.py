"""Heartbeats of simulated nodes: Lease renewals and status reports, and how they are postponed under virtual time.

A Lease is renewed every ten seconds and the status reported every five minutes, each in a rhythm that is a pure
function of time, spread over the nodes. In real time each is written when due.

A healthy node's heartbeat changes nothing, so under virtual time it may be postponed: the node is recorded in a
HeartbeatLedger as reporting, and node lifecycle does not count missing heartbeats for it. `catch_up` writes the latest
report, dated when it was due, before it is read. Only while the node is on and healthy, and no other client touched its
Lease. HeartbeatFlush stands in front of the server's handler, for all clients except the simulation's components: a
request for a Node or Lease first updates what it names; a watch on either, or an admission webhook, sees every
heartbeat from then on.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from weir import errors
from weir.client.api import STRATEGIC_MERGE_PATCH, Client
from weir.client.cache import Cache, ObjectKey
from weir.client.queue import WorkQueue, work
from weir.clock import Clock, VirtualClock
from weir.objects.kinds import LEASES, NODES
from weir.objects.times import format_micro_time, format_time
from weir.simulation.kubelet.node_classes import addresses, allocatable_of, healthy, is_off


class HeartbeatLedger:
    """Written by simulated kubelets, read by node lifecycle (weir.controllers.nodes.lifecycle)."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._in_time: set[str] = set()
        self._ended: list[tuple[str, datetime]] = []
        self._made: dict[str, dict[str, datetime]] = {}  # node → text of a late report → when it was due

    # ── kubelets write ───────────────────────────────────────────────────────────────────────────

    def begin(self, node: str) -> None:
        """*node* is in time from now on, its heartbeats unwritten."""
        self._in_time.add(node)

    def end(self, node: str, last: datetime) -> None:
        """*node* may stop reporting: its last heartbeat was due at *last*; later ones are written."""
        if node in self._in_time:
            self._in_time.discard(node)
            self._ended.append((node, last))

    def note(self, node: str, text: str, at: datetime) -> None:
        """A heartbeat of *node*, now written as *text*, was due *at* this time."""
        made = self._made.setdefault(node, {})
        made.pop(text, None)
        made[text] = at
        if len(made) > 2:  # one for the lease, one for the status
            del made[next(iter(made))]

    def forget(self, node: str) -> None:
        """*node* was deleted."""
        self._in_time.discard(node)
        self._made.pop(node, None)

    # ── node lifecycle reads ────────────────────────────────────────────────────────────────────

    def in_time(self, node: str) -> bool:
        """Return whether *node* sends its heartbeats in time, written or not."""
        return node in self._in_time

    def due_at(self, node: str, text: str) -> datetime | None:
        """Return when the heartbeat that says *text* was due, if it was written late."""
        return self._made.get(node, {}).get(text)

    def take_ended(self) -> list[tuple[str, datetime]]:
        """Return the nodes that stopped being in time since the last call, and when each sent its last heartbeat."""
        ended, self._ended = self._ended, []
        return ended


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


LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
RENEW_SECONDS: Final = 10.0
STATUS_SECONDS: Final = 300.0
SAME_SECONDS: Final = 1e-6  # sums of floats: closer than this is the same time
SLOTS: Final = 10_000
WORKERS: Final = 8

Document = dict[str, Any]


@dataclass(frozen=True)
class Rhythm:
    """At *first*, and from then on at every *phase* + n × *period*.

    >>> rhythm = Rhythm(first=2.0, phase=5.0, period=10.0)
    >>> rhythm.last(3.0), rhythm.next(3.0), rhythm.last(27.0), rhythm.next(25.0)
    (2.0, 5.0, 25.0, 35.0)
    """

    first: float
    phase: float
    period: float

    def last(self, now: float) -> float:
        """Return the latest time up to *now*, *first* at least."""
        turns = math.floor((now + SAME_SECONDS - self.phase) / self.period)
        return max(self.first, self.phase + turns * self.period)

    def next(self, now: float) -> float:
        """Return the earliest time after *now*."""
        turns = math.floor((max(now, self.first) + SAME_SECONDS - self.phase) / self.period) + 1
        return self.first if now + SAME_SECONDS < self.first else self.phase + turns * self.period


class LeaseKey(msgspec.Struct, frozen=True):
    """A node's Lease is due for renewal."""

    node: str


class StatusKey(msgspec.Struct, frozen=True):
    """A node's status is due for reporting."""

    node: str


class SyncKey(msgspec.Struct, frozen=True):
    """What a node can give does not follow from what it has: another program changed its capacity."""

    node: str


class LastKey(msgspec.Struct, frozen=True):
    """A node went off: what it still reported until then is to be written."""

    node: str
    until: float


Key = LeaseKey | StatusKey | SyncKey | LastKey


@dataclass
class _Node:
    """One node's rhythms, which of its reports is the latest that is written, and whether later ones are postponed."""

    lease: Rhythm
    status: Rhythm
    renewed: float = -math.inf
    reported: float = -math.inf
    postpones_lease: bool = False
    postpones_status: bool = False


class Reports:
    """The reports of all simulated nodes of one process."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        nodes: Cache[Document],
        chance: random.Random,
        *,
        failed: Callable[[Any, Exception], None],
        ledger: HeartbeatLedger | None = None,
    ) -> None:
        """Without *ledger* no report is postponed."""
        self._client, self._clock, self._cache, self._chance = client, clock, nodes, chance
        self._failed, self._ledger = failed, ledger
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._nodes: dict[str, _Node] = {}
        self._leases: dict[str, Document] = {}
        self.watchers = 0  #: how many look at every change: while any does, nothing is postponed

    def start(self) -> list[asyncio.Task[None]]:
        """Begin; the tasks end when cancelled, or at `stop`."""
        return [
            asyncio.ensure_future(work(self._queue, self._do, failed=self._failed)) for _ in range(WORKERS)
        ]

    def stop(self) -> None:
        """Report no more."""
        self._queue.close()

    # ── nodes come, go and change ────────────────────────────────────────────────────────────────

    def changed(self, old: Document | None, new: Document | None) -> None:
        """A node was added, changed or deleted."""
        if new is None:
            assert old is not None
            self._forget(old["metadata"]["name"])
            return
        name, now = new["metadata"]["name"], self._clock.monotonic()
        if old is None:
            # Spread out, so that thousands of nodes do not all report in the same second; and never
            # in the same instant as anything that happens at whole milliseconds.
            share = (self._chance.randrange(SLOTS) + 0.37) / SLOTS
            soon = now + share * RENEW_SECONDS
            self._nodes[name] = _Node(
                Rhythm(now, soon, RENEW_SECONDS), Rhythm(soon, now + share * STATUS_SECONDS, STATUS_SECONDS)
            )
            self._queue.add(LeaseKey(name))
            self._queue.add_after(StatusKey(name), soon - now)
            return
        node = self._nodes[name]
        if is_off(old) != is_off(new):
            self._switched(name, node, is_off(new), now)
        elif node.postpones_status and not is_well(new):
            self._postpone_no_status(name, node, now)
        if _out_of_step(new):  # seen when the kubelet looks next, with its Lease
            self._queue.add_after(SyncKey(name), node.lease.next(now) - now)

    def _forget(self, name: str) -> None:
        self._nodes.pop(name, None)
        self._leases.pop(name, None)
        if self._ledger is not None:
            self._ledger.forget(name)

    def _switched(self, name: str, node: _Node, off: bool, now: float) -> None:
        if off:
            self._queue.add(LastKey(name, now))
            if self._ledger is not None:
                self._ledger.end(name, self._ledger.clock.at(node.lease.last(now)))
            return
        node.lease = Rhythm(now, node.lease.phase, RENEW_SECONDS)
        node.status = Rhythm(now, node.status.phase, STATUS_SECONDS)
        node.postpones_lease = node.postpones_status = False
        self._queue.add(LeaseKey(name))
        self._queue.add(StatusKey(name))

    # ── reporting ────────────────────────────────────────────────────────────────────────────────

    async def _do(self, key: Key) -> None:
        document = self._cache.get(ObjectKey("", key.node))
        node = self._nodes.get(key.node)
        if document is None or node is None:
            return
        if isinstance(key, LastKey):
            await self._catch_up(key.node, node, key.until)
            node.postpones_lease = node.postpones_status = False
        elif is_off(document):
            return
        elif isinstance(key, SyncKey):
            if _out_of_step(document):
                await self._report(document)
        else:
            await self._due(key, document, node)

    async def _due(self, key: LeaseKey | StatusKey, document: Document, node: _Node) -> None:
        lease, now = isinstance(key, LeaseKey), self._clock.monotonic()
        rhythm = node.lease if lease else node.status
        due, written = rhythm.last(now), node.renewed if lease else node.reported
        if now < due - SAME_SECONDS or due < written + SAME_SECONDS:
            # The key was for an earlier node of this name, or this report is written already.
            self._queue.add_after(key, rhythm.next(now) - now)
            return
        if not self._may_postpone:
            self._queue.add_after(key, rhythm.next(now) - now)
        if lease:
            await self._renew(document)
            node.renewed = due
        else:
            document = await self._report(document)
            node.reported = due
        if not self._may_postpone or not self._still(key.node, node):
            return
        if lease:
            assert self._ledger is not None
            node.postpones_lease = True
            self._ledger.begin(key.node)
        elif is_well(document):
            node.postpones_status = True
        else:
            self._queue.add_after(key, rhythm.next(now) - now)

    def _still(self, name: str, node: _Node) -> bool:
        """Whether the node is still there and on, after something was waited for."""
        document = self._cache.get(ObjectKey("", name))
        return self._nodes.get(name) is node and document is not None and not is_off(document)

    async def _renew(self, node: Document) -> None:
        name = node["metadata"]["name"]
        # The owner is said anew each time: a Lease left over from an earlier node of this name would be collected.
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
        now = format_micro_time(self._clock.now())
        lease = self._leases.pop(name, None)
        if lease is not None:
            try:
                self._leases[name] = await self._client.update(LEASES, _renewed(lease, owner, now))
                return
            except (errors.Conflict, errors.NotFound):
                pass  # another client wrote it: read it and renew that
        lease = await self._client.find(LEASES, name, LEASE_NAMESPACE)
        if lease is not None:
            self._leases[name] = await self._client.update(LEASES, _renewed(lease, owner, now))
            return
        document: Document = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
        }
        self._leases[name] = await self._client.create(LEASES, document, LEASE_NAMESPACE)

    async def _report(self, node: Document) -> Document:
        now = format_time(self._clock.now())
        before = {c["type"]: c for c in node.get("status", {}).get("conditions") or ()}
        conditions = healthy(now, now)
        for condition in conditions:
            known = before.get(condition["type"])
            if known is not None and known["status"] == condition["status"]:
                condition["lastTransitionTime"] = known.get("lastTransitionTime") or now
        return await self._client.patch(
            NODES,
            node["metadata"]["name"],
            {"status": {"conditions": conditions, **_amounts(node)}},
            patch_type=STRATEGIC_MERGE_PATCH,
            subresource="status",
        )

    # ── what was postponed ───────────────────────────────────────────────────────────────────────

    @property
    def _may_postpone(self) -> bool:
        return self._ledger is not None and not self.watchers

    async def catch_up(
        self, names: Iterable[str] | None = None, *, leases: bool = True, statuses: bool = True
    ) -> None:
        """Write what was postponed, of these nodes or of all."""
        now = self._clock.monotonic()
        for name in list(self._nodes if names is None else names):
            node = self._nodes.get(name)
            if node is not None:
                await self._catch_up(name, node, now, leases=leases, statuses=statuses)

    async def _catch_up(
        self, name: str, node: _Node, until: float, *, leases: bool = True, statuses: bool = True
    ) -> None:
        document = self._cache.get(ObjectKey("", name))
        if self._ledger is None or document is None:
            return
        clock = self._ledger.clock
        renewed, reported = node.lease.last(until), node.status.last(until)
        if leases and node.postpones_lease and node.renewed < renewed - SAME_SECONDS:
            node.renewed = renewed
            with clock.backdated(renewed):
                await self._renew(document)
            self._ledger.note(name, self._leases[name]["spec"]["renewTime"], clock.at(renewed))
        if statuses and node.postpones_status and node.reported < reported - SAME_SECONDS:
            node.reported = reported
            with clock.backdated(reported):
                await self._report(document)
            text = format_time(clock.at(reported))
            self._ledger.note(name, text, clock.at(reported))

    def postpone_no_lease(self, names: Iterable[str] | None = None) -> None:
        """Make the next renewal of these nodes when it is due: another client has touched their Leases."""
        now = self._clock.monotonic()
        for name in list(self._nodes if names is None else names):
            node = self._nodes.get(name)
            if node is not None and node.postpones_lease:
                node.postpones_lease = False
                assert self._ledger is not None
                self._ledger.end(name, self._ledger.clock.at(node.lease.last(now)))
                self._queue.add_after(LeaseKey(name), node.lease.next(now) - now)

    def _postpone_no_status(self, name: str, node: _Node, now: float) -> None:
        node.postpones_status = False
        self._queue.add_after(StatusKey(name), node.status.next(now) - now)

    def postpone_nothing(self) -> None:
        """Make the next report of every node when it is due, and those after it while there are watchers."""
        self.postpone_no_lease()
        now = self._clock.monotonic()
        for name, node in self._nodes.items():
            if node.postpones_status:
                self._postpone_no_status(name, node, now)


def is_well(node: Document) -> bool:
    """Return whether a report of the node would change nothing but the times of its heartbeats."""
    found = {c["type"]: c for c in (node.get("status") or {}).get("conditions") or ()}
    return all(
        (there := found.get(wanted["type"])) is not None
        and there.get("lastTransitionTime")
        and all(there.get(name) == wanted[name] for name in ("status", "reason", "message"))
        for wanted in _WELL
    )


_WELL: Final = healthy("", "")


def _out_of_step(node: Document) -> bool:
    """Return whether what the node can give does not follow from what it has."""
    status = node.get("status") or {}
    capacity, given = status.get("capacity"), status.get("allocatable")
    return capacity != given and bool(capacity) and allocatable_of(status) != given


def _amounts(node: Document) -> Document:
    """Return what a report says beside conditions: addresses a node lacks, and amounts that do not follow."""
    status: Document = node.get("status") or {}
    found: Document = {}
    if not status.get("addresses"):
        found["addresses"] = addresses(node["metadata"]["name"])
    if _out_of_step(node):
        given = allocatable_of(status)
        gone = {name: None for name in status.get("allocatable") or {} if name not in given}
        found["allocatable"] = {**given, **gone}
    return found


def _renewed(lease: Document, owner: Document, now: str) -> Document:
    metadata = {**lease["metadata"], "ownerReferences": [owner]}
    return {**lease, "metadata": metadata, "spec": {**lease["spec"], "renewTime": now}}
