"""When the disk, the file or the engine fails: a clear error, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import aiohttp
import msgspec
import pytest

from tests.contract.certificates import certificates
from tests.contract.etcd_server import EtcdServer, running_etcd
from weir.store import KeyValue, Locked, Store, StoreUnavailable, TooLarge, Write
from weir.store.backend import NO_STAMP
from weir.store.etcd import EtcdStore
from weir.store.etcd_wire import EtcdOptions
from weir.store.journal import Journal
from weir.store.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
PAGE = b"x" * 3000


async def fill(store: Store, count: int = 2000) -> tuple[set[str], StoreUnavailable]:
    """Write until the store refuses; return the keys acknowledged and the refusal."""
    kept: set[str] = set()
    for n in range(count):
        try:
            [result] = await store.commit([Write(f"/{n:04}", PAGE, expect=0)])
            kept.add(result.check().key)
        except StoreUnavailable as error:
            return kept, error
    pytest.fail("the store never refused")


def keys(store: Store) -> set[str]:
    return {item.key for item in store.range("/").items}


async def reopened_keys(path: Path) -> set[str]:
    store = await SqliteStore.open(path)
    try:
        return keys(store)
    finally:
        await store.close()


# ------------------------------------------------------------------------------------------------ disk full


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here; the size-limit tests cover the same ground")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_full_disk_refuses_the_write_and_keeps_the_rest(tiny_disk: Path) -> None:
    store = await SqliteStore.open(tiny_disk / "store.db")
    kept, error = await fill(store)
    assert "no space left" in str(error) and not error.unknown
    assert keys(store) == kept
    await store.close()
    assert await reopened_keys(tiny_disk / "store.db") == kept


async def test_writes_go_on_when_the_disk_has_room_again(tiny_disk: Path) -> None:
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    store = await SqliteStore.open(tiny_disk / "store.db")
    kept, _ = await fill(store)
    ballast.unlink()
    [result] = await store.commit([Write("/again", PAGE)])
    assert result.check().revision == store.revision
    await store.close()
    assert await reopened_keys(tiny_disk / "store.db") == kept | {"/again"}


async def test_a_file_at_its_size_limit_refuses_the_write_and_keeps_the_rest(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db", max_pages=40)
    kept, error = await fill(store)
    assert "no space left" in str(error) and keys(store) == kept
    [result] = await store.commit([Write("/0000", None)])  # and deleting is still possible
    assert result.error is None
    await store.close()
    assert await reopened_keys(tmp_path / "store.db") == kept - {"/0000"}


async def test_everybody_in_a_refused_group_is_told(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db", max_pages=20)
    answers = await asyncio.gather(
        *(store.commit([Write(f"/{n}", PAGE)]) for n in range(200)), return_exceptions=True
    )
    assert all(isinstance(answer, StoreUnavailable) for answer in answers) and keys(store) == set()
    await store.close()


def child(body: str, path: Path, *, as_nobody: bool = False, file_bytes: int = 0) -> str:
    """Run *body* (an async function's, with `path` and `SqliteStore`) in a process of its own.

    It limits itself: a function called between fork and exec would meet gRPC's threads, which earlier tests started.
    """
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({file_bytes}, {file_bytes}))\n"
    drop = "import os\nif os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n" if as_nobody else ""
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    code = (
        "import asyncio, sys\nfrom weir.store import Write, StoreUnavailable\n"
        f"from weir.store.sqlite import SqliteStore\n{drop}{limit if file_bytes else ''}"
        f"async def main(path):\n{lines}\nasyncio.run(main(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_failing_write_stops_all_writes_until_the_store_is_opened_again(tmp_path: Path) -> None:
    body = """
store = await SqliteStore.open(path)
kept = 0
try:
    for n in range(1000):
        await store.commit([Write(f"/{n}", b"x" * 3000)])
        kept += 1
except StoreUnavailable as error:
    first = error
for word in (first.unknown, kept == store.count("/")):
    print(word)
try:
    await store.commit([Write("/small", b"")])
except StoreUnavailable as error:
    print("until the store is opened again" in str(error))
print(kept)
await store.close()
"""
    *words, kept = child(body, tmp_path / "store.db", file_bytes=300_000).split()
    assert words == ["True", "True", "True"]
    found = await reopened_keys(tmp_path / "store.db")
    assert {f"/{n}" for n in range(int(kept))} <= found <= {f"/{n}" for n in range(int(kept) + 1)}


async def test_writes_go_on_once_the_file_can_be_written_again(tmp_path: Path) -> None:
    """The operating system refuses writes to the open file, and later takes them again."""
    body = """
import resource
store = await SqliteStore.open(path)
await store.commit([Write("/before", b"x" * 3000)])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
errors = []
for n in range(3):
    try:
        await store.commit([Write(f"/refused-{n}", b"x" * 3000)])
    except StoreUnavailable as error:
        errors.append(error)
    await asyncio.sleep(0.7)
print(len(errors), errors[0].unknown, errors[-1].unknown, "which is tried every second" in str(errors[-1]))
print([item.key for item in store.range("/").items], store.revision)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
await asyncio.sleep(1.1)
await store.commit([Write("/after", b"x" * 3000)])
print([item.key for item in store.range("/").items], store.revision)
await store.close()
"""
    lines = child(body, tmp_path / "store.db").splitlines()
    assert lines == ["3 True False True", "['/before'] 2", "['/after', '/before'] 3"]
    assert await reopened_keys(tmp_path / "store.db") == {"/before", "/after"}


class Failing:
    """A connection whose writes fail as SQLite reports a disk that fails, before or after they happened."""

    def __init__(self, db: sqlite3.Connection, code: str, *, after: bool) -> None:
        self._db, self._code, self._after = db, code, after

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> sqlite3.Cursor:
        writes = sql.lstrip().startswith(("INSERT", "UPDATE", "DELETE"))
        cursor = self._db.execute(sql, parameters) if self._after or not writes else None
        if writes:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = self._code
            raise error
        assert cursor is not None
        return cursor

    def close(self) -> None:
        self._db.close()


@pytest.mark.parametrize("happened", [False, True])
@pytest.mark.parametrize("code", ["SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR"])
async def test_after_a_failed_sync_a_write_is_there_or_not_and_nothing_else_is_lost(
    tmp_path: Path, code: str, happened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.store.sqlite._REOPEN_SECONDS", 0.0)
    store = await SqliteStore.open(tmp_path / "store.db")
    await store.commit([Write("/before", PAGE)])
    seen: list[str] = []
    store.watch("/", store.revision, lambda events: seen.extend(event.key for event in events))
    store._journal._db = Failing(store._journal._db, code, after=happened)  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable) as refusal:
        await store.commit([Write("/doubtful", PAGE)])
    assert refusal.value.unknown and keys(store) == {"/before"}
    await store.commit([Write("/after", PAGE)])
    wanted = {"/before", "/after"} | ({"/doubtful"} if happened else set())
    assert keys(store) == wanted
    async with asyncio.timeout(60):
        while len(seen) < len(wanted) - 1:
            await asyncio.sleep(0)
    assert seen == (["/doubtful", "/after"] if happened else ["/after"])
    await store.close()
    assert await reopened_keys(tmp_path / "store.db") == wanted


async def test_a_write_is_synced_before_it_is_acknowledged(tmp_path: Path) -> None:
    """What a power cut takes cannot be tried here; that SQLite syncs its log with every transaction is its FULL."""
    store = await SqliteStore.open(tmp_path / "store.db")
    assert store._journal._db.execute("PRAGMA synchronous").fetchone() == (2,)
    store._journal.reopen()
    assert store._journal._db.execute("PRAGMA synchronous").fetchone() == (2,)
    await store.close()


async def test_a_store_that_vanished_is_not_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.store.sqlite._REOPEN_SECONDS", 0.0)
    store = await SqliteStore.open(tmp_path / "store.db")
    await store.commit([Write("/before", PAGE)])
    store._journal._db = Failing(store._journal._db, "SQLITE_IOERR", after=False)  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable):
        await store.commit([Write("/lost", PAGE)])
    away = [path.rename(tmp_path / f"away-{path.name}") for path in list(tmp_path.glob("store.db*"))]
    with pytest.raises(StoreUnavailable, match="it is not there"):
        await store.commit([Write("/lost", PAGE)])
    assert not (tmp_path / "store.db").exists() and keys(store) == {"/before"}
    for path in away:
        path.rename(tmp_path / path.name.removeprefix("away-"))
    await store.commit([Write("/after", PAGE)])
    await store.close()
    assert await reopened_keys(tmp_path / "store.db") == {"/before", "/after"}


async def test_a_read_only_file_refuses_writes_until_it_is_writable_again(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    await store.commit([Write("/before", PAGE)])
    store._journal._db.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreUnavailable, match="read-only") as refusal:
        await store.commit([Write("/refused", PAGE)])
    assert not refusal.value.unknown and keys(store) == {"/before"}
    store._journal._db.execute("PRAGMA query_only = OFF")
    await store.commit([Write("/after", PAGE)])
    await store.close()
    assert await reopened_keys(tmp_path / "store.db") == {"/before", "/after"}


# ---------------------------------------------------------------------------------------- read-only, locked

OPEN = """
try:
    await SqliteStore.open(path)
    print("opened")
except StoreUnavailable as error:
    print(error)
"""


@pytest.fixture
def open_to_nobody() -> Iterator[Path]:
    """A directory that a process without privileges can reach but not write to."""
    with tempfile.TemporaryDirectory() as name:
        inner = Path(name) / "data"
        inner.mkdir(mode=0o555)
        Path(name).chmod(0o755)
        yield inner
        inner.chmod(0o755)


def test_a_read_only_directory_is_named_in_the_error(open_to_nobody: Path) -> None:
    said = child(OPEN, open_to_nobody / "store.db", as_nobody=True)
    assert str(open_to_nobody) in said and "ermission denied" in said


async def test_a_read_only_store_is_refused_and_left_alone(open_to_nobody: Path) -> None:
    path = open_to_nobody / "store.db"
    open_to_nobody.chmod(0o755)
    store = await SqliteStore.open(path)
    await store.commit([Write("/a", b"x")])
    await store.close()
    for name in (path, path.with_name("store.db.lock")):
        name.chmod(0o444)
    open_to_nobody.chmod(0o555)
    before = path.read_bytes()
    said = child(OPEN, path, as_nobody=True)
    assert "opened" not in said and str(path) in said and path.read_bytes() == before


def test_a_directory_that_cannot_be_made_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"cannot make the directory .*/file: File exists"):
        asyncio.run(SqliteStore.open(tmp_path / "file" / "store.db"))


async def test_a_second_opener_is_told_who_has_the_data(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    said = child(OPEN, tmp_path / "store.db")
    assert f"store.db is in use by process {os.getpid()} " in said
    with pytest.raises(Locked):
        await SqliteStore.open(tmp_path / "store.db")
    await store.commit([Write("/a", b"x")])  # the first is not disturbed
    await store.close()
    assert await reopened_keys(tmp_path / "store.db") == {"/a"}


async def test_a_database_locked_by_another_program_refuses_writes_until_it_is_free(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another program has it locked"):
        await store.commit([Write("/a", b"x")])
    other.execute("ROLLBACK")
    [result] = await store.commit([Write("/a", b"x", expect=0)])
    assert result.error is None
    other.close()
    await store.close()


def test_the_data_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    async def write() -> None:
        store = await SqliteStore.open(tmp_path / "store.db")
        await store.commit([Write("/secret", b"x")])
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
        assert set(modes.values()) == {"0o600"}, modes
        await store.close()

    asyncio.run(write())


# -------------------------------------------------------------------------------------------------- damage


async def stored(path: Path) -> bytes:
    store = await SqliteStore.open(path)
    await store.commit([Write(f"/{n}", b"value-%04d" % n + PAGE) for n in range(50)])
    await store.close()
    return path.read_bytes()


def damage_a_value(data: bytes) -> bytes:
    at = data.index(b"value-0025")
    return data[: at + 6] + b"9" + data[at + 7 :]


DAMAGES = {
    "not a database": lambda data: b"these are not the bytes you are looking for" * 100,
    "header": lambda data: b"\xff" * 100 + data[100:],
    "tree": lambda data: data[:4096] + b"\xff" * 4096 + data[8192:],
    "cut short": lambda data: data[: len(data) // 2 // 4096 * 4096],
    "one digit of one value": damage_a_value,
}


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path: Path, how: str) -> None:
    path = tmp_path / "store.db"
    broken = DAMAGES[how](await stored(path))
    path.write_bytes(broken)
    with pytest.raises(StoreUnavailable, match=r"store\.db.* damaged"):
        await SqliteStore.open(path)
    assert path.read_bytes() == broken


async def written(path: Path) -> tuple[bytes, list[object]]:
    """Write stamped, expiring, replaced and deleted keys; return the file they are in, and what a reader sees."""
    store = await SqliteStore.open(path, time=lambda: 1e9)
    for n in range(60):
        value, ttl = b"value-%04d;" % n * (1 + n % 7 * 30), 3600 if n % 5 == 4 else 0
        await store.commit([Write(f"/{n:03}", value, stamp=5 if n % 2 else NO_STAMP, ttl_seconds=ttl)])
    await store.compact(40)
    await store.commit([Write(f"/{n:03}", None if n % 6 else b"again" * 40) for n in range(0, 60, 3)])
    contents = read(store)
    await store.close()
    return path.read_bytes(), contents


def read(store: Store) -> list[object]:
    return [*store.range("/").items, store.revision]


async def opened_with(path: Path, files: dict[str, bytes]) -> list[object] | None:
    """Return what a store of these files shows; None when it is refused in one line."""
    for old in path.parent.glob("store.db*"):
        old.unlink()
    for name, data in files.items():
        path.with_name(name).write_bytes(data)
    try:
        store = await SqliteStore.open(path, time=lambda: 1e9)
    except StoreUnavailable as error:
        assert str(path) in str(error) and "\n" not in str(error)
        return None
    try:
        return read(store)
    finally:
        await store.close()


async def test_no_damaged_page_is_served(tmp_path: Path) -> None:
    """Pages of zeros, pages in another's place, and single bits: refused, or what was stored."""
    path = tmp_path / "store.db"
    data, contents = await written(path)
    pages, random = len(data) // 4096, Random(7)
    changes = [(page * 4096, bytes(4096)) for page in range(pages)]
    changes += [(data.index(name), b"x") for name in (b"tablelog", b"tablemeta", b"loglog", b"metameta")]
    changes += [(page * 4096, data[(page + 1) * 4096 :][:4096]) for page in range(pages - 1)]
    for _ in range(600):
        at = random.randrange(len(data))
        changes.append((at, bytes([data[at] ^ 1 << random.randrange(8)])))
    answers = [
        await opened_with(path, {"store.db": data[:at] + new + data[at + len(new) :]})
        for at, new in changes
        if data[at : at + len(new)] != new
    ]
    assert answers.count(None) > len(answers) // 2
    for answer in filter(None, answers):
        assert [bare(item) for item in answer] == [bare(item) for item in contents]


def bare(item: object) -> object:
    """Return *item* without the time it expires, which has no checksum, where it has one."""
    if isinstance(item, KeyValue) and item.expires:
        return msgspec.structs.replace(item, expires=1e9)
    return item


class Log(NamedTuple):
    """A database whose last changes are in its write-ahead log only, as a killed process leaves it."""

    files: dict[str, bytes]
    states: list[object]  #: what it held after each change
    ends: list[int]  #: bytes of the log after each change


@pytest.fixture
async def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    path = tmp_path / "run" / "store.db"
    store = await SqliteStore.open(path)
    await store.commit([Write("/first", b"x")])
    await store.close()
    monkeypatch.setattr(Journal, "checkpoint", lambda journal: None)  # all that follows stays in the log
    store = await SqliteStore.open(path)
    states, ends = [read(store)], [0]
    for n in range(12):
        await store.commit([Write(f"/{n:02}", b"%d" % n * 5000)])
        states.append(read(store))
        ends.append(path.with_name("store.db-wal").stat().st_size)
    files = {name.name: name.read_bytes() for name in path.parent.glob("store.db*") if name.suffix != ".lock"}
    await store.close()
    return Log(files, states, ends)


def flipped(data: bytes, at: int, bit: int = 3) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


async def test_a_log_that_ends_early_shows_an_earlier_state_and_no_other(tmp_path: Path, log: Log) -> None:
    """A power cut: the index is lost, and the last transaction is there in part."""
    path, whole = tmp_path / "store.db", log.files["store.db-wal"]
    only = {"store.db": log.files["store.db"]}
    assert await opened_with(path, {**only, "store.db-wal": whole}) == log.states[-1]
    for part in range(20):
        answer = await opened_with(path, {**only, "store.db-wal": whole[: len(whole) * part // 20]})
        assert answer in log.states
    for lost in range(log.ends[-2], log.ends[-1], 4096 + 24):  # one page of it did not reach the disk
        torn = whole[:lost] + bytes(24 + 4096) + whole[lost + 24 + 4096 :]
        assert await opened_with(path, {**only, "store.db-wal": torn}) == log.states[-2]


async def test_damage_in_the_middle_of_the_log_is_refused_and_left_as_it_is(tmp_path: Path, log: Log) -> None:
    """Flipped bits and lost pages with acknowledged changes behind them, wherever they are."""
    path, whole, random = tmp_path / "store.db", log.files["store.db-wal"], Random(7)
    only, last = {"store.db": log.files["store.db"]}, log.ends[-3]
    places = [*range(32), *range(32, 56), *random.sample(range(56, last), 60)]
    damaged = [flipped(whole, at, random.randrange(8)) for at in places]
    damaged += [whole[:at] + bytes(4120) + whole[at + 4120 :] for at in range(32, last, 3 * 4120)]
    accepted = 0
    for broken in damaged:
        answer = await opened_with(path, {**only, "store.db-wal": broken})
        if answer is None:
            assert path.with_name("store.db-wal").read_bytes() == broken
        else:  # a bit that SQLite does not read
            accepted += 1
            assert answer == log.states[-1]
    assert accepted < 24


async def test_the_refusal_says_how_to_go_on_without_what_is_behind_the_damage(
    tmp_path: Path, log: Log
) -> None:
    path, whole = tmp_path / "store.db", log.files["store.db-wal"]
    path.write_bytes(log.files["store.db"])
    path.with_name("store.db-wal").write_bytes(flipped(whole, log.ends[5] + 200))
    with pytest.raises(StoreUnavailable, match="committed changes lie behind it") as refusal:
        await SqliteStore.open(path)
    command = re.search("`(.*)`", str(refusal.value))
    assert command is not None
    subprocess.run(command[1], shell=True, check=True)
    store = await SqliteStore.open(path, time=lambda: 1e9)
    assert read(store) == log.states[5]
    await store.close()


async def test_damage_of_the_last_change_is_refused_while_the_index_tells_of_it(
    tmp_path: Path, log: Log
) -> None:
    """A killed process leaves the index, which says how much was committed."""
    path, whole = tmp_path / "store.db", log.files["store.db-wal"]
    for at in range(log.ends[-2], log.ends[-1], 1000):
        assert await opened_with(path, {**log.files, "store.db-wal": flipped(whole, at)}) is None
    assert await opened_with(path, log.files) == log.states[-1]


async def test_a_file_of_a_later_format_is_refused(tmp_path: Path) -> None:
    await stored(tmp_path / "store.db")
    with sqlite3.connect(tmp_path / "store.db") as db:
        db.execute("UPDATE meta SET number = 99 WHERE name = 'format'")
    db.close()
    with pytest.raises(StoreUnavailable, match="has format 99, this version reads format 1"):
        await SqliteStore.open(tmp_path / "store.db")


async def test_a_failed_opening_does_not_keep_the_lock(tmp_path: Path) -> None:
    good = await stored(tmp_path / "store.db")
    (tmp_path / "store.db").write_bytes(b"nonsense" * 1000)
    with pytest.raises(StoreUnavailable):
        await SqliteStore.open(tmp_path / "store.db")
    (tmp_path / "store.db").write_bytes(good)
    assert len(await reopened_keys(tmp_path / "store.db")) == 50


# ---------------------------------------------------------------------------------------------------- etcd


async def test_an_etcd_that_is_not_there_is_a_clear_error() -> None:
    with pytest.raises(StoreUnavailable, match="etcd: "):
        await EtcdStore.open("127.0.0.1:1")


async def test_a_second_endpoint_is_used_when_the_first_is_away(etcd_server: EtcdServer) -> None:
    options = EtcdOptions(endpoints=("127.0.0.1:1", etcd_server.endpoint))
    store = await EtcdStore.open(options, prefix="/second")
    assert (await store.commit([Write("/a", b"x")]))[0].error is None
    await store.close()


async def test_a_value_etcd_will_not_take_fails_only_its_own_writer(etcd_server: EtcdServer) -> None:
    store = await EtcdStore.open(etcd_server.endpoint, prefix="/large")
    large, small = await asyncio.gather(
        store.commit([Write("/large", bytes(2_000_000))]),
        store.commit([Write("/small", b"x")]),
        return_exceptions=True,
    )
    assert isinstance(large, TooLarge) and "too large" in str(large)
    assert not isinstance(small, BaseException) and keys(store) == {"/small"}
    await store.close()


async def test_a_full_etcd_refuses_the_write_and_keeps_the_rest() -> None:
    with running_etcd(["--quota-backend-bytes", "200000"]) as server:
        store = await EtcdStore.open(server.endpoint)
        kept, error = await fill(store)
        assert "database space exceeded" in str(error) and error.unknown
        # nothing acknowledged is lost; the write that crossed the quota may be there although it was refused
        assert kept <= keys(store) and len(keys(store) - kept) <= 1
        await store.close()


async def test_a_store_that_was_cut_off_past_a_compaction_tells_its_watchers() -> None:
    with running_etcd() as server:
        cut_off, other = await EtcdStore.open(server.endpoint), await EtcdStore.open(server.endpoint)
        ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        cut_off.watch("/", cut_off.revision, lambda events: None, ended.set_result)
        assert cut_off._follower is not None
        cut_off._follower.cancel()
        await asyncio.wait([cut_off._follower])
        for n in range(5):
            await other.commit([Write("/a", b"%d" % n)])
        await other.compact(other.revision)
        cut_off._follower = asyncio.create_task(cut_off._follow())
        assert "compacted" in str(await asyncio.wait_for(ended, 60))
        await cut_off.fresh()
        assert [item.value for item in cut_off.range("/").items] == [b"4"]
        await cut_off.close()
        await other.close()


async def test_etcd_lets_in_who_knows_the_password() -> None:
    with running_etcd() as server:
        async with aiohttp.ClientSession(f"http://{server.endpoint}") as admin:
            for path, body in (
                ("user/add", {"name": "root", "password": "secret"}),
                ("user/grant", {"user": "root", "role": "root"}),
                ("enable", {}),
            ):
                async with admin.post(f"/v3/auth/{path}", json=body) as answer:
                    assert answer.status == 200, await answer.text()
        options = EtcdOptions(endpoints=(server.endpoint,), username="root", password="secret")
        store = await EtcdStore.open(options)
        await store.commit([Write("/a", b"x")])
        store._etcd._token = "no-such-token.1"  # as when the token has run out
        await store.commit([Write("/b", b"x")])
        assert keys(store) == {"/a", "/b"}
        await store.close()
        with pytest.raises(StoreUnavailable, match="authentication failed"):
            await EtcdStore.open(EtcdOptions(endpoints=(server.endpoint,), username="root", password="guess"))
        with pytest.raises(StoreUnavailable, match="etcd: "):
            await EtcdStore.open(server.endpoint)


async def test_etcd_over_tls_with_client_certificates(tmp_path: Path) -> None:
    pem = certificates(tmp_path)
    arguments = ["--cert-file", str(pem["both"]), "--key-file", str(pem["both-key"])]
    arguments += ["--client-cert-auth", "--trusted-ca-file", str(pem["ca"])]
    with running_etcd(arguments, scheme="https") as server:
        endpoints = (f"https://{server.endpoint}",)
        store = await EtcdStore.open(
            EtcdOptions(endpoints, ca_file=pem["ca"], cert_file=pem["both"], key_file=pem["both-key"])
        )
        await store.commit([Write("/a", b"x")])
        assert keys(store) == {"/a"}
        await store.close()
        with pytest.raises(StoreUnavailable):  # without the client's certificate
            await EtcdStore.open(EtcdOptions(endpoints, ca_file=pem["ca"]))


async def test_a_certificate_file_that_is_not_there_is_named() -> None:
    with pytest.raises(StoreUnavailable, match=r"cannot read /no/such\.pem"):
        await EtcdStore.open(EtcdOptions(ca_file=Path("/no/such.pem")))
