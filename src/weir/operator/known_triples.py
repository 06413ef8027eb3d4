"""The table of taints that pods have entries for: one ConfigMap for all replicas, and more where it is full.

Spec: stock.md 6, step 1. A barrier on one replica and the release of a pod on another must not miss each other, so the
table is in the cluster: a barrier writes the new triples there before it looks at pods, and a release reads them there
after it has seen its pod. Each triple has a key of its own, so that adding is a merge patch that never conflicts.
A triple that no node has had for `HOLD_SECONDS` is taken out; its entries in pods stay and do no harm. A triple's
stamp is renewed when a barrier meets it again `RENEW_SECONDS` after this replica wrote it, because one that is about to
be taken out must not be relied on. Both are counted by the monotonic clock, from this replica's own write and from when
the leader first saw the stamp, so that setting the time of day takes nothing out early.
Each part of the table is bounded in rows and bytes, and only triples that an API server takes come in. The first part
has always been there. An annotation of it says how many there are, written before a barrier relies on them, so whoever
reads the first and then the others misses nothing. Replicas that add a triple at once may write it into two parts.
Should the API server refuse a row all the same, that row is dropped, logged and counted, and the rest of the batch is
written. A part that somebody deleted is empty: the leader writes what nodes have into it again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from weir import errors
from weir.client.api import Client
from weir.clock import Clock
from weir.errors import WeirError
from weir.lowering.names import OPERATOR, PARTS, part_name
from weir.lowering.tolerations import Table
from weir.lowering.triples import (
    MOST_PARTS,
    MOST_ROWS,
    MOST_TABLE_BYTES,
    WELL_KNOWN,
    Row,
    Triple,
    part_count,
    read_rows,
    row_bytes,
    table_data,
    table_key,
)
from weir.objects.kinds import CONFIG_MAPS
from weir.objects.times import format_micro_time
from weir.observe.logs import Log
from weir.operator.coalesced import Coalesced
from weir.operator.holds import HOLD_SECONDS, RENEW_SECONDS
from weir.operator.views import version_of

#: Of a patch: the server keeps no owner for each row, which takes it longer than the rest of a large table.
_UNTRACKED: Final[dict[str, Any]] = {"managedFields": [{}]}


class NotRecorded(WeirError):
    """A triple cannot come into the table; the text says why and what to do."""


@dataclass(slots=True)
class _Part:
    """One ConfigMap of the table."""

    version: int = 0
    read: dict[str, Row] = field(default_factory=dict)
    rows: dict[Triple, str] = field(default_factory=dict)
    size: int = 0

    def change(self, gone: Iterable[Row], came: Iterable[Row]) -> None:
        """Take rows out, and others in."""
        for row in gone:
            del self.rows[row.triple]
            self.size -= row.size
        for row in came:
            if row.triple not in self.rows:
                self.size += row.size
            self.rows[row.triple] = row.used


class KnownTriples:
    """The table, as this replica last read or wrote it."""

    def __init__(self, client: Client, clock: Clock, namespace: str) -> None:
        self._client, self._clock, self._namespace = client, clock, namespace
        self._metadata = client.reading_metadata()
        self._parts = [_Part()]
        self._table: dict[Triple, str] = {}
        self._seen: dict[Triple, float] = {}  #: when the stamp of each row was first seen, by `monotonic`
        self._written: dict[Triple, float] = {}  #: when this replica last began to write each row
        self._wanted: set[Triple] = set()
        self._write = Coalesced(self._flush)
        self.read = Coalesced(self._read)
        self.listeners: list[Callable[[set[Triple]], None]] = []
        #: Is told of every row that the API server calls invalid.
        self.dropped: Callable[[], None] = lambda: None
        #: Is called when rows have gone.
        self.lost: Callable[[], None] = lambda: None
        self._log = Log("weir.operator")
        self.known = Table(WELL_KNOWN)

    def __contains__(self, triple: Triple) -> bool:
        return triple in self._table or triple in WELL_KNOWN

    async def _read(self) -> None:
        """Read the table as it is now, never an older one."""
        first = await self._renew(0)
        await asyncio.gather(*(self._renew(number) for number in range(1, part_count(first))))

    async def _renew(self, number: int) -> dict[str, Any] | None:
        """Read a part, its rows only where it has changed; return what says how many parts there are."""
        shown = await self._metadata.find(CONFIG_MAPS, part_name(number), self._namespace)
        version = version_of(((shown or {}).get("metadata") or {}).get("resourceVersion") or "")
        if number < len(self._parts) and version and version == self._parts[number].version:
            return shown
        found = await self._find(number)
        self._take(found, number)
        return found

    async def _find(self, number: int) -> dict[str, Any] | None:
        return await self._client.find(CONFIG_MAPS, part_name(number), self._namespace)

    def _take(self, config_map: Mapping[str, Any] | None, number: int = 0) -> None:
        version = version_of(((config_map or {}).get("metadata") or {}).get("resourceVersion") or "")
        while len(self._parts) <= number:
            self._parts.append(_Part())
        part = self._parts[number]
        if config_map is not None and (version < part.version or version == part.version != 0):
            return  # an answer that was overtaken by a later one, or nothing new
        before, part.read = part.read, read_rows(config_map, part.read)
        part.version = version
        came = [row for key, row in part.read.items() if before.get(key) is not row]
        gone = [before[key] for key in before.keys() - part.read.keys()]
        part.change(gone, came)
        self._look_at(dict.fromkeys(row.triple for row in (*gone, *came)))

    def _look_at(self, changed: Iterable[Triple]) -> None:
        """Bring the table up to date with what the parts say of *changed* triples."""
        now, new, some_gone = self._clock.monotonic(), [], False
        for triple in changed:
            stamp = next((part.rows[triple] for part in reversed(self._parts) if triple in part.rows), None)
            known = self._table.get(triple)
            if stamp is None:
                some_gone = some_gone or known is not None
                for each in (self._table, self._seen, self._written):
                    each.pop(triple, None)
            elif stamp != known:
                if known is None:
                    new.append(triple)
                self._table[triple], self._seen[triple] = stamp, now
        if some_gone:
            self.known = Table((*WELL_KNOWN, *self._table))
            self.lost()
        elif new:
            self.known = Table((*self.known, *new), self.known)
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
                f"the table of known taints has no room for {missing[0]}: it has {len(self._table)} rows in "
                f"{len(self._parts)} of at most {MOST_PARTS} parts; use fewer distinct values"
            )

    async def _flush(self) -> None:
        """Write what everybody wanted until now; who wants a row that does not come in finds it missing."""
        wanted, self._wanted = self._wanted, set()
        batches: dict[int, list[Triple]] = {}
        for number, part in enumerate(self._parts):
            if there := [triple for triple in wanted if triple in part.rows]:
                batches[number] = there
                wanted.difference_update(there)
        room = [[MOST_ROWS - len(part.rows), MOST_TABLE_BYTES - part.size] for part in self._parts]
        room += [[MOST_ROWS, MOST_TABLE_BYTES] for _ in range(MOST_PARTS - len(room))]
        for triple in wanted:
            size = row_bytes(triple)
            for number, left in enumerate(room):
                if left[0] > 0 and left[1] >= size:
                    left[0] -= 1
                    left[1] -= size
                    batches.setdefault(number, []).append(triple)
                    break
        for number, batch in sorted(batches.items()):
            await self._write_rows(batch, number)

    async def _write_rows(self, batch: list[Triple], number: int) -> None:
        """Write rows in one patch; where the API server calls it invalid, in two, down to the row that is at fault."""
        began = self._clock.monotonic()
        try:
            written = await self._patch(table_data(batch, format_micro_time(self._clock.now())), number)
            if number:
                await self._announce(number + 1)
            self._take(written, number)
            self._written |= {triple: began for triple in batch if triple in self._table}
        except (errors.Invalid, errors.BadRequest, errors.RequestTooLarge) as error:
            if len(batch) == 1:
                self.dropped()
                self._log.warning(
                    "The API server takes no row for a taint", taint=str(batch[0]), error=str(error)[:300]
                )
                return
            for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                await self._write_rows(half, number)

    async def _announce(self, parts: int) -> None:
        """See to it that the first part says how many there are."""
        while part_count(first := await self._find(0)) < parts:
            metadata: dict[str, Any] = {"annotations": {PARTS: str(parts)}}
            if first is not None:
                metadata["resourceVersion"] = first["metadata"]["resourceVersion"]
            with suppress(errors.Conflict):  # another replica may have announced more
                await self._patch_or_create(0, {"metadata": metadata})

    async def _patch(self, data: dict[str, str], number: int) -> dict[str, Any]:
        return await self._patch_or_create(number, {"metadata": _UNTRACKED, "data": data})

    async def _patch_or_create(self, number: int, change: dict[str, Any]) -> dict[str, Any]:
        name = part_name(number)
        labels = {"app.kubernetes.io/part-of": "weir"}
        document = {"apiVersion": "v1", "kind": "ConfigMap", **change}
        annotations = (change.get("metadata") or {}).get("annotations") or {}
        if not number and len(self._parts) > 1:
            annotations = {PARTS: str(len(self._parts)), **annotations}
        document["metadata"] = {"name": name, "labels": labels, "annotations": annotations}
        for _ in range(2):
            try:
                return await self._client.patch(
                    CONFIG_MAPS, name, change, self._namespace, field_manager=OPERATOR
                )
            except errors.NotFound:
                with suppress(errors.AlreadyExists):
                    return await self._client.create(
                        CONFIG_MAPS, document, self._namespace, field_manager=OPERATOR
                    )
        raise errors.NotFound(f"configmap {self._namespace}/{name} comes and goes")

    async def forget(self, in_use: set[Triple]) -> tuple[Triple, ...]:
        """Take out what no node has and no barrier has met for long; return it. The leader's duty."""
        limit = self._clock.monotonic() - HOLD_SECONDS
        old = [triple for triple, since in self._seen.items() if triple not in in_use and since < limit]
        if not old:
            return ()
        gone: list[Triple] = []
        for number, part in enumerate(self._parts):
            rows = [triple for triple in old if triple in part.rows]
            if not rows:
                continue
            patch = {
                # Only if nobody renewed a stamp meanwhile.
                "metadata": {"resourceVersion": str(part.version), **_UNTRACKED},
                "data": dict.fromkeys(map(table_key, rows)),
            }
            try:
                written = await self._client.patch(CONFIG_MAPS, part_name(number), patch, self._namespace)
            except (errors.Conflict, errors.NotFound):
                continue
            self._take(written, number)
            gone += [triple for triple in rows if triple not in self._table]
        return tuple(gone)
