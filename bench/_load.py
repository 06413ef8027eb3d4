"""Load on a control plane: processes of their own, prepared requests, and a watch that sees pods bound.

The generator shares two cores with what is measured, so it is as cheap as it can be: raw sockets, requests prepared
beforehand, one after another on each connection.
Not here: which pods and nodes, and what is claimed of them (the benches).
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from weir.client.api import Client
from weir.client.http import connect
from weir.objects.kinds import by_kind
from weir.objects.manifest import read_values

CONNECTIONS = 32
GATES = "--feature-gates=AllAlpha=false,TaintTolerationComparisonOperators=true"
_POD = by_kind("v1", "Pod")


# ── processes ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def started(folder: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of weir while the block lasts; one that has ended by then fails with what it said."""
    said = folder / f"{command[0]}.log"
    with said.open("w") as log:
        process = subprocess.Popen([sys.executable, "-m", "weir.cli.main", *command], stdout=log, stderr=log)
    try:
        yield process
        assert process.poll() is None, said.read_text()
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def api_server(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run an API server on a free port, ready; its kubeconfig lies in *folder*."""
    said = folder / "apiserver.log"
    command = ("apiserver", "--data-dir", str(folder), "--secure-port", "0", GATES, *options)
    with started(folder, *command) as process:
        while "is ready at" not in said.read_text():
            assert process.poll() is None, said.read_text()
            time.sleep(0.05)
        yield process


def cpu_seconds(pid: int) -> float:
    """Return the processor time a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int, field: str = "VmRSS") -> float:
    """Return the memory a process holds, or with VmHWM the most it ever held."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


class _Connection(asyncio.Protocol):
    """One connection that sends its requests one after another."""

    def __init__(self, requests: list[bytes], done: asyncio.Future[int]) -> None:
        self._requests, self._done = iter(requests), done
        self._count = 0
        self._need = -1
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is None:
            if not self._done.done():
                self._done.set_result(self._count)
            return
        self._transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._need < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            if not self._buffer.startswith(b"HTTP/1.1 201"):
                self._done.set_exception(RuntimeError(self._buffer[:600].decode(errors="replace")))
                return
            at = self._buffer.rfind(b"Content-Length: ", 0, end)
            self._need = end + 4 + int(self._buffer[at + 16 : end])
        if len(self._buffer) >= self._need:
            self._buffer = b""
            self._need = -1
            self._count += 1
            self._send()


def creating(host: str, port: int, token: str, bodies: Sequence[bytes]) -> Callable[[], Awaitable[object]]:
    """Return what creates pods of *bodies* over plain HTTP; everything that can be is prepared before."""
    head = (
        f"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bench/1\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: "
    )
    requests = [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]

    async def send() -> None:
        loop = asyncio.get_running_loop()
        sent = []
        for number in range(CONNECTIONS):
            done: asyncio.Future[int] = loop.create_future()
            await loop.create_connection(
                partial(_Connection, requests[number::CONNECTIONS], done), host, port
            )
            sent.append(done)
        await asyncio.gather(*sent)

    return send


async def each(count: int, do: Callable[[int], Awaitable[object]]) -> None:
    """Do something for every number below *count*, as many at once as there are connections."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await do(number)

    await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))


# ── pods that are placed ─────────────────────────────────────────────────────────────────────────


class _Metadata(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Head(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


async def bound_per_second(kubeconfig: Path, bodies: Sequence[bytes]) -> float:
    """Create pods of *bodies*; return how many a second were bound, as a watch sees it."""
    client: Client = connect(kubeconfig)
    watcher: Client = connect(kubeconfig)
    head = msgspec.json.Decoder(_Head).decode

    async def watch(since: str) -> None:
        bound: set[str] = set()
        async with watcher.watch(_POD, "default", resource_version=since) as events:
            async for event in events:
                if event.type == "MODIFIED" and (seen := head(event.object)).spec.node_name:
                    bound.add(seen.metadata.name)
                    if len(bound) == len(bodies):
                        return

    try:
        listed = await watcher.list(_POD, "default")
        watching = asyncio.ensure_future(watch(listed.resource_version))
        send = _over_plain_http(kubeconfig, bodies)
        started = time.perf_counter()
        if send is None:
            await each(len(bodies), lambda number: client.create(_POD, bodies[number], "default"))
        else:
            await send()
        async with asyncio.timeout(300):
            await watching
        return len(bodies) / (time.perf_counter() - started)
    finally:
        await client.close()
        await watcher.close()


def _over_plain_http(kubeconfig: Path, bodies: Sequence[bytes]) -> Callable[[], Awaitable[object]] | None:
    """Return what creates pods of *bodies* without a client's work; None for a server that wants TLS."""
    (config,) = read_values(kubeconfig.read_bytes())
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    if server.scheme != "http":
        return None
    return creating(server.hostname or "", server.port or 0, config["users"][0]["user"]["token"], bodies)
