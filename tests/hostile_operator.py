"""Hostile requests at the operator's webhook port beside the API server's reviews: memory and patience have bounds.

`python -m tests.hostile_operator [seconds] [requests a second]` (make hostile-operator: a minute of 5,000) starts an
API server and an operator of its own, and from other processes sends requests of strangers as fast as asked for or as
this machine can: without TLS, with half a handshake, with TLS and heads of every kind, from many addresses and from the
API server's own. Meanwhile pods with extended tolerations are created in dry runs, and the API server shows each to
the operator. It fails when the operator needs more than the manifest gives it, when a review is not answered within a
second, or when something of a stranger's is found in the table of taints, the metrics or the log.
tests/e2e/test_hostile_operator.py does the same with a counted number of requests and no clock.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import resource
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

from tests.contract.etcd_server import free_port
from tests.e2e.server import running_server
from tests.e2e.warm import COLD
from tests.hostile import MOST_STRANGERS, Shares, Used, memory
from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.http import connect
from weir.install.manifests import Installation, barrier, foundation, lowering
from weir.lowering.names import KNOWN_TRIPLES, NAMESPACE
from weir.objects.kinds import by_kind

MOST_BYTES = 256 << 20  #: the limit of the manifest
MOST_SECONDS = 1.0
FEATURES = (
    "TaintTolerationComparisonOperators=false,TaintTolerationNodeAffinitySemverComparisonOperators=false"
)
STRANGERS = [f"127.0.{net}.{host}" for net in (1, 2) for host in range(1, 101)]

Document = dict[str, Any]
PODS = by_kind("v1", "Pod")
CONFIG_MAPS = by_kind("v1", "ConfigMap")


class Report(NamedTuple):
    """What was seen."""

    idle_bytes: int
    most_bytes: int
    seconds: list[float]  #: of each review of the API server's
    failures: list[str]
    sent: list[Sent]  #: by each hostile process
    shares: Shares  #: the operator's, of a processor
    page: bytes  #: of metrics, at the end
    log: str
    rows: Document

    @property
    def slowest(self) -> float:
        return max(self.seconds, default=float("inf"))

    @property
    def most_seconds(self) -> float:
        """What `slowest` may be on this machine as busy as it was."""
        return self.shares.limit(MOST_SECONDS)


# ── kinds of hostile requests ────────────────────────────────────────────────────────────────────

REVIEW = (
    b'{"request":{"uid":"u","object":{"metadata":{"name":"n"},"spec":{"taints":['
    + b",".join(b'{"key":"sla","value":"%d","effect":"NoExecute"}' % value for value in range(100))
    + b"]}}}}"
)


def _client_hello() -> bytes:
    """Return the first words of a handshake, which cost their sender nothing."""
    context = ssl.create_default_context()
    out = ssl.MemoryBIO()
    half = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        half.do_handshake()
    return out.read()


def _post(path: str, body: bytes = REVIEW) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


#: Sent as they are, on a connection without TLS.
PLAIN = (
    _post("/node-barrier"),
    b"GET / HTTP/1.1\r\n\r\n",
    os.urandom(200),
    b"\x16\x03\x01\xff\xff" + b"\0" * 2000,
    b"",
)
#: Sent behind a whole handshake.
SECURE: tuple[Callable[[int], bytes], ...] = (
    lambda number: _post("/node-barrier"),
    lambda number: _post(f"/{os.urandom(24).hex()}/node-barrier"),
    lambda number: _post(f"/{os.urandom(24).hex()}/{number}" + "z" * 12_000),
    lambda number: _post("/pods", b"x" * 300_000),
    lambda number: b"POST /" + b"z" * 60_000,
    lambda number: b"POST /x/pods HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"9" * 70_000,
    lambda number: b"GET /readyz HTTP/1.1\r\n\r\n" * 500,
    lambda number: b"hello\r\n\r\n",
)
HALF_OPEN = 300  # kept open by each process
HANDSHAKES = 0.04  # of all requests come behind a whole handshake
HANDSHAKES_AT_ONCE = 48


class Sent(NamedTuple):
    """What one hostile process did."""

    begun: int  #: connections
    written: (
        int  #: requests that a connection took; the others waited for the listener for more than a second
    )
    seconds: float
    cpu: float


def _source(number: int) -> str:
    """Return the address of request *number*: every fiftieth comes from where the API server is."""
    return "127.0.0.1" if number % 50 == 0 else STRANGERS[number % len(STRANGERS)]


def _due(began: float, until: float, rate: float, sent: int, most: int) -> int:
    """Return how many requests should be sent now; -1 at the end."""
    now = time.monotonic()
    return -1 if sent >= most or now >= until else min(most - sent, int((now - began) * rate) - sent)


def attack_plainly(port: int, seconds: float, most: int, rate: float, begun: Any, done: Any) -> None:
    """Send ready-made bytes on connections without TLS and halves of handshakes, waiting for no answer."""
    hello = _client_hello()
    begun.get()
    began = time.monotonic()
    sent = written = 0
    opening: deque[tuple[socket.socket, bytes, float]] = deque()
    held: deque[socket.socket] = deque()  # half-open ones, which are left to the server for a while
    while (due := _due(began, began + seconds, rate, sent, most)) >= 0 or opening:
        for _ in range(min(due, 1000)):
            opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            # one request in four is half a handshake
            content = hello if sent % 4 == 0 else PLAIN[sent % len(PLAIN)]
            with suppress(OSError):
                opened.bind((_source(sent), 0))
                opened.connect_ex(("127.0.0.1", port))
                opening.append((opened, content, time.monotonic() + 1))
            sent += 1
        for _ in range(len(opening)):
            opened, content, until = opening.popleft()
            try:
                if content:
                    opened.send(content)
                written += 1
            except BlockingIOError:  # the listener has no room yet
                if time.monotonic() < until:
                    opening.append((opened, content, until))
                    continue
            except OSError:  # refused
                pass
            if content is hello:
                held.append(opened)
            else:
                opened.close()
        while len(held) > HALF_OPEN:
            _reset(held.popleft())
        if due <= 0:
            time.sleep(0.001)
    for opened in held:
        _reset(opened)
    done.put(Sent(sent, written, time.monotonic() - began, time.process_time()))


def attack_securely(port: int, seconds: float, most: int, rate: float, begun: Any, done: Any) -> None:
    """Send heads and bodies of every kind behind whole handshakes, many at a time."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    begun.get()
    began = time.monotonic()
    written: list[int] = []

    def send(number: int) -> None:
        with suppress(OSError), socket.socket() as opened:
            opened.settimeout(5.0)
            opened.bind((_source(number), 0))
            opened.connect(("127.0.0.1", port))
            with context.wrap_socket(opened, server_hostname="localhost") as secure:
                secure.sendall(SECURE[number % len(SECURE)](number))
                written.append(number)
                secure.recv(100)

    sent = 0
    with ThreadPoolExecutor(HANDSHAKES_AT_ONCE) as pool:
        under_way: set[Future[None]] = set()
        while (due := _due(began, began + seconds, rate, sent, most)) >= 0:
            under_way = {each for each in under_way if not each.done()}
            for _ in range(min(due, HANDSHAKES_AT_ONCE - len(under_way))):
                under_way.add(pool.submit(send, sent))
                sent += 1
            time.sleep(0.002)
    done.put(Sent(sent, len(written), time.monotonic() - began, time.process_time()))


