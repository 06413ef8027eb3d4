"""Claims about weir.store.backup: a copy under writes is one revision's state, a restored one takes no old watch."""

import asyncio
import sqlite3
import stat

import pytest

from weir.store import Compacted, Locked, StoreUnavailable, Write
from weir.store.backup import AHEAD, check, copy, restore
from weir.store.sqlite import SqliteStore


async def put(store, key, value=b"v"):
    [result] = await store.commit([Write(key, value)])
    return result.check().revision


def state(store):
    return {item.key: item.value for item in store.range("/").items}


async def test_a_copy_taken_under_writes_is_the_state_at_one_revision(tmp_path):
    store = await SqliteStore.open(tmp_path / "store.db")
    states = {store.revision: {}}
    known = {}
    stop = False

    async def write():
        number = 0
        while not stop:
            number += 1
            key = f"/a/{number % 40}"
            known[key] = b"%d" % number
            states[await put(store, key, known[key])] = dict(known)

    writing = asyncio.create_task(write())
    while len(states) < 50:
        await asyncio.sleep(0)
    done = await asyncio.to_thread(copy, tmp_path / "store.db", tmp_path / "copy")
    stop = True
    await writing
    await store.close()
    restore(tmp_path / "copy", tmp_path / "again" / "store.db")
    again = await SqliteStore.open(tmp_path / "again" / "store.db")
    assert state(again) == states[done.revision] and done.objects == len(states[done.revision])
    await again.close()


async def test_a_restored_store_goes_on_far_ahead_and_takes_no_watch_from_before(tmp_path):
    store = await SqliteStore.open(tmp_path / "store.db")
    await put(store, "/a/kept")
    copied = copy(tmp_path / "store.db", tmp_path / "copy")
    last = await put(store, "/a/lost")
    await put(store, "/a/kept", b"newer")
    await store.close()
    done = restore(tmp_path / "copy", tmp_path / "store.db")
    store = await SqliteStore.open(tmp_path / "store.db")
    assert state(store) == {"/a/kept": b"v"} and store.get("/a/lost") is None
    assert store.revision == done.revision > last + AHEAD - 10
    for revision in (1, copied.revision, last, last + 5):
        with pytest.raises(Compacted):
            store.watch("/a/", revision, lambda events: None)
    assert await put(store, "/a/new") == done.revision + 1
    await store.close()
    store = await SqliteStore.open(tmp_path / "store.db")
    assert store.get("/a/new").mod_revision == done.revision + 1
    await store.close()


async def test_only_the_owner_reads_a_copy_and_none_is_overwritten(tmp_path):
    store = await SqliteStore.open(tmp_path / "store.db")
    await put(store, "/a/x")
    copy(tmp_path / "store.db", tmp_path / "copy")
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    with pytest.raises(StoreUnavailable, match="exists already"):
        copy(tmp_path / "store.db", tmp_path / "copy")
    with pytest.raises(Locked):  # its server runs
        restore(tmp_path / "copy", tmp_path / "store.db")
    await store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "store.db", "store.db.lock"]


async def test_what_is_no_backup_or_a_damaged_one_changes_nothing(tmp_path):
    store = await SqliteStore.open(tmp_path / "store.db")
    await put(store, "/a/x", b"first")
    await store.close()
    before = (tmp_path / "store.db").read_bytes()
    copy(tmp_path / "store.db", tmp_path / "copy")
    with sqlite3.connect(tmp_path / "copy") as db:
        db.execute("UPDATE log SET value = 'other'")
    (tmp_path / "text").write_text("no database at all, but quite a long text")
    (tmp_path / "empty").write_bytes(b"")
    for name, words in {
        "copy": "damaged at revision",
        "text": "not a backup",
        "empty": "not a backup",
        "none": "there is no backup",
    }.items():
        with pytest.raises(StoreUnavailable, match=words):
            restore(tmp_path / name, tmp_path / "store.db")
    with pytest.raises(StoreUnavailable, match="there is no store"):
        copy(tmp_path / "nothing.db", tmp_path / "other")
    assert (tmp_path / "store.db").read_bytes() == before
    assert check(tmp_path / "store.db").objects == 1


async def test_a_week_of_writes_stays_within_a_few_times_what_is_there(tmp_path, monkeypatch):
    """Five minutes of history are kept; every step stands for three hours of a week."""
    monkeypatch.setattr("weir.store.journal._CHECKPOINT_BYTES", 1 << 18)
    now = [0.0]
    store = await SqliteStore.open(tmp_path / "store.db", time=lambda: now[0], keep_seconds=300)
    sizes = []
    for step in range(56):
        now[0] = 10800.0 * step
        writes = [Write(f"/a/{each}", b"%d" % step + b"x" * 2000) for each in range(50)]
        writes += [Write(f"/events/{step}-{each}", b"y" * 2000, ttl_seconds=3600) for each in range(10)]
        await store.commit(writes)
        await store.upkeep(now[0])
        sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
    assert store.count("/events/") <= 10
    await store.close()
    assert max(sizes[14:]) <= 1.1 * max(sizes[:14])  # what is free is used again
    assert (tmp_path / "store.db").stat().st_size <= 5 * 60 * 2000
