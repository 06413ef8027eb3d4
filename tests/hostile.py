"""Hostile connections of every kind beside an ordinary client, with bounds on memory and on the client's wait.

`python -m tests.hostile [connections] [seconds] [tls]` (make hostile: 2,000 for a minute, then 5,000 over TLS) starts a
server of its own, takes its memory when idle, and opens the connections from another process, each played again
whenever it ends, while an ordinary client writes and reads. It fails when the server's memory grew by more than 150 MiB
or the client's 99th percentile was above 250 ms (decision 18), over TLS when its longest wait was above a second or
one of a thousand honest clients that come at once afterwards gets no answer (decision 119). On a machine on which
strangers work too the limit is as many times more as the server had to wait for a processor that it wanted, and the
report says so. tests/e2e/test_hostile.py does the same with fewer connections, for
seconds, and asks for memory, answers and bytes read, which depend on no clock.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import multiprocessing
import os
import re
import resource
import ssl
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.server import running_server

MOST_GROWTH = 150 << 20
MOST_SECONDS = 0.25  # of the ordinary client's 99th percentile
MOST_SECONDS_TLS = 1.0  # of its longest wait over TLS, in which it agrees on TLS for every request
MOST_STRANGERS = 0.1  # of the machine's processors, before the limit is another
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
YAML_BODY = b"spec:\n" + b"".join(b" a%d: b\n" % number for number in range(220_000))
BROKEN_BODY = b'{"spec":[' + b"[]," * 1_000_000
TICKS = os.sysconf("SC_CLK_TCK")
BURST = 1000
_numbers = itertools.count()

Kind = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Report(NamedTuple):
    """What was seen."""

    idle_bytes: int
    most_bytes: int
    seconds: list[float]  #: of each request of the ordinary client
    failures: list[str]
    played: int  #: hostile connections
    read_bytes: int = 0  #: by the server
    shares: Shares | None = None
    tls: bool = False
    burst: int = 0  #: of BURST honest clients that came at once, how many were answered

    @property
    def growth(self) -> int:
        return self.most_bytes - self.idle_bytes

    @property
    def p99(self) -> float:
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)] if self.seconds else float("inf")

    @property
    def wait(self) -> float:
        """The wait of the ordinary client that is bounded: the longest over TLS, else the 99th percentile."""
        return max(self.seconds, default=float("inf")) if self.tls else self.p99

    @property
    def most_seconds(self) -> float:
        """What `wait` may be on this machine as busy as it was."""
        most = MOST_SECONDS_TLS if self.tls else MOST_SECONDS
        return self.shares.limit(most) if self.shares else most


class Shares(NamedTuple):
    """Of one processor, in the time of the attack; strangers' of all processors."""

    loop: float  #: had by the thread of the server's event loop
    loop_waited: float  #: wanted by it while others had it
    server: float  #: had by all threads of the server
    attacker: float
    strangers: float  #: had by whoever is no part of this

    def limit(self, seconds: float) -> float:
        """Return what stands for *seconds* of a quiet machine: as many times more as the loop waited for strangers."""
        return seconds if self.strangers < MOST_STRANGERS else seconds * (1 + self.loop_waited / self.loop)


class Used(NamedTuple):
    """Processor time until now, in seconds."""

    loop: float
    loop_waited: float
    server: float
    machine: float

    @classmethod
    def now(cls, pid: int) -> Used:
        had, waited, _ = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        user, nice, system, _, _, irq, softirq, *_ = Path("/proc/stat").read_text().split()[1:]
        busy = int(user) + int(nice) + int(system) + int(irq) + int(softirq)
        return cls(int(had) / 1e9, int(waited) / 1e9, (int(stat[11]) + int(stat[12])) / TICKS, busy / TICKS)

    def since(self, before: Used, own: float, attacker: float, seconds: float) -> Shares:
        """Return the shares of *seconds*, in which this process used *own* and the hostile one *attacker* of them."""
        loop, waited, server, machine = (
            (now - then) / seconds for now, then in zip(self, before, strict=True)
        )
        strangers = machine - server - (own + attacker) / seconds
        return Shares(loop, waited, server, attacker / seconds, max(0.0, strangers) / (os.cpu_count() or 1))