def _reset(opened: socket.socket) -> None:
    with suppress(OSError):
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    opened.close()


# ── the API server's reviews ─────────────────────────────────────────────────────────────────────


async def review(client: Client) -> None:
    """Let the API server show a pod to the operator."""
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "tolerations": [{"key": "sla", "operator": "Gt", "value": "900"}],
    }
    body = {"metadata": {"generateName": "p-"}, "spec": spec}
    made = await client.create(PODS, body, "default", dry_run=True)
    assert any(each["key"].startswith("lowered.weir.dev/") for each in made["spec"]["tolerations"])


async def reviews(
    client: Client, ended: Callable[[], bool], seconds: list[float], failures: list[str]
) -> None:
    while not ended():
        began = time.monotonic()
        try:
            await asyncio.wait_for(review(client), 30)
        except (errors.ApiError, Unreachable, TimeoutError) as error:
            failures.append(str(error) or repr(error))
        seconds.append(time.monotonic() - began)
        await asyncio.sleep(0.05)


async def watch(pid: int, ended: Callable[[], bool], most: list[int]) -> None:
    while not ended():
        most[0] = max(most[0], memory(pid))
        await asyncio.sleep(0.1)


# ── the play ─────────────────────────────────────────────────────────────────────────────────────


async def installed(client: Client, port: int) -> None:
    """Install the webhooks of an operator on *port*."""
    installation = Installation(url=f"https://127.0.0.1:{port}")
    for document in (*foundation(installation), lowering(installation), barrier(installation)):
        kind = by_kind(document["apiVersion"], document["kind"])
        await client.apply(kind, document, field_manager="test", force=True)


