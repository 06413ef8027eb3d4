"""etcd backend, shared by several API servers.

Reads come from memory (weir.store.memory), which follows etcd through one watch from etcd's compacted revision,
so that a new server can resume its clients' watches. A write is a transaction at etcd and is acknowledged when the
watch has delivered it. Concurrent writes share a transaction. (Nested transactions would answer all in one round
trip, but etcd's quota does not count what is nested.)

Revisions are etcd's with ten more bits (weir.store.etcd_wire). A deletion goes alone, because a deleted key has no
value to hold its place in the transaction. `ttl_seconds` is an etcd lease, shared by keys written at about the same
time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

import grpc.aio
import msgspec

from weir.store import etcd_wire as pb
from weir.store.backend import (
    PLAIN,
    WRITTEN_BEFORE,
    Compacted,
    Event,
    KeyValue,
    Result,
    StoreError,
    StoreUnavailable,
    TooLarge,
    Transformer,
    Unreadable,
    Write,
    check_writes,
)
from weir.store.etcd_wire import (
    LAST_PLACE,
    EtcdConnection,
    EtcdOptions,
    content_of,
    decode,
    encode_value,
    main_of,
    place_of,
    revision_of,
    unavailable,
)
from weir.store.log import Log, next_version, refusal
from weir.store.memory import DEFAULT_KEEP_SECONDS, ReadCache, Retention

_TXN_WRITES = 64  # etcd refuses transactions of more than 128 by default
_TXN_BYTES = 1 << 20  # and of more than 1.5 MiB
_PAGE = 1000
_LEASE_KEYS = 500  # they expire in one revision, and a revision has places for 1024
_BEHIND_SECONDS = 0.05
_VISIBLE_SECONDS = 10.0


class _PendingWrites(NamedTuple):
    writes: Sequence[Write]
    answer: asyncio.Future[list[Result]]


class _Lease(NamedTuple):
    lease_id: int
    usable_until: float
    keys: int


class EtcdStore(ReadCache):
    """The contract of `weir.store.backend.Store`, in etcd v3."""

    def __init__(
        self,
        connection: EtcdConnection,
        prefix: str,
        time: Callable[[], float],
        keep_seconds: float,
        transformer: Transformer,
    ) -> None:
        """Use `open`."""
        super().__init__(Log())
        self._etcd, self._time = connection, time
        self._prefix = prefix.encode()
        self._first, self._end = self._prefix, self._prefix + b"\xff"
        self._retention = Retention(keep_seconds)
        self._main = 0  # etcd's revision up to which the watch has brought everything
        self._asked: list[_PendingWrites] = []
        self._sender: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None
        self._leases: dict[float, _Lease] = {}
        self._transformer = transformer
        self._unreadable: Unreadable | None = None  # what keeps the watch from going on
        self._closed = False

    @classmethod
    async def open(
        cls,
        options: EtcdOptions | str = "127.0.0.1:2379",
        *,
        prefix: str = "/weir",
        time: Callable[[], float] = time.time,
        keep_seconds: float = DEFAULT_KEEP_SECONDS,
        transformer: Transformer = PLAIN,
    ) -> Self:
        """Connect, and return when memory shows what etcd holds under *prefix*. Raises StoreUnavailable.

        *transformer* says in what form values lie in etcd, behind their header.
        """
        if isinstance(options, str):
            options = EtcdOptions(endpoints=options.split(","))
        store = cls(EtcdConnection(options), prefix, time, keep_seconds, transformer)
        try:
            await store._load()
            store._follower = asyncio.create_task(store._follow())
            await store.fresh()
        except BaseException:
            await store.close()
            raise
        return store

    # ---------------------------------------------------------------------------------------------- reads

    async def fresh(self) -> int:
        self._require_open()
        probe = await self._etcd.range(key=self._sync_key, count_only=True)
        main: int = probe.header.revision
        if main > self._main:
            try:
                await asyncio.wait_for(self._log.until(revision_of(main)), _BEHIND_SECONDS)
            except TimeoutError:
                # What moved etcd's revision may lie outside our keys and will never arrive: write
                # something that will. (etcd's own progress notices overtake events before 3.4.25.)
                put = {"request_put": {"key": self._sync_key, "value": b""}}
                done = await self._etcd.txn(pb.TxnRequest(success=[put]))
                await self._log.until(revision_of(done.header.revision))
        return self._log.revision

    @property
    def _sync_key(self) -> bytes:
        return self._prefix + b"!"  # before every key of ours, which begin with a slash

    # ------------------------------------------------------------------------------------ following etcd

    async def _load(self) -> None:
        """Read the oldest state etcd still has; the watch brings everything since."""
        while True:
            oldest = await self._oldest()
            try:
                items = await self._items_at(oldest) if oldest else []
            except Compacted:
                continue  # another server compacted while we were reading
            self._main = oldest
            at = revision_of(max(oldest, 1))  # an empty etcd begins at 1
            self._log.reset(at, at, items)
            return

    async def _oldest(self) -> int:
        """Return etcd's compacted revision; 0 when it never was compacted."""
        try:
            await self._etcd.range(key=self._sync_key, revision=1)
            return 0
        except Compacted:
            stream = await self._etcd.watch(self._first, self._end, 1)
            try:
                while (response := await stream.read()) is not grpc.aio.EOF:
                    if response.compact_revision:
                        return int(response.compact_revision)
            except grpc.aio.AioRpcError as error:
                raise unavailable(error) from None
            finally:
                stream.cancel()
            raise StoreUnavailable("etcd closed the connection") from None

    async def _items_at(self, main: int) -> list[KeyValue]:
        items: list[KeyValue] = []
        start = self._first
        while True:
            page = await self._etcd.range(key=start, range_end=self._end, limit=_PAGE, revision=main)
            for stored in page.kvs:
                if stored.key != self._sync_key:
                    items.append(decode(self._key_of(stored.key), stored, self._transformer))
            if not page.more:
                return items
            start = page.kvs[-1].key + b"\0"

    def _key_of(self, key: bytes) -> str:
        return key[len(self._prefix) :].decode()

    async def _follow(self) -> None:
        """Keep memory up with etcd, for ever; reconnect after a failure, start over after a gap."""
        pause = 0.05
        while not self._closed:
            endpoint = self._etcd.endpoint
            try:
                stream = await self._etcd.watch(self._first, self._end, self._main + 1)
                try:
                    while (response := await stream.read()) is not grpc.aio.EOF:
                        if response.compact_revision:
                            raise Compacted(self._log.revision, revision_of(response.compact_revision))
                        if response.canceled:
                            self._etcd.forget_token()
                            break
                        self._take(response)
                        self._unreadable = None
                        pause = 0.05
                finally:
                    stream.cancel()
            except Compacted as gap:
                with suppress(StoreUnavailable):
                    await self._load()
                    self._log.fanout.end(gap)
                    continue
            except Unreadable as error:  # another server has keys that this one lacks; it may be given them
                self._unreadable = error
                self._log.give_up(error)
            except (grpc.aio.AioRpcError, StoreUnavailable):
                self._etcd.forget_token()
                self._etcd.leave(endpoint)
            except Exception as defect:  # must not end the following silently: reads would grow old unnoticed
                context = {"message": "the store failed to follow etcd and tries again", "exception": defect}
                asyncio.get_running_loop().call_exception_handler(context)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    def _take(self, response: Any) -> None:
        """Make one watch response visible; etcd never splits a revision over two."""
        events: list[Event] = []
        pending: dict[str, KeyValue | None] = {}
        main = deletions = 0
        crowded = False
        for change in response.events:
            stored = change.kv
            if stored.mod_revision != main:
                main, deletions = stored.mod_revision, 0
            if stored.key == self._sync_key or not stored.key.startswith(self._prefix + b"/"):
                continue
            key = self._key_of(stored.key)
            before = pending[key] if key in pending else self._log.get(key)
            if change.type == pb.EVENT_DELETE:
                crowded |= deletions > LAST_PLACE
                revision = revision_of(main, min(deletions, LAST_PLACE))
                deletions += 1
                item = None
                if before is None:
                    continue
            else:
                item = decode(key, stored, self._transformer)
                revision = revision_of(main, place_of(stored.value))
            pending[key] = item
            events.append(Event(key, revision, item, before))
        if main:
            self._main = main
            self._log.apply(events)
            self._log.advance(revision_of(main))
        if crowded:  # etcd was emptied by hand: too many changes to number, so no watch may resume within
            self._log.fanout.end(Compacted(self._log.revision, self._log.revision))

    # --------------------------------------------------------------------------------------------- writes

    def _require_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if self._unreadable is not None:
            raise self._unreadable

    async def commit(self, writes: Sequence[Write]) -> list[Result]:
        self._require_open()
        check_writes(writes)
        answer: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        self._asked.append(_PendingWrites(writes, answer))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        return await answer

    async def _send(self) -> None:
        """Send pending writes, a group at a time, until none is left."""
        try:
            while self._asked:
                group, self._asked = self._asked, []
                outcomes = await self._send_group([write for asked in group for write in asked.writes])
                at = 0
                for asked in group:
                    part = outcomes[at : at + len(asked.writes)]
                    at += len(asked.writes)
                    if asked.answer.done():
                        continue
                    failed = next((one for one in part if isinstance(one, StoreError)), None)
                    if failed is not None:
                        asked.answer.set_exception(failed)
                    else:
                        asked.answer.set_result([one for one in part if isinstance(one, Result)])
        finally:
            self._sender = None

    async def _send_group(self, writes: Sequence[Write]) -> list[Result | StoreError]:
        outcomes: list[Result | StoreError] = []
        at = 0
        while at < len(writes):
            part = _one_transaction(writes, at)
            at += len(part)
            if part[0].expect == WRITTEN_BEFORE:  # what that came to is known by now
                before = outcomes[-1]
                if isinstance(before, StoreError) or before.event is None:
                    outcomes.append(before)
                    continue
                part = [msgspec.structs.replace(part[0], expect=before.event.revision)]
            try:
                outcomes += await self._transact(part)
            except (StoreUnavailable, TooLarge) as error:
                outcomes += [error] * len(part)
        return outcomes

    async def _transact(self, writes: Sequence[Write]) -> list[Result]:
        """Do all writes in one transaction if every condition holds. If not, that transaction has read all
        keys at one moment: those whose condition did not hold then are refused, the others go again."""
        results: dict[int, Result] = {}
        left = list(enumerate(writes))
        while left:
            compare, operations, reads = [], [], []
            for place, (_, write) in enumerate(left):
                key = self._prefix + write.key.encode()
                compare += _conditions(write, key)
                operations.append(await self._operation(write, key, place))
                reads.append({"request_range": {"key": key}})
            request = pb.TxnRequest(compare=compare, success=operations, failure=reads)
            answer = await self._etcd.txn(request)
            if answer.succeeded:
                main: int = answer.header.revision
                await self._seen(revision_of(main))
                for place, (number, write) in enumerate(left):
                    results[number] = self._done(write, revision_of(main, place))
                break
            again = []
            for (number, write), read in zip(left, answer.responses, strict=True):
                kvs = read.response_range.kvs
                found = decode(write.key, kvs[0], self._transformer) if kvs else None
                error = refusal(write, found)
                if error is None:
                    again.append((number, write))
                    continue
                if found is not None:  # later reads from memory must see the value that failed the write
                    await self._seen(found.mod_revision)
                results[number] = Result(None, error, found)
            if len(again) == len(left):
                raise StoreUnavailable("etcd refused a transaction whose conditions hold")
            left = again
        return [results[number] for number in range(len(writes))]

    async def _seen(self, revision: int) -> None:
        """Return when memory shows *revision*, which etcd has."""
        if revision <= self._log.revision:
            return
        try:
            await asyncio.wait_for(self._log.until(revision), _VISIBLE_SECONDS)
        except (TimeoutError, Unreadable):
            message = "etcd took the write, but its watch did not bring it back"
            raise StoreUnavailable(message, unknown=True) from None

    async def _operation(self, write: Write, key: bytes, place: int) -> dict[str, Any]:
        if write.value is None:
            return {"request_delete_range": {"key": key}}
        content = self._transformer.to_storage(write.key, write.value)
        stored = encode_value(content, place, write.stamp)
        lease = await self._lease(write.ttl_seconds) if write.ttl_seconds else 0
        return {"request_put": {"key": key, "value": stored, "lease": lease}}

    def _done(self, write: Write, revision: int) -> Result:
        event = self._log.event_at(revision)
        if event is None:  # compacted since; deliver what is known
            event = Event(write.key, revision, next_version(write, None, revision, 0.0), None)
        return Result(event)

    async def _lease(self, ttl_seconds: float) -> int:
        """Return a lease for a key written now that lasts *ttl_seconds* or a little longer."""
        now = self._time()
        lease = self._leases.get(ttl_seconds)
        if lease is None or lease.usable_until < now or lease.keys >= _LEASE_KEYS:
            shared_seconds = min(60.0, ttl_seconds * 0.05)
            lease_id = await self._etcd.grant_lease(max(1, round(ttl_seconds + shared_seconds)))
            lease = _Lease(lease_id, now + shared_seconds, 0)
        self._leases[ttl_seconds] = lease._replace(keys=lease.keys + 1)
        return lease.lease_id

    # ------------------------------------------------------------------------------------- upkeep and end

    async def stale(self, key: str) -> bool:
        if not self._transformer.may_be_stale(key):
            return False
        page = await self._etcd.range(key=self._prefix + key.encode())
        return bool(page.kvs) and self._transformer.is_stale(key, content_of(page.kvs[0].value))

    async def compact(self, revision: int) -> None:
        if revision <= self._log.compacted:
            return
        self._log.compact(revision)
        whole = main_of(revision + 1) - 1  # a revision of which only a part is compacted stays at etcd
        if whole > 0:
            await self._etcd.compact(whole)

    async def upkeep(self, now: float) -> None:
        await self.compact(self._retention.compact_to(now, self._log))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._sender is not None:
            with suppress(StoreError):
                await self._sender
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.wait((self._follower,))
            if not self._follower.cancelled():
                self._follower.result()
        await self._etcd.close()
        self._log.fanout.end(StoreUnavailable("the store is closed"))


def _conditions(write: Write, key: bytes) -> list[dict[str, Any]]:
    """Return etcd's comparisons for what *write* expects."""
    mod = {"target": pb.TARGET_MOD, "key": key}
    if write.expect is not None:
        conditions = [{**mod, "result": pb.COMPARE_EQUAL, "mod_revision": main_of(write.expect)}]
    else:
        conditions = []
    if write.value is None:  # a deletion needs something to delete
        conditions.append({**mod, "result": pb.COMPARE_GREATER, "mod_revision": 0})
    return conditions


def _one_transaction(writes: Sequence[Write], at: int) -> Sequence[Write]:
    """Return the longest run of *writes* from *at* on that etcd takes as one transaction."""
    if writes[at].value is None or writes[at].expect == WRITTEN_BEFORE:
        return writes[at : at + 1]
    keys: set[str] = set()
    size = 0
    end = at
    while end < len(writes) and end - at < _TXN_WRITES:
        write = writes[end]
        if write.value is None or write.key in keys:
            break
        size += len(write.value) + len(write.key)
        if size > _TXN_BYTES and end > at:
            break
        keys.add(write.key)
        end += 1
    return writes[at:end]
