"""A running API server whose disk fails: writes are refused with the reason, reads go on, and it recovers by itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.contract.test_store_failures import Failing
from tests.integration.paced_stories import PacedClock
from tests.integration.test_backup import CONFIG_MAPS, Door, named
from weir import errors
from weir.apiserver.transport.http import Request
from weir.client.api import Client
from weir.client.local import LocalTransport
from weir.store.sqlite import SqliteStore


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here; the failing connections cover the same ground")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


async def names(client: Client) -> set[str]:
    found = await client.list(CONFIG_MAPS, "default")
    return {msgspec.json.decode(each)["metadata"]["name"] for each in found.items} - {"kube-root-ca.crt"}


async def refusal(client: Client, name: str, **data: str) -> errors.ApiError:
    try:
        await client.create(CONFIG_MAPS, named(name, **data))
    except errors.ApiError as error:
        return error
    pytest.fail("the write was not refused")


async def started(folder: Path) -> tuple[Door, Client, SqliteStore]:
    door = Door()
    await door.start(folder)
    client = Client(LocalTransport(door.handle, Request), clock=PacedClock(100))
    store = door.running.store
    assert isinstance(store, SqliteStore)
    return door, client, store


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("SQLITE_READONLY", 503, "it is read-only"),
        ("SQLITE_FULL", 503, "no space left"),
        ("SQLITE_IOERR_WRITE", 504, "SQLITE_IOERR_WRITE"),
        ("SQLITE_IOERR_FSYNC", 504, "SQLITE_IOERR_FSYNC"),
    ],
)
async def test_writes_are_refused_with_the_reason_and_reads_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, status: int, words: str
) -> None:
    monkeypatch.setattr("weir.store.sqlite._REOPEN_SECONDS", 0.0)
    door, client, store = await started(tmp_path)
    try:
        await client.create(CONFIG_MAPS, named("before"))
        whole = store._journal._db
        store._journal._db = Failing(whole, code, after=False)  # type: ignore[assignment]
        error = await refusal(client, "refused")
        assert (error.code, words in str(error), "cannot write to the store" in str(error)) == (
            status,
            True,
            True,
        )
        assert await names(client) == {"before"}
        if store._broken is None:
            store._journal._db = whole  # it is writable again; what was broken is opened anew
        await client.create(CONFIG_MAPS, named("after"))
        assert await names(client) == {"before", "after"}
    finally:
        await door.running.stop()


async def test_a_disk_that_fills_up_refuses_writes_until_there_is_room(disk: Path) -> None:
    door, client, _ = await started(disk)
    try:
        await client.create(CONFIG_MAPS, named("before"))
        ballast = disk / "ballast"
        with pytest.raises(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 20)):
                pass
        for number in range(50):
            try:
                await client.create(CONFIG_MAPS, named(f"filling-{number}", data="x" * 100_000))
            except errors.ApiError as error:
                assert error.code == 503 and "no space left" in str(error)
                break
        else:
            pytest.fail("the disk never filled up")
        held = await names(client)
        assert "before" in held and (await client.get(CONFIG_MAPS, "before", "default"))["metadata"]["uid"]
        ballast.unlink()
        await client.create(CONFIG_MAPS, named("after"))
        assert await names(client) == held | {"after"}
    finally:
        await door.running.stop()