def read_bytes(pid: int) -> int:
    """Return how many bytes a process has read, from sockets too."""
    found = re.search(r"rchar: (\d+)", Path(f"/proc/{pid}/io").read_text())
    assert found is not None
    return int(found[1])


def memory(pid: int) -> int:
    """Return how many bytes of a process are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ── kinds of hostile connections ──


async def long_paths(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """F1, F7: a path of 60 kB that nobody asked for before, without and with a token."""
    token = next(_numbers) % 2
    for _ in range(5):
        path = f"/api/v1/namespaces/default/{next(_numbers)}" + "z" * 60_000
        extra = "Authorization: Bearer mallory\r\n" if token else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{extra}\r\n".encode())
        await writer.drain()
        await reader.read(4096)


async def endless_trailers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """F2: trailers without end behind a body without a credential."""
    writer.write(b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
    for number in range(2000):
        writer.write(b"X-%d: " % number + b"y" * 8000 + b"\r\n")
        await writer.drain()


async def big_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """F3: three megabytes from nobody, then gone."""
    writer.write(
        b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n"
    )
    for _ in range(45):
        writer.write(b"x" * 65_536)
        await writer.drain()


async def unread_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """F4: large answers that are asked for and never read."""
    writer.write(b"GET /openapi/v2 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mallory\r\n\r\n" * 400)
    await writer.drain()
    await asyncio.get_running_loop().create_future()


def large_text(media: str, body: bytes) -> Kind:
    """F6: a text that takes long to read, from somebody without rights."""

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = f"POST {REVIEWS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mallory\r\nContent-Type: {media}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        for at in range(0, len(body), 65_536):
            writer.write(body[at : at + 65_536])
            await writer.drain()
        await reader.read(4096)

    return send


async def too_much(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """F17: more than the server takes, announced and not."""
    writer.write(
        b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mallory\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    for _ in range(200):
        writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
        await writer.drain()


async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """F17: a request that never ends arriving."""
    writer.write(
        b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mallory\r\n"
    )
    for _ in range(100):
        writer.write(b"X-A: b\r\n")
        await writer.drain()
        await asyncio.sleep(1)


async def unread_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """H12: a long odd path and a body that nobody reads, without a credential."""
    path = f"/api/v1/namespaces/default/{next(_numbers)}" + "z" * 7_000
    writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n".encode())
    writer.write(b"x" * 200_000)
    await writer.wait_closed()  # the server ends it


async def half_open(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """H12: a TLS handshake that stops after the client's first message, without TLS of its own."""
    outgoing = ssl.MemoryBIO()
    client = client_tls().wrap_bio(ssl.MemoryBIO(), outgoing)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    writer.write(outgoing.read())
    await writer.wait_closed()  # the server ends it


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A connection that says nothing, before or after its handshake."""
    await writer.wait_closed()  # the server ends it


async def half_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A handshake, and a request that stops in its head."""
    writer.write(b"GET /api/v1/namespaces/default/pods HTTP/1.1\r\nHost")
    await writer.wait_closed()  # the server ends it


async def dripping_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The first message of a TLS handshake, a byte a second."""
    for byte in b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


async def no_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What is no TLS: random bytes, HTTP, an alert."""
    writer.write(
        (os.urandom(300), b"GET / HTTP/1.1\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x28")[next(_numbers) % 3]
    )
    await writer.wait_closed()  # the server ends it