@contextmanager
def running_operator(folder: Path, kubeconfig: Path, port: int, metrics: int) -> Iterator[int]:
    """Give the pid of an operator; its log lies in *folder*."""
    words = [
        "operator",
        f"--url=https://127.0.0.1:{port}",
        f"--metrics-port={metrics}",
        "-v",
        "--no-leader-elect",
    ]
    with (folder / "operator.log").open("w") as log:
        process = subprocess.Popen(
            [*COLD, *words, "--kubeconfig", str(kubeconfig)], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def answering(client: Client) -> None:
    """Return once the operator answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return await review(client)
        except (errors.ApiError, Unreachable):
            assert time.monotonic() < deadline, "the operator does not answer"
            await asyncio.sleep(0.2)


async def measure(
    client: Client, server: int, pid: int, port: int, seconds: float, most: int, rate: float
) -> tuple[int, int, list[float], list[str], list[Sent], Shares]:
    """Attack the operator and watch it; return the first fields of the report."""
    await answering(client)
    for _ in range(20):
        await review(client)
    idle = memory(pid)
    context = multiprocessing.get_context("spawn")
    begun, done = context.Queue(), context.Queue()
    secure = round(most * HANDSHAKES)
    attackers = [
        context.Process(
            target=target, args=(port, seconds, count, rate * count / most, begun, done), daemon=True
        )
        for target, count in ((attack_plainly, most - secure), (attack_securely, secure))
    ]
    for each in attackers:
        each.start()
    for _ in attackers:
        begun.put(True)
    results: list[Sent] = []

    async def collect() -> None:
        for _ in attackers:
            results.append(await asyncio.to_thread(done.get, True, seconds + 120))

    def ended() -> bool:
        return len(results) == len(attackers)

    taken: list[float] = []
    failures: list[str] = []
    peak = [idle]
    began, before, own = time.monotonic(), Used.now(pid), time.process_time() + Used.now(server).server
    await asyncio.gather(collect(), reviews(client, ended, taken, failures), watch(pid, ended, peak))
    own = time.process_time() + Used.now(server).server - own
    hostile = sum(each.cpu for each in results)
    shares = Used.now(pid).since(before, own, hostile, time.monotonic() - began)
    for each in attackers:
        each.join(30)
    return idle, peak[0], taken, failures, results, shares


def run(folder: Path, seconds: float, most: int, rate: float = 1e9) -> Report:
    """Start an API server and an operator, send at most *most* hostile requests, and return what was seen."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    port, metrics = free_port(), free_port()
    with running_server(folder, "--feature-gates", FEATURES, cold=True) as server:

        async def main() -> Report:
            client = connect(server.kubeconfig)
            try:
                await installed(client, port)
                with running_operator(folder, server.kubeconfig, port, metrics) as pid:
                    found = await measure(client, server.pid, pid, port, seconds, most, rate)
                    page = await asyncio.to_thread(_page, metrics)
                    table = await client.find(CONFIG_MAPS, KNOWN_TRIPLES, NAMESPACE) or {}
                    log = (folder / "operator.log").read_text()
                return Report(*found, page, log, table.get("data") or {})
            finally:
                await client.close()

        return asyncio.run(main())


def _page(port: int) -> bytes:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return bytes(answer.read())


def traces(report: Report) -> list[str]:
    """Return what of the strangers' is found where it has no place."""
    found = []
    if report.rows:
        found.append(f"{len(report.rows)} rows in the table of taints")
    if len(report.page) > 200_000 or b"zzzz" in report.page:
        found.append(f"a metrics page of {len(report.page)} bytes")
    if len(report.log) > 500_000 or "zzzz" in report.log:
        found.append(f"a log of {len(report.log)} bytes")
    return found


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else 5000.0
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), seconds, int(seconds * rate), rate)
    refused = sum(
        map(float, re.findall(rb"^weir_operator_refused_requests_total\{.*\} (\S+)", report.page, re.M))
    )
    begun, written = (sum(counts) for counts in list(zip(*report.sent, strict=True))[:2])
    lasted = max(each.seconds for each in report.sent)
    print(
        f"{begun} hostile requests in {lasted:.0f} s ({begun / lasted:.0f} a second, {rate:.0f} asked for), "
        f"{written} taken, {refused:.0f} of them behind a whole handshake and refused by their head"
    )
    shares = report.shares
    print(
        f"of a processor: operator {shares.server:.0%}, its loop {shares.loop:.0%} "
        f"(waited {shares.loop_waited:.0%}), hostile {shares.attacker:.0%}"
    )
    if shares.strangers >= MOST_STRANGERS:
        print(f"not a quiet machine: others had {shares.strangers:.0%} of it, so the limit is another")
    print(
        f"memory: {report.idle_bytes >> 20} MiB idle, {report.most_bytes >> 20} MiB at most (limit 256 MiB)"
    )
    median = sorted(report.seconds)[len(report.seconds) // 2] if report.seconds else float("inf")
    print(
        f"reviews: {len(report.seconds)}, {len(report.failures)} failed, "
        f"half within {median * 1000:.0f} ms, slowest {report.slowest * 1000:.0f} ms "
        f"(at most {report.most_seconds * 1000:.0f} ms)"
    )
    for line in (*traces(report), *report.failures[:5]):
        print(" ", line)
    wrong = report.most_bytes > MOST_BYTES or report.slowest > report.most_seconds or report.failures
    return int(bool(wrong or traces(report)))


if __name__ == "__main__":
    sys.exit(main())
