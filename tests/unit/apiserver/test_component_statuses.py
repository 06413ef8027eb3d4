"""Claims about ComponentStatuses: where components are asked, and what is said of those that do not answer."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta

import pytest

from weir.apiserver import component_statuses
from weir.apiserver.component_statuses import COMPONENT_STATUS, ComponentStatuses
from weir.apiserver.printers import cells_of
from weir.certificates import issue, make_authority, subject_name
from weir.errors import BadRequest, NotFound


@pytest.fixture
def closed(monkeypatch):
    """Ports where nobody serves."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    monkeypatch.setattr(
        component_statuses, "PORTS", dict(zip(("scheduler", "controller-manager"), ports, strict=True))
    )
    return ports


async def test_who_is_away_is_unhealthy_in_the_words_of_go(closed):
    found = await ComponentStatuses().select(COMPONENT_STATUS, "", "")
    scheduler, _, store = found["items"]
    port = closed[0]
    refused = (
        f'Get "https://127.0.0.1:{port}/healthz": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )
    assert cells_of(COMPONENT_STATUS, scheduler, 0.0) == ["scheduler", "Unhealthy", refused, ""]
    assert cells_of(COMPONENT_STATUS, store, 0.0) == ["etcd-0", "Healthy", "ok", ""]


async def test_selectors_choose_and_unknown_names_are_not_found(closed):
    found = await ComponentStatuses().select(COMPONENT_STATUS, "", "metadata.name=etcd-0")
    assert [one["metadata"]["name"] for one in found["items"]] == ["etcd-0"]
    assert (await ComponentStatuses().select(COMPONENT_STATUS, "a=b", ""))["items"] == []
    with pytest.raises(BadRequest):
        await ComponentStatuses().select(COMPONENT_STATUS, "", "spec.x=y")
    with pytest.raises(NotFound, match='componentstatus "x" not found'):
        await ComponentStatuses().get("x")


async def test_who_is_well_says_so(closed, tmp_path, monkeypatch):
    now = datetime.now(UTC)
    authority = make_authority("a", now, timedelta(days=1))
    pair = issue(authority, subject_name("s"), now, timedelta(days=1), names=["127.0.0.1"])
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    monkeypatch.setitem(component_statuses.PORTS, "scheduler", server.sockets[0].getsockname()[1])
    found = await ComponentStatuses().get("scheduler")
    server.close()
    assert found["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]
