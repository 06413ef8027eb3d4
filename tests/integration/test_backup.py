"""A cluster's state is put back while clients watch: they are told that the past is gone, and see what is there.

What docs/howto/back-up-and-restore.md says of etcd's snapshots is run here.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.conftest import NOT_OURS
from tests.contract.etcd_server import running_etcd
from weir.apiserver.build import Running, build
from weir.apiserver.options import Options, open_store
from weir.apiserver.transport.http import Request
from weir.cli.main import weir
from weir.client.api import Client
from weir.client.cache import Informer
from weir.client.local import LocalTransport
from weir.clock import RealClock
from weir.objects.kinds import by_kind

CONFIG_MAPS = by_kind("v1", "ConfigMap")
SEEN = {"kept": "first", "new": "after"}  #: what a watch shows in the end, beside what was there at first


class Door:
    """Where clients ask; behind it one server after another."""

    running: Running

    async def start(self, folder: Path, store: str = "sqlite") -> None:
        clock, options = RealClock(), Options(folder, store=store, insecure=True)
        self.running = await build(options, await open_store(options, clock), clock)

    async def handle(self, request: Request):
        request.headers = {**request.headers, b"authorization": f"Bearer {self.running.admin_token}".encode()}
        return await self.running.server.handle(request)


def named(name: str, **data: str) -> dict:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def test_clients_that_watch_see_what_was_restored(tmp_path):
    where = ("--data-dir", str(tmp_path))

    def put_back() -> None:
        _weir("restore", str(tmp_path / "copy"), *where, "--yes")

    assert await watch_a_restore(tmp_path, "sqlite", where, put_back) == SEEN


async def test_clients_that_watch_see_what_was_restored_from_etcd(tmp_path):
    if shutil.which("etcdutl") is None:
        pytest.skip(f"etcdutl is {NOT_OURS}: restoring a snapshot of etcd is not tested without it")
    with running_etcd() as etcd:
        store = f"etcd={etcd.endpoint}"

        def put_back() -> None:
            member = tmp_path / "member"
            _weir("restore", str(tmp_path / "copy"), "--etcd-data-dir", str(member), "--", *etcd.membership)
            etcd.kill()
            etcd.move_to(member)
            etcd.start()

        assert await watch_a_restore(tmp_path, store, ("--store", store), put_back) == SEEN


async def watch_a_restore(
    folder: Path, store: str, where: tuple[str, ...], put_back: Callable[[], None]
) -> dict[str, str]:
    tmp_path, door = folder, Door()
    await door.start(tmp_path, store)
    client = Client(LocalTransport(door.handle, Request), clock=RealClock())
    informer = Informer(client, CONFIG_MAPS, RealClock(), msgspec.json.decode)
    watching = asyncio.create_task(informer.run())

    async def until(expected: dict[str, str]) -> None:
        async with asyncio.timeout(30):
            while shown() != expected:
                await asyncio.sleep(0)

    def shown() -> dict[str, str]:
        found = (each for each in informer.cache if each["metadata"]["namespace"] == "default")
        return {each["metadata"]["name"]: (each.get("data") or {}).get("word", "") for each in found}

    try:
        async with asyncio.timeout(30):
            await informer.cache.wait_synced()
        before = shown()
        await client.create(CONFIG_MAPS, named("kept", word="first"))
        await until({**before, "kept": "first"})
        done = await asyncio.to_thread(_weir, "backup", str(tmp_path / "copy"), *where)
        assert "objects at revision" in done or "a snapshot of etcd" in done
        await client.create(CONFIG_MAPS, named("lost", word="later"))
        await until({**before, "kept": "first", "lost": "later"})
        await door.running.stop()
        await asyncio.to_thread(put_back)
        await door.start(tmp_path, store)
        await until({**before, "kept": "first"})
        await client.create(CONFIG_MAPS, named("new", word="after"))
        await until({**before, **SEEN})
        return {name: word for name, word in shown().items() if name not in before}
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await door.running.stop()


def _weir(*words: str) -> str:
    done = CliRunner().invoke(weir, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def etcd():
    with running_etcd() as server:
        yield server


async def test_a_snapshot_of_etcd_is_etcds_own_file(etcd, tmp_path):
    from weir.store import Write
    from weir.store.etcd import EtcdStore

    store = await EtcdStore.open(etcd.endpoint)
    await store.commit([Write("/registry/a", b"some words in it")])
    await store.close()
    target = tmp_path / "snapshot"
    said = await asyncio.to_thread(_weir, "backup", str(target), "--store", f"etcd={etcd.endpoint}")
    raw = target.read_bytes()
    assert f"{len(raw)} bytes" in said and b"some words in it" in raw
    assert len(raw) % 512 == 32  # pages, and the SHA-256 of them
    assert hashlib.sha256(raw[:-32]).digest() == raw[-32:]
