"""Which implementations the contract suites run against."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.contract.backends import Backend, EtcdBackend, SqliteBackend
from tests.contract.etcd_server import EtcdServer, running_etcd
from weir.store.backend import Store

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def etcd_server() -> Iterator[EtcdServer]:
    with running_etcd() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "etcd"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    made: Backend
    if request.param == "memory":
        made = Backend()
    elif request.param == "sqlite":
        made = SqliteBackend(tmp_path / "store.db")
    else:
        server: EtcdServer = request.getfixturevalue("etcd_server")
        made = EtcdBackend(server.endpoint, f"/test{next(_NUMBERS)}")
    yield made
    await made.close()


@pytest.fixture
async def store(backend: Backend) -> Store:
    return await backend.open()