@functools.cache
def client_tls() -> ssl.SSLContext:
    """Return the settings of a client that trusts every server."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


KINDS: list[Kind] = [
    *(long_paths, endless_trailers, big_body, unread_answers, too_much, slow, slow, slow),
    large_text("application/yaml", YAML_BODY),
    large_text("application/json", BROKEN_BODY),
]
#: That never agree on TLS, and that do so first.
RAW_KINDS: list[Kind] = [silent, half_open, half_open, half_open, dripping_hello, no_hello]
TLS_KINDS: list[Kind] = [*KINDS, *[unread_body] * 3, silent, half_head]


# ── the play ──


async def play(kind: Kind, tls: bool, port: int, until: float, count: list[int]) -> None:
    """Play one hostile connection again and again; *tls*: it agrees on TLS first."""
    context = client_tls() if tls else None
    while time.monotonic() < until:
        writer = None
        with suppress(OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            opening = asyncio.open_connection("127.0.0.1", port, ssl=context)
            reader, writer = await asyncio.wait_for(opening, 10)
            count[0] += 1
            async with asyncio.timeout(max(0.1, until - time.monotonic())):
                await kind(reader, writer)
        if writer is not None:
            writer.transport.abort()
        await asyncio.sleep(0.05)


async def request(
    port: int, method: str, path: str, body: bytes, token: str, context: ssl.SSLContext | None = None
) -> int:
    """Return the code of one request of the ordinary client."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
    writer.write(
        f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )
    answer = await reader.read()
    writer.close()
    return int(answer[9:12] or b"0")


async def burst(port: int, clients: int, context: ssl.SSLContext | None) -> int:
    """Return how many of *clients* that come at once are answered at their first try."""

    async def one() -> bool:
        with suppress(OSError):
            return await request(port, "GET", "/api/v1/namespaces/default", b"", "root", context) == 200
        return False

    return sum(await asyncio.gather(*(one() for _ in range(clients))))


async def ordinary(port: int, until: float, seconds: list[float], failures: list[str], tls: bool) -> None:
    """Write and read as an ordinary client does."""
    context = client_tls() if tls else None
    while time.monotonic() < until:
        name = f"c{next(_numbers)}"
        body = json.dumps({"metadata": {"name": name}, "data": {"a": "b"}}).encode()
        steps = [("POST", "", body, 201), ("GET", f"/{name}", b"", 200), ("DELETE", f"/{name}", b"", 200)]
        for method, tail, sent, expected in steps:
            began = time.monotonic()
            try:
                path = f"/api/v1/namespaces/default/configmaps{tail}"
                code = await asyncio.wait_for(request(port, method, path, sent, "alice", context), 30)
                if code != expected:
                    failures.append(f"{method} {tail}: {code}")
            except (TimeoutError, OSError) as error:
                failures.append(f"{method} {tail}: {error!r}")
            seconds.append(time.monotonic() - began)
        await asyncio.sleep(0.01)


async def watch_memory(pid: int, until: float, most: list[int]) -> None:
    while time.monotonic() < until:
        most[0] = max(most[0], memory(pid))
        await asyncio.sleep(0.1)


