"""The table of taints that pods have entries for: one ConfigMap for all replicas.

Spec: stock.md 6, step 1. A barrier on one replica and the release of a pod on another must not miss each other, so the
table is in the cluster: a barrier writes the new triples there before it looks at pods, and a release reads them there
after it has seen its pod. Each triple has a key of its own, so that adding is a merge patch that never conflicts.
A triple that no node has had for `HOLD_SECONDS` is taken out; its entries in pods stay and do no harm. A triple's
stamp is renewed when a barrier meets it again `RENEW_SECONDS` after this replica wrote it, because one that is about to
be taken out must not be relied on. Both are counted by the monotonic clock, from this replica's own write and from when
the leader first saw the stamp, so that setting the time of day takes nothing out early.
The table is bounded in rows and bytes, and only triples that an API server takes come in. Should it refuse a row all
the same, that row is dropped, logged and counted, and the rest of the batch is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from weir import errors
from weir.client.api import Client
from weir.clock import Clock
from weir.errors import WeirError
from weir.lowering.names import KNOWN_TRIPLES, OPERATOR
from weir.lowering.triples import (
    MOST_ROWS,
    MOST_TABLE_BYTES,
    WELL_KNOWN,
    Triple,
    read_table,
    row_bytes,
    table_data,
    table_key,
)
from weir.objects.kinds import by_kind
from weir.objects.times import format_micro_time
from weir.observe.logs import Log
from weir.operator.coalesced import Coalesced
from weir.operator.holds import HOLD_SECONDS, RENEW_SECONDS
from weir.operator.views import version_of

CONFIG_MAPS: Final = by_kind("v1", "ConfigMap")


class NotRecorded(WeirError):
    """A triple cannot come into the table; the text says why and what to do."""


class KnownTriples:
    """The table, as this replica last read or wrote it."""

    def __init__(self, client: Client, clock: Clock, namespace: str) -> None:
        self._client, self._clock, self._namespace = client, clock, namespace
        self._table: dict[Triple, str] = {}
        self._seen: dict[Triple, float] = {}  #: when the stamp of each row was first seen, by `monotonic`
        self._written: dict[Triple, float] = {}  #: when this replica last began to write each row
        self._version = 0
        self._wanted: set[Triple] = set()
        self._write = Coalesced(self._flush)
        self.read = Coalesced(self._read)
        self.listeners: list[Callable[[set[Triple]], None]] = []
        self.dropped: Callable[[], None] = lambda: (
            None
        )  #: is told of every row that the API server calls invalid
        self._log = Log("weir.operator")
        self.known: tuple[Triple, ...] = WELL_KNOWN

    async def _read(self) -> None:
        """Read the table as it is now, never an older one."""
        found = await self._client.find(CONFIG_MAPS, KNOWN_TRIPLES, self._namespace)
        self._take(found)

    def _take(self, config_map: Mapping[str, Any] | None) -> None:
        version = version_of(((config_map or {}).get("metadata") or {}).get("resourceVersion") or "")
        if version < self._version or (version and version == self._version):
            return  # an answer that was overtaken by a later one, or nothing new
        self._version = version
        before, self._table = self._table, read_table(config_map)
        now = self._clock.monotonic()
        self._seen = {
            triple: self._seen[triple] if before.get(triple) == stamp else now
            for triple, stamp in self._table.items()
        }
        self._written = {triple: at for triple, at in self._written.items() if triple in self._table}
        new = self._table.keys() - before.keys()
        if new or len(before) != len(self._table):
            self.known = (*WELL_KNOWN, *self._table)
        for listener in self.listeners if new else ():
            listener(set(new))

    async def add(self, triples: Iterable[Triple]) -> None:
        """Return when every one of *triples* is in the table and will stay there for a while.

        Raises NotRecorded when one cannot come in, and what the write raises.
        """
        limit = self._clock.monotonic() - RENEW_SECONDS
        wanted = [
            triple
            for triple in triples
            if not triple.conditional and not self._written.get(triple, -math.inf) >= limit
        ]
        if not wanted:
            return
        if invalid := [triple for triple in wanted if not triple.valid]:
            raise NotRecorded(f"{len(invalid)} taints are none that an API server takes")
        self._wanted |= set(wanted)
        await self._write()
        if missing := [triple for triple in wanted if triple not in self._table]:
            raise NotRecorded(
                f"the table of known taints has no room for {missing[0]}: {len(self._table)} of at most {MOST_ROWS} "
                "rows; use fewer distinct values"
            )

    async def _flush(self) -> None:
        """Write what everybody wanted until now; who wants a row that does not come in finds it missing."""
        wanted, self._wanted = self._wanted, set()
        room = MOST_TABLE_BYTES - sum(map(row_bytes, self._table))
        rows = len(self._table)
        batch = [triple for triple in wanted if triple in self._table]
        for triple in wanted.difference(batch):
            if rows < MOST_ROWS and row_bytes(triple) <= room:
                rows, room = rows + 1, room - row_bytes(triple)
                batch.append(triple)
        if batch:
            await self._write_rows(batch)

    async def _write_rows(self, batch: list[Triple]) -> None:
        """Write rows in one patch; where the API server calls it invalid, in two, down to the row that is at fault."""
        began = self._clock.monotonic()
        try:
            self._take(await self._patch(table_data(batch, format_micro_time(self._clock.now()))))
            self._written |= {triple: began for triple in batch if triple in self._table}
        except (errors.Invalid, errors.BadRequest, errors.RequestTooLarge) as error:
            if len(batch) == 1:
                self.dropped()
                self._log.warning(
                    "The API server takes no row for a taint", taint=str(batch[0]), error=str(error)[:300]
                )
                return
            for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                await self._write_rows(half)

    async def _patch(self, data: dict[str, str]) -> dict[str, Any]:
        try:
            return await self._client.patch(
                CONFIG_MAPS, KNOWN_TRIPLES, {"data": data}, self._namespace, field_manager=OPERATOR
            )
        except errors.NotFound:
            return await self._create(data)

    async def _create(self, data: dict[str, str]) -> dict[str, Any]:
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": KNOWN_TRIPLES, "labels": {"app.kubernetes.io/part-of": "weir"}},
            "data": data,
        }
        try:
            return await self._client.create(CONFIG_MAPS, document, self._namespace, field_manager=OPERATOR)
        except errors.AlreadyExists:
            return await self._client.patch(
                CONFIG_MAPS, KNOWN_TRIPLES, {"data": data}, self._namespace, field_manager=OPERATOR
            )

    async def forget(self, in_use: set[Triple]) -> tuple[Triple, ...]:
        """Take out what no node has and no barrier has met for long; return it. The leader's duty."""
        limit = self._clock.monotonic() - HOLD_SECONDS
        old = [triple for triple, since in self._seen.items() if triple not in in_use and since < limit]
        if not old:
            return ()
        patch = {
            "metadata": {"resourceVersion": str(self._version)},  # nobody renewed a stamp meanwhile
            "data": dict.fromkeys(map(table_key, old)),
        }
        try:
            written = await self._client.patch(CONFIG_MAPS, KNOWN_TRIPLES, patch, self._namespace)
        except (errors.Conflict, errors.NotFound):
            return ()
        self._take(written)
        return tuple(old)
