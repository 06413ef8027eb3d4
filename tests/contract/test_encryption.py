"""What the stores promise of encryption at rest: no plain secret on the disk, rotation, clear words without the key."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
import yaml

from tests.contract.etcd_server import EtcdServer
from weir.apiserver.compat.encryption.configuration import AtRest, ConfigurationError
from weir.store import Store, StoreUnavailable, Write
from weir.store.backend import Unreadable
from weir.store.sqlite import SqliteStore

KEY = "/registry/secrets/default/s"
SECRET = b"correct horse battery staple"
HEAD = b'{"metadata":{"resourceVersion":"'
VALUE = HEAD + b'"},"data":"' + SECRET + b'"}'
PLAIN = {"identity": {}}


def aes(name: str, provider: str = "aesgcm") -> dict:
    secret = base64.b64encode(name.encode().ljust(32, b"."))
    return {provider: {"keys": [{"name": name, "secret": secret.decode()}]}}


class Place:
    """Where a store's data lie; every store opened here is closed at the end."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "encryption.yaml"
        self.db = folder / "store.db"
        self._opened: list[Store] = []

    def configure(self, *providers: dict) -> AtRest:
        rules = [{"resources": ["secrets"], "providers": list(providers)}]
        document = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": rules,
        }
        self.config.write_text(yaml.safe_dump(document))
        return AtRest(self.config)

    async def open(self, at_rest: AtRest) -> Store:
        store = await self._open(at_rest)
        self._opened.append(store)
        return store

    async def _open(self, at_rest: AtRest) -> Store:
        return await SqliteStore.open(self.db, transformer=at_rest, keep_seconds=300)

    async def raw(self) -> bytes:
        """Return everything that lies on the disk."""
        return b"".join(path.read_bytes() for path in sorted(self.db.parent.glob("store.db*")))

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


class EtcdPlace(Place):
    def __init__(self, folder: Path, endpoint: str) -> None:
        super().__init__(folder)
        self.endpoint, self.prefix = endpoint, f"/sealed{folder.name}"

    async def _open(self, at_rest: AtRest) -> Store:
        from weir.store.etcd import EtcdStore

        return await EtcdStore.open(self.endpoint, prefix=self.prefix, transformer=at_rest)

    async def raw(self) -> bytes:
        from weir.store.etcd_wire import EtcdConnection, EtcdOptions

        connection = EtcdConnection(EtcdOptions([self.endpoint]))
        try:
            first = self.prefix.encode()
            return b"".join(
                [kv.value for kv in (await connection.range(key=first, range_end=first + b"\xff")).kvs]
            )
        finally:
            await connection.close()


@pytest.fixture(params=["sqlite", "etcd"])
async def place(request: pytest.FixtureRequest, tmp_path: Path):
    if request.param == "sqlite":
        made = Place(tmp_path)
    else:
        server: EtcdServer = request.getfixturevalue("etcd_server")
        made = EtcdPlace(tmp_path, server.endpoint)
    yield made
    await made.close()


async def put(store: Store, key: str = KEY, value: bytes = VALUE) -> None:
    [result] = await store.commit([Write(key, value, stamp=len(HEAD))])
    result.check()


def read(store: Store, key: str = KEY) -> bytes:
    found = store.get(key)
    assert found is not None and b'"resourceVersion":"%d"' % found.mod_revision in found.value
    return found.value


@pytest.mark.parametrize("provider", ["aescbc", "aesgcm"])
async def test_no_plain_secret_lies_on_the_disk_and_it_comes_back(place, provider):
    store = await place.open(place.configure(aes("one", provider)))
    await put(store)
    await put(store, "/registry/configmaps/default/open", HEAD + b'"},"data":"public words"}')
    for number in range(100):  # a group of another size is written by another statement
        await put(store, f"/registry/secrets/default/s{number}")
    assert SECRET in read(store)
    raw = await place.raw()
    assert SECRET not in raw and f"k8s:enc:{provider}:v1:one:".encode() in raw and b"public words" in raw
    await store.close()
    assert SECRET not in await place.raw()
    again = await place.open(place.configure(aes("one", provider)))
    assert SECRET in read(again) and SECRET in read(again, "/registry/secrets/default/s99")


async def test_many_writes_at_once_are_all_encrypted(place):
    store = await place.open(place.configure(aes("one")))
    writes = [Write(f"{KEY}{number}", VALUE, stamp=len(HEAD)) for number in range(200)]
    for result in await store.commit(writes):
        result.check()
    assert SECRET not in await place.raw()
    await store.close()
    again = await place.open(place.configure(aes("one")))
    assert all(SECRET in read(again, f"{KEY}{number}") for number in range(200))


async def test_keys_are_rotated_by_writing_again(place):
    store = await place.open(place.configure(PLAIN))
    await put(store)
    assert not await store.stale(KEY)
    await store.close()
    store = await place.open(place.configure(aes("one"), PLAIN))
    assert SECRET in read(store) and await store.stale(KEY)
    await put(store)
    assert not await store.stale(KEY) and not await store.stale("/registry/secrets/default/none")
    await store.close()
    store = await place.open(place.configure(aes("two", "aescbc"), aes("one"), PLAIN))
    assert SECRET in read(store) and await store.stale(KEY)
    await put(store)
    await store.compact(store.revision)
    async with asyncio.timeout(60):
        while SECRET in await place.raw():  # the log beside the file, too, while the store is open
            await asyncio.sleep(0.01)
    await store.close()
    store = await place.open(place.configure(aes("two", "aescbc")))
    assert SECRET in read(store)
    assert SECRET not in await place.raw()


async def test_a_changed_configuration_is_used_without_opening_the_store_again(place):
    at_rest = place.configure(aes("one"))
    store = await place.open(at_rest)
    await put(store)
    place.configure(aes("two"), aes("one"))
    assert at_rest.reload() and await store.stale(KEY)
    await put(store)
    assert not await store.stale(KEY) and b"k8s:enc:aesgcm:v1:two:" in await place.raw()
    place.config.write_text("nonsense")
    assert not at_rest.reload()
    await put(store)
    assert SECRET in read(store)
    with pytest.raises(ConfigurationError):
        AtRest(place.config)


@pytest.mark.parametrize("keys", [[aes("two")], [PLAIN]])
async def test_without_the_key_the_store_says_which_value_it_cannot_read(place, keys):
    store = await place.open(place.configure(aes("one")))
    await put(store)
    await store.close()
    with pytest.raises(StoreUnavailable, match=f"{KEY} cannot be decrypted: .*--encryption-provider-config"):
        await place.open(place.configure(*keys))
    with pytest.raises(Unreadable, match=r"identity transformer tried|no matching prefix"):
        await place.open(AtRest())


async def test_a_server_that_lacks_another_ones_key_refuses_until_it_has_it(tmp_path, etcd_server):
    place, behind = EtcdPlace(tmp_path, etcd_server.endpoint), EtcdPlace(tmp_path, etcd_server.endpoint)
    behind.config = tmp_path / "behind.yaml"
    try:
        theirs = behind.configure(aes("one"))
        store, other = await place.open(place.configure(aes("two"), aes("one"))), await behind.open(theirs)
        await put(store)
        with pytest.raises(Unreadable):
            await asyncio.wait_for(other.fresh(), 60)
        behind.configure(aes("one"), aes("two"))
        assert theirs.reload()
        await asyncio.wait_for(other.until(store.revision), 60)
        assert SECRET in read(other) and await asyncio.wait_for(other.fresh(), 60) >= store.revision
    finally:
        await place.close()
        await behind.close()