def without_second_ends(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what goes wrong in *loop*, but for a transport of CPython 3.11 that ends twice.

    One that is aborted after it wrote the last of what was left when it was closed does so.
    """
    if not (
        isinstance(context.get("exception"), AttributeError) and "_call_connection_lost" in context["message"]
    ):
        loop.default_exception_handler(context)


async def attack(port: int, connections: int, until: float, tls: bool) -> int:
    """Play the hostile connections; return how many there were."""
    asyncio.get_running_loop().set_exception_handler(without_second_ends)
    count = [0]
    kinds = [(kind, True) for kind in TLS_KINDS] if tls else []
    kinds += [(kind, False) for kind in (RAW_KINDS if tls else KINDS)]
    plays = (play(*kinds[number % len(kinds)], port, until, count) for number in range(connections))
    await asyncio.gather(*plays)
    return count[0]


def attack_beside(port: int, connections: int, seconds: float, tls: bool, begun: Any, played: Any) -> None:
    """Attack from a process of its own, which takes no CPU that others want; say how often, and what it took."""
    os.nice(15)
    until = time.monotonic() + seconds
    begun.put(until)
    before = time.process_time()
    count = asyncio.run(attack(port, connections, until, tls))
    played.put((count, time.process_time() - before))


async def measure(pid: int, port: int, connections: int, seconds: float, tls: bool) -> Report:
    """Attack the server and watch it."""
    for _ in range(20):  # what a server reads and keeps when it is first asked
        await request(port, "GET", "/openapi/v2", b"", "alice", client_tls() if tls else None)
    idle = memory(pid)
    taken: list[float] = []
    failures: list[str] = []
    most = [idle]
    context = multiprocessing.get_context("spawn")
    begun, played = context.Queue(), context.Queue()
    arguments = (port, connections, seconds, tls, begun, played)
    attacker = context.Process(target=attack_beside, args=arguments, daemon=True)
    attacker.start()
    until = await asyncio.to_thread(begun.get, True, 60)  # a busy machine takes a while to start a process
    before, own, read = Used.now(pid), time.process_time(), read_bytes(pid)
    began = time.monotonic()
    await asyncio.gather(ordinary(port, until, taken, failures, tls), watch_memory(pid, until, most))
    after, own, read = Used.now(pid), time.process_time() - own, read_bytes(pid) - read
    lasted = time.monotonic() - began
    count, attacker_seconds = await asyncio.to_thread(played.get, True, 60)
    attacker.join(30)
    shares = after.since(before, own, attacker_seconds, lasted)
    answered = await burst(port, BURST, client_tls() if tls else None)
    return Report(idle, most[0], taken, failures, count, read, shares, tls, answered)


def allow_many_files() -> None:
    """Let this process, and those it starts, open as many files as the system allows."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)


def run(connections: int, seconds: float, folder: Path, *, tls: bool = False) -> Report:
    """Start a server, attack it, and return what was seen."""
    allow_many_files()
    tokens = folder / "tokens.csv"
    tokens.write_text('alice,alice,1,"admins"\nmallory,mallory,2,"nobodies"\nroot,root,3,"system:masters"\n')
    options = (*(() if tls else ("--insecure-http",)), "--token-auth-file", str(tokens))
    with running_server(folder, *options, cold=True) as server:
        found = re.search(r"127\.0\.0\.1:(\d+)", (folder / "server.log").read_text())
        assert found is not None
        port = int(found[1])
        binding = {
            "metadata": {"name": "alice"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        context = client_tls() if tls else None
        code = asyncio.run(request(port, "POST", path, json.dumps(binding).encode(), "root", context))
        assert code == 201, code
        return asyncio.run(measure(server.pid, port, connections, seconds, tls))


def main() -> int:
    connections = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    with tempfile.TemporaryDirectory() as folder:
        report = run(connections, seconds, Path(folder), tls="tls" in sys.argv[3:])
    over = " over TLS" if report.tls else ""
    print(f"{connections} hostile connections{over} at a time, {report.played} in {seconds:.0f} s")
    print(f"memory: {report.idle_bytes >> 20} MiB idle, at most {report.growth >> 20} MiB more")
    print(f"ordinary client: {len(report.seconds)} requests, {len(report.failures)} failed, ", end="")
    print(f"p99 {report.p99 * 1000:.0f} ms, longest {max(report.seconds, default=0) * 1000:.0f} ms ", end="")
    print(f"({'longest' if report.tls else 'p99'} at most {report.most_seconds * 1000:.0f} ms)")
    print(f"honest clients at once: {report.burst} of {BURST} answered")
    print(f"read: {report.read_bytes / max(1, report.played) / 1024:.0f} KiB for each hostile connection")
    shares = report.shares
    assert shares is not None
    print(f"of a processor: loop {shares.loop:.0%} (waited {shares.loop_waited:.0%}), ", end="")
    print(f"server {shares.server:.0%}, hostile client {shares.attacker:.0%}")
    if shares.strangers >= MOST_STRANGERS:
        print(f"not a quiet machine: others had {shares.strangers:.0%} of it, so the limit is another")
    for failure in report.failures[:5]:
        print(" ", failure)
    fails = report.growth > MOST_GROWTH or report.wait > report.most_seconds or report.burst < BURST
    return int(fails or bool(report.failures))


if __name__ == "__main__":
    sys.exit(main())
