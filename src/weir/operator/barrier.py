"""The barrier before node writes: a node gets new taints once every pod that tolerates them says so in stock words.

Spec: stock.md 6, in this order: the new triples into the table that all replicas share; this replica's copy of the pods
up to date; entries for every pod bound here (for those it shows already, beside the table) and every pending one;
and, where a bound pod needs them against NoExecute, kube-controller-manager's own sign that it has seen the pods. Only
then is the write admitted. Any replica can do it: what orders it with releases on another is the table and the pods'
resourceVersions.
Nothing but NoExecute is waited for to the end, since no other taint takes a pod off its node; a pending pod whose entry
comes a moment later is placed a moment later. Gated pods get entries too, although their release would add them: the
patch makes a release that read the table too early fail with a conflict. When time runs out the work goes on, and the
writer's next try is quick.
A node that does not exist yet concerns only the pods that are bound to its name: schedulers see it with its taints from
the first, and what it brings is recorded when the cluster shows it.
Triples that no node has are held on a budget (weir.operator.holds): a write that is announced and never stored is
forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from weir.client.cache import Cache, ObjectKey
from weir.clock import Clock
from weir.errors import WeirError
from weir.lowering.tolerations import extended_verdict
from weir.lowering.triples import Triple, listed
from weir.operator.entries import Entries, Written
from weir.operator.holds import Holds
from weir.operator.known_triples import KnownTriples
from weir.operator.metrics import OperatorMetrics
from weir.operator.node_taints import NodeTaints
from weir.operator.pending import PendingPods, key_of
from weir.operator.sentinel import Mark, Sentinel
from weir.operator.views import LoweredPod

#: Triples that were announced and that no node has, and how fast those come back that never came to one.
MOST_HELD: Final = 512
REFILL_SECONDS: Final = 30.0
#: Writes that are prepared at once; the work for one goes on when its writer has given up.
MOST_PREPARED: Final = 256
#: Patches of bound pods, of all barriers together: who came first is ready first, instead of all at the end.
AT_ONCE: Final = 32
#: A node write that evicts nobody waits so long for pending pods, so that they find a new node ready for them.
COURTESY_SECONDS: Final = 0.5


class NoRoom(WeirError):
    """A pod that runs on the node cannot get the entry it needs; the write would evict it wrongly."""


class Unconfirmed(WeirError):
    """What kube-controller-manager shows proves nothing here, and nothing else protects the pods."""


class Busy(WeirError):
    """More is announced than the cluster shows; the write may be tried again."""


class TimedOut(WeirError):
    """Not every pod is ready; the write may be tried again."""


class Barrier:
    """Holds node writes back until pods are ready for them."""

    def __init__(
        self,
        clock: Clock,
        pods: Cache[LoweredPod],
        known: KnownTriples,
        sentinel: Sentinel,
        entries: Entries,
        pending: PendingPods,
        metrics: OperatorMetrics,
        taints: NodeTaints,
    ) -> None:
        self._clock, self._pods, self._known, self._taints = clock, pods, known, taints
        self._sentinel, self._entries, self._pending, self._metrics = sentinel, entries, pending, metrics
        #: What kube-controller-manager runs without; "" where it runs all that a sign of it rests on.
        self.apart = ""
        self._room = asyncio.Semaphore(AT_ONCE)
        self._running: dict[tuple[str, tuple[Triple, ...]], asyncio.Task[int]] = {}
        self._holds: Holds[Triple] = Holds(clock, MOST_HELD, REFILL_SECONDS)
        taints.appeared = self._holds.shown

    def concerns_new(self, node: str) -> bool:
        """Return whether lowered pods are bound to the name of a node that is being created."""
        return any(True for _ in self._pods.by_index("node", node))

    async def hold(
        self,
        node: str,
        triples: tuple[Triple, ...],
        seconds: float,
        *,
        created: bool = False,
        present: tuple[Triple, ...] = (),
    ) -> int:
        """Return how many pods got an entry, once *node*, which exists unless it is *created*, may get *triples*.

        *present* is what it has before and after the write: what a pod tolerates of it must not need an entry that
        the barrier closes.

        Raises Busy, NoRoom, NotRecorded, Unconfirmed, TimedOut, ApiError.
        """
        began = self._clock.monotonic()
        if created:
            triples = tuple(triple for triple in triples if triple.effect == "NoExecute")
            if not triples:
                return 0
        task = self._running.get((node, triples))
        if task is None:
            self._holds.expired()
            unshown = [triple for triple in triples if triple not in self._taints]
            if len(self._running) >= MOST_PREPARED or not self._holds.take(unshown):
                self._metrics.barriers.child("failed").inc()
                raise Busy("too many taints are announced that no node has; nothing was changed, try again")
            prepare = self._prepare_new if created else self._prepare
            task = asyncio.ensure_future(prepare(node, triples, present))
            self._running[node, triples] = task
            task.add_done_callback(lambda _: self._running.pop((node, triples), None))
            task.add_done_callback(_retrieve)
        limit = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({task, limit}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self._metrics.barriers.child("timed_out").inc()
                raise TimedOut(
                    f"not every pod is ready for {listed(triples)} on node {node} after {seconds:g} s; "
                    "nothing was changed on the node, try again"
                )
            try:
                patched = task.result()
            except Exception:
                self._metrics.barriers.child("failed").inc()
                raise
            self._metrics.barriers.child("admitted").inc()
            self._metrics.barrier_duration.child().observe(self._clock.monotonic() - began)
            return patched
        finally:
            limit.cancel()

    async def _prepare(self, node: str, triples: tuple[Triple, ...], present: tuple[Triple, ...]) -> int:
        evicting = tuple(triple for triple in triples if triple.effect == "NoExecute")
        if not evicting:
            await self._known.add(triples)
            return await self._let_in(node, triples)
        # Entries do no harm before the table has the triple: pods that are seen here already wait for nothing.
        written, _ = await asyncio.gather(self._add(node, evicting, present), self._known.add(triples))
        # One change of the sentinel for both: this replica sees every pod that was released without the table's
        # triples, and kube-controller-manager shows that it has seen the patches.
        mark = await self._sentinel.catch_up()
        pending = self._pending.complete(await self._pending.lacking(evicting, node), first=True)
        if len(evicting) < len(triples):
            self._pending.complete(await self._pending.lacking(triples, node))  # and nobody waits for these
        written |= await self._add(node, evicting, present, written)
        # The sign is about pods that are bound: it need not wait for the others.
        await asyncio.gather(
            self._confirm_seen(node, evicting, written, mark), asyncio.gather(*pending.values())
        )
        meanwhile = [(key, turn.result()) for key, turn in pending.items()]
        if any(result.node == node for _, result in meanwhile):  # bound before it was patched
            self._check_room(node, meanwhile)
            await self._confirm(node)
        return sum(1 for _, result in (*written.items(), *meanwhile) if result.added)

    async def _confirm_seen(
        self, node: str, evicting: tuple[Triple, ...], written: Mapping[ObjectKey, Written], mark: Mark
    ) -> None:
        """Return when kube-controller-manager has seen the entries that save pods here, most of them with *mark*."""
        if not await self._unseen(node, evicting, written):
            return
        self._check_apart(node)
        await self._sentinel.confirm_mark(mark)
        if await self._unseen(node, evicting, written):
            await self._sentinel.confirm()

    async def _prepare_new(self, node: str, triples: tuple[Triple, ...], present: tuple[Triple, ...]) -> int:
        """Make the pods ready that are bound to a node which comes back under its name with evicting *triples*."""
        written = await self._add(node, triples, present)
        if await self._unseen(node, triples, written):
            await self._confirm(node)
        return sum(1 for result in written.values() if result.added)

    async def _let_in(self, node: str, triples: tuple[Triple, ...]) -> int:
        """Give pending pods their entries, and wait for that as long as a usual cluster takes: nobody is in danger."""
        turns = self._pending.complete(await self._pending.lacking(triples, node)).values()
        if not turns:
            return 0
        limit = asyncio.ensure_future(self._clock.sleep(COURTESY_SECONDS))
        ready = asyncio.ensure_future(asyncio.wait(turns))
        try:
            await asyncio.wait({limit, ready}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            limit.cancel()
            ready.cancel()
        over = [turn for turn in turns if turn.done() and not turn.cancelled() and turn.exception() is None]
        if len(over) < len(turns):
            self._metrics.barriers_ahead.child().inc()
        return sum(1 for turn in over if turn.result().added)

    async def _bound_here(
        self, node: str, evicting: tuple[Triple, ...], written: Mapping[ObjectKey, Written]
    ) -> list[tuple[LoweredPod, set[str]]]:
        """Return the pods on the node that need a patch, each with the keys that it will have to leave for.

        A copy that is no newer than what was *written* of the pod needs none.
        """
        found = []
        for pod in list(self._pods.by_index("node", node)):
            if (done := written.get(key_of(pod))) is not None and pod.version <= done.version:
                continue
            leaves = await self._entries.overstays(pod, evicting, grace=True)
            if leaves or await self._entries.lacks(pod, evicting):
                found.append((pod, leaves))
        return found

    async def _confirm(self, node: str) -> None:
        self._check_apart(node)
        await self._sentinel.confirm()

    def _check_apart(self, node: str) -> None:
        if self.apart and not self._entries.grace_seconds:
            raise Unconfirmed(
                f"kube-controller-manager runs without {self.apart}, so nobody can say whether pods on node {node} "
                "are ready; let one kube-controller-manager run both, or the operator with --grace-seconds=10"
            )

    def _check_room(self, node: str, written: Iterable[tuple[ObjectKey, Written]]) -> None:
        for key, result in written:
            if result.node == node and result.left_out:
                raise NoRoom(
                    f"pod {key} tolerates {result.left_out[0]} but has no room for another entry, "
                    f"and would be evicted from node {node}"
                )

    async def _add(
        self,
        node: str,
        triples: tuple[Triple, ...],
        present: tuple[Triple, ...],
        before: Mapping[ObjectKey, Written] = MappingProxyType({}),
    ) -> dict[ObjectKey, Written]:
        """Give the pods that are seen on the node their entries, but for those that got them *before*."""

        async def one(pod: LoweredPod, leaves: set[str]) -> tuple[ObjectKey, Written]:
            every = (*present, *triples) if leaves else triples
            async with self._room:
                return key_of(pod), await self._entries.add(pod, lambda: every, "barrier", leaves=leaves)

        pods = await self._bound_here(node, triples, before)
        written = await asyncio.gather(*(one(*each) for each in pods))
        self._check_room(node, written)
        return dict(written)

    async def _unseen(
        self, node: str, evicting: tuple[Triple, ...], written: Mapping[ObjectKey, Written]
    ) -> bool:
        """Return whether a pod here is saved by an entry that kube-controller-manager may not have seen."""
        confirmed = self._sentinel.confirmed
        if any(result.node == node and result.version > confirmed for result in written.values()):
            return True
        for pod in list(self._pods.by_index("node", node)):
            if pod.ended or pod.tolerations is None or pod.version <= confirmed:
                continue
            if pod.tolerations.may_overstay:
                return True
            for triple in evicting:
                originals = pod.tolerations.originals.values()
                if await self._entries.aside.run(pod.evaluates, extended_verdict, originals, triple):
                    return True
        return False


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Look at a failure nobody waits for any more, so that it is not reported as forgotten."""
    if not task.cancelled():
        task.exception()
