"""Concurrent compare-and-set histories are linearizable, on every backend; and the checker can tell."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from tests.contract.backends import Backend
from tests.contract.etcd_server import running_etcd
from tests.contract.linearizability import ANY, Operation, is_linearizable
from weir.store import KeyValue, Result, Store, StoreUnavailable, Write
from weir.store.etcd import EtcdStore
from weir.store.memory import MemoryStore

Histories = dict[str, list[Operation]]


def value_of(item: KeyValue | None) -> bytes | None:
    return None if item is None else item.value


class Client:
    """Does random operations and records them; remembers what it saw to compare against."""

    def __init__(
        self, name: int, store: Store, tick: Callable[[], int], histories: Histories, keys: int
    ) -> None:
        self._chance = random.Random(name)
        self._name, self._store, self._tick, self._histories, self._keys = name, store, tick, histories, keys
        self._seen: dict[str, KeyValue | None] = {}

    async def run(self, steps: int) -> None:
        for step in range(steps):
            key = f"/k/{self._chance.randrange(self._keys)}"
            if self._chance.random() < 0.35:
                await self._read(key)
            else:
                await self._write(key, b"%d.%d" % (self._name, step))
            for _ in range(self._chance.randrange(3)):
                await asyncio.sleep(0)

    async def _read(self, key: str) -> None:
        began = self._tick()
        try:
            await self._store.fresh()
        except StoreUnavailable:
            await self._recovery()
            return  # a read that was not answered says nothing
        item = self._seen[key] = self._store.get(key)
        self._histories[key].append(Operation(began, self._tick(), "read", found=value_of(item)))

    async def _write(self, key: str, value: bytes | None) -> None:
        if self._chance.random() < 0.25:
            value = None
        how = self._chance.random()
        seen = self._seen.get(key)
        expect, revision = (ANY, None) if how < 0.1 else (None, 0)
        if how > 0.3 and seen is not None:
            expect, revision = seen.value, seen.mod_revision
        began = self._tick()
        try:
            [result] = await self._store.commit([Write(key, value, revision)])
        except StoreUnavailable:
            self._histories[key].append(Operation(began, None, "write", "unknown", expect, value))
            await self._recovery()
            return
        self._note(key, began, expect, value, result)

    async def _recovery(self) -> None:
        """Return when the store answers again: as real clients, and to keep the unknown few."""
        for _ in range(3000):
            with suppress(StoreUnavailable):
                await self._store.fresh()
                return
            await asyncio.sleep(0.02)

    def _note(self, key: str, began: int, expect: bytes | None, value: bytes | None, result: Result) -> None:
        ended = self._tick()
        if result.error is None:
            self._seen[key] = result.check().now
            operation = Operation(began, ended, "write", "done", expect, value)
        else:
            self._seen[key] = result.found
            operation = Operation(began, ended, "write", "refused", expect, value, value_of(result.found))
        self._histories[key].append(operation)


async def record(stores: Sequence[Store], *, clients: int = 8, steps: int = 60, keys: int = 3) -> Histories:
    histories: Histories = defaultdict(list)
    tick = itertools.count().__next__
    await asyncio.gather(
        *(
            Client(name, stores[name % len(stores)], tick, histories, keys).run(steps)
            for name in range(clients)
        )
    )
    return histories


async def test_concurrent_histories_are_linearizable(backend: Backend) -> None:
    histories = await record([await backend.open()])
    assert {key: is_linearizable(history) for key, history in histories.items()} == dict.fromkeys(
        histories, True
    )


@pytest.mark.parametrize("backend", ["etcd"], indirect=True)
async def test_histories_through_two_stores_on_the_same_data_are_linearizable(backend: Backend) -> None:
    histories = await record([await backend.open(), await backend.open()])
    assert {key: is_linearizable(history) for key, history in histories.items()} == dict.fromkeys(
        histories, True
    )


async def test_the_history_has_all_kinds_of_outcome(backend: Backend) -> None:
    histories = await record([await backend.open()])
    kinds = {(one.action, one.outcome) for history in histories.values() for one in history}
    assert kinds == {("read", "done"), ("write", "done"), ("write", "refused")}


async def test_histories_are_linearizable_although_etcd_is_killed_while_they_happen() -> None:
    with running_etcd() as server:
        stores = [await EtcdStore.open(server.endpoint) for _ in range(2)]
        recording = asyncio.create_task(record(stores, steps=150))
        for _ in range(2):
            await asyncio.wait_for(stores[0].until(stores[0].revision + 20 * 1024), 60)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        histories = await asyncio.wait_for(recording, 60)
        for store in stores:
            await store.close()
    outcomes = {one.outcome for history in histories.values() for one in history}
    assert outcomes >= {"done", "refused"}
    assert all(map(is_linearizable, histories.values()))


# ------------------------------------------------------------------------------- the checker is able to fail


class ForgetfulStore(MemoryStore):
    """Broken on purpose: now and then a compare-and-set does not compare."""

    async def commit(self, writes: Sequence[Write]) -> list[Result]:
        if self.revision % 7 == 0:
            writes = [Write(write.key, write.value) for write in writes]
        return await super().commit(writes)


class StaleStore(MemoryStore):
    """Broken on purpose: reads show the state before the last write."""

    def get(self, key: str) -> KeyValue | None:
        return self.get_at(key, max(self.revision - 1, self.compacted))


@pytest.mark.parametrize("broken", [ForgetfulStore, StaleStore])
async def test_a_broken_store_is_found_out(broken: type[MemoryStore]) -> None:
    histories = await record([broken()])
    assert not all(map(is_linearizable, histories.values()))


def test_a_lost_update_is_not_linearizable() -> None:
    first = Operation(0, 1, "write", expect=None, value=b"a")
    both = [Operation(2, 5, "write", expect=b"a", value=v) for v in (b"b", b"c")]
    assert not is_linearizable([first, *both])


def test_overlapping_operations_may_take_effect_in_either_order() -> None:
    create = Operation(0, 9, "write", expect=None, value=b"a")
    reads = [Operation(1, 2, "read", found=None), Operation(3, 4, "read", found=b"a")]
    assert is_linearizable([create, *reads]) and not is_linearizable(
        [create, Operation(1, 2, "read", found=b"a"), Operation(3, 4, "read", found=None)]
    )


def test_a_write_without_an_answer_may_have_happened_or_not() -> None:
    lost = Operation(0, None, "write", "unknown", expect=None, value=b"a")
    for found in (None, b"a"):
        assert is_linearizable([lost, Operation(1, 2, "read", found=found)])
