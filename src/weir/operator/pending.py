"""Queue of pending pods that lack entries, shared by all barriers and the controller.

Spec: stock.md 3 and 6. Each patch brings a pod up to the whole table, so a pod that ten barriers wait for is patched
once: requests that arrive while it is queued share that patch, later ones get another. Patches that a node write waits
for come first; the others are limited to leave room on the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from weir.client.cache import Cache, ObjectKey
from weir.lowering.triples import Triple
from weir.operator.entries import Entries, Written
from weir.operator.known_triples import KnownTriples
from weir.operator.views import LoweredPod

#: Patches at once: those that a node write waits for, and others.
AT_ONCE: Final = 16
BESIDE: Final = 4
_IN_ONE_GO: Final = 100


def key_of(pod: LoweredPod) -> ObjectKey:
    return ObjectKey(pod.metadata.namespace, pod.metadata.name)


class PendingPods:
    """Pods that have no node yet, and the turns of those that lack an entry."""

    def __init__(self, pods: Cache[LoweredPod], known: KnownTriples, entries: Entries) -> None:
        self._pods, self._known, self._entries = pods, known, entries
        self._first: dict[ObjectKey, asyncio.Future[Written]] = {}
        self._others: dict[ObjectKey, asyncio.Future[Written]] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._at_work = 0

    async def lacking(self, triples: tuple[Triple, ...], node: str = "") -> list[LoweredPod]:
        """Return the pods, as they are now, that lack an entry for one of *triples*.

        With *node* only those that may come there: a DaemonSet's pod is made for one node and is bound to no other.
        """
        pods = [
            pod for pod in self._pods.by_index("node", "") if not (node and pod.target) or pod.target == node
        ]
        found: list[LoweredPod] = []
        for first in range(0, len(pods), _IN_ONE_GO):
            found += await self._entries.lacking(pods[first : first + _IN_ONE_GO], triples)
            await asyncio.sleep(0)  # hooks are answered in between
        return found

    def complete(
        self, pods: Iterable[LoweredPod], *, first: bool = False
    ) -> dict[ObjectKey, asyncio.Future[Written]]:
        """Return for each of *pods* what its next turn will come to; it gets what it lacks of the table by then.

        With *first* before all that nobody waits for.
        """
        found = {key: self._turn(key, first) for key in map(key_of, pods)}
        while self._at_work < self._wanted():
            self._at_work += 1
            worker = asyncio.ensure_future(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        return found

    def _wanted(self) -> int:
        """Return how many should be at work."""
        return max(min(AT_ONCE, len(self._first)), min(BESIDE, len(self._first) + len(self._others)))

    def _turn(self, key: ObjectKey, first: bool) -> asyncio.Future[Written]:
        turn = self._first.get(key)
        if turn is not None:
            return turn
        turn = self._others.pop(key, None) if first else self._others.get(key)
        if turn is None:
            turn = asyncio.get_running_loop().create_future()
            turn.add_done_callback(_look_at)
        (self._first if first else self._others)[key] = turn
        return turn

    async def _work(self) -> None:
        try:
            # Whoever is one too many for what is left goes; those who stay do the rest.
            while self._first or (self._others and self._at_work <= BESIDE):
                await self._give(self._first or self._others)
        finally:
            self._at_work -= 1

    async def _give(self, turns: dict[ObjectKey, asyncio.Future[Written]]) -> None:
        """Give the turn that was asked for first."""
        key = next(iter(turns))
        turn = turns.pop(key)  # who asks from here on gets another
        try:
            pod = self._pods.get(key)
            result = (
                Written(0)
                if pod is None
                else await self._entries.add(pod, lambda: self._known.known, "barrier")
            )
        except Exception as error:
            if not turn.done():
                turn.set_exception(error)
        except asyncio.CancelledError:
            turn.cancel()
            raise
        else:
            if not turn.done():
                turn.set_result(result)

    async def stop(self) -> None:
        """Give no more turns."""
        turns = (*self._first.values(), *self._others.values())
        everything: list[asyncio.Future[Any]] = [*self._workers, *turns]
        for each in everything:
            each.cancel()
        self._first.clear()
        self._others.clear()
        await asyncio.gather(*self._workers, return_exceptions=True)


def _look_at(turn: asyncio.Future[Written]) -> None:
    """Look at a failure that nobody may be waiting for, so that it is not reported as forgotten."""
    if not turn.cancelled():
        turn.exception()
