"""How is a server loaded over TLS without the generator being what is measured? Raw sockets and prepared requests.

One thread, one epoll: a connection sends the next prepared request when the answer to the last is whole; a watch
counts its events by their first bytes and decodes nothing. The generator shares the machine with what it measures, so
the processor time it takes is counted and reported (`Generator.cpu_seconds`).
Not here: which requests, and what is made of the figures (the benches).
"""

from __future__ import annotations

import json
import re
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from weir.objects.manifest import read_values

CONNECTIONS = 32
_PIECE = 1 << 18
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

# Of both systems the same: certificates are not what is measured.
_TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_TRUSTING.check_hostname = False
_TRUSTING.verify_mode = ssl.CERT_NONE


@dataclass(frozen=True, slots=True)
class Target:
    """Where an API server listens, and the token that may do everything there."""

    host: str
    port: int
    token: str

    @classmethod
    def of(cls, kubeconfig: Path, token: str) -> Target:
        (config,) = read_values(kubeconfig.read_bytes())
        server = urlsplit(config["clusters"][0]["cluster"]["server"])
        return cls(server.hostname or "", server.port or 0, token)

    def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> bytes:
        """Return the bytes of a request, ready to be sent."""
        payload = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n"
        head += f"Authorization: Bearer {self.token}\r\n"
        if payload:
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(payload)}\r\n"
        return head.encode() + b"\r\n" + payload

    def connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection((self.host, self.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        encrypted = _TRUSTING.wrap_socket(plain, server_hostname=self.host)
        encrypted.setblocking(False)
        return encrypted


class _Connection:
    """Takes prepared requests from a queue, one after another, and hands on each answer."""

    def __init__(self, target: Target, queue: deque[bytes], answered: Callable[[bytes], None]) -> None:
        self.socket = target.connect()
        self.is_closed = False  # by a server that heard nothing for a while
        self._queue, self._answered = queue, answered
        self._buffer = bytearray()
        self._need = 0  # how long the answer is; 0: not known yet, -1: chunks up to the last
        self.is_idle = True
        self._left = memoryview(b"")

    def start(self) -> None:
        if self._queue:
            self.is_idle = False
            self._left = memoryview(self._queue.popleft())
            self._write()
        else:
            self.is_idle = True

    def _write(self) -> None:
        try:
            while self._left:
                self._left = self._left[self.socket.send(self._left) :]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return  # the rest goes when the next event comes: only bodies beyond the socket's buffer get here

    def ready(self) -> None:
        if self._left:
            self._write()
        try:
            while True:
                data = self.socket.recv(_PIECE)
                if not data:
                    if not self.is_idle:
                        raise RuntimeError("the server closed a connection under load")
                    self.is_closed = True
                    return
                self._buffer += data
                if self._is_whole():
                    answer, self._buffer, self._need = bytes(self._buffer), bytearray(), 0
                    self._answered(answer)
                    self.start()
        except ssl.SSLWantReadError:
            return

    def _is_whole(self) -> bool:
        if not self._need:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return False
            found = _LENGTH.search(self._buffer, 0, end)
            self._need = end + 4 + int(found[1]) if found else -1
        return self._buffer.endswith(_LAST_CHUNK) if self._need < 0 else len(self._buffer) >= self._need


class Watch:
    """A watch that counts events of one type; with *seen* it also hands on each line of that type.

    A server may end a watch whose reader it finds slow: it goes on after the last event, as any client would.
    """

    def __init__(
        self, target: Target, path: str, since: str, type_: str, seen: Callable[[bytes], None] | None = None
    ) -> None:
        self.count = 0
        self.is_closed = False
        self._target, self._path, self._since = target, path, since
        self._mark, self._seen = b'{"type":"' + type_.encode() + b'"', seen
        self.open()

    def open(self) -> None:
        """Begin, or go on after the last event that was seen."""
        self.is_closed = False
        self._rest = b""
        self.socket = self._target.connect()
        sign = "&" if "?" in self._path else "?"
        path = f"{self._path}{sign}watch=true&resourceVersion={self._since}"
        self.socket.sendall(self._target.request("GET", path))

    def ready(self) -> None:
        try:
            while (data := self.socket.recv(_PIECE)) and not self._rest.endswith(_LAST_CHUNK):
                self._take(self._rest + data)
            self.is_closed = True
        except ssl.SSLWantReadError:
            self.is_closed = self._rest.endswith(_LAST_CHUNK)

    def _take(self, text: bytes) -> None:
        whole = text.rfind(b"}\n")  # up to here events are complete; the rest is looked at with what follows
        events, self._rest = (text[: whole + 2], text[whole + 2 :]) if whole >= 0 else (b"", text)
        at = events.rfind(b'"resourceVersion":"')
        if at < 0:
            return
        self._since = events[at + 19 : events.index(b'"', at + 19)].decode()
        if b'{"type":"ERROR"' in events:
            raise RuntimeError(f"a watch was refused: {events[-600:].decode(errors='replace')}")
        if self._seen is None:
            self.count += events.count(self._mark)
            return
        for line in events.split(b"\n"):
            start = line.find(self._mark)
            if start >= 0:
                self.count += 1
                self._seen(line[start:])


class Generator:
    """Connections and watches of one server, and the processor time all of it took."""

    def __init__(self, target: Target, connections: int = CONNECTIONS) -> None:
        self.target = target
        self.answered = 0
        self.refused: bytes = b""
        self._queue: deque[bytes] = deque()
        self._poll = select.epoll()
        self._by_number: dict[int, _Connection | Watch] = {}
        self._connections = connections
        self._senders: list[_Connection] = []
        self._began = time.process_time()

    def __enter__(self) -> Generator:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._by_number.values():
            one.socket.close()
        self._poll.close()

    @property
    def cpu_seconds(self) -> float:
        """How much processor time this process took since the generator was made."""
        return time.process_time() - self._began

    def _add(self, one: _Connection | Watch) -> None:
        self._by_number[one.socket.fileno()] = one
        self._poll.register(one.socket.fileno(), select.EPOLLIN)

    def _remove(self, one: _Connection | Watch) -> None:
        self._poll.unregister(one.socket.fileno())
        del self._by_number[one.socket.fileno()]
        one.socket.close()

    def _take(self, answer: bytes) -> None:
        self.answered += 1
        if not answer.startswith(b"HTTP/1.1 2"):
            self.refused = self.refused or answer[:900]

    def watch(self, path: str, type_: str, seen: Callable[[bytes], None] | None = None) -> Watch:
        """Watch from what there is now, as clients do after a list; events are counted while `run` runs."""
        sign = "&" if "?" in path else "?"
        now = json.loads(self.ask(self.target.request("GET", f"{path}{sign}limit=1")))["metadata"]
        watch = Watch(self.target, path, now["resourceVersion"], type_, seen)
        self._add(watch)
        return watch

    def send(self, requests: Iterable[bytes]) -> None:
        """Queue requests; idle connections begin at once."""
        self._queue.extend(requests)
        for sender in self._senders:
            if sender.is_idle and self._queue:
                sender.start()
        while self._queue and len(self._senders) < self._connections:
            sender = _Connection(self.target, self._queue, self._take)
            self._senders.append(sender)
            self._add(sender)
            sender.start()

    def run(self, until: Callable[[], bool], seconds: float = 600.0) -> float:
        """Work until a condition holds, and return how long that took."""
        began = time.perf_counter()
        while not until():
            for number, _ in self._poll.poll(1.0):
                one = self._by_number[number]
                one.ready()
                if one.is_closed:
                    self._remove(one)
                    if isinstance(one, _Connection):
                        self._senders.remove(one)
                    else:
                        one.open()
                        self._add(one)
            if self.refused:
                raise RuntimeError(f"a request was refused: {self.refused.decode(errors='replace')}")
            if time.perf_counter() - began > seconds:
                raise TimeoutError(f"not done after {seconds:g} s; {self.answered:,} requests were answered")
        return time.perf_counter() - began

    def finish(self, requests: Iterable[bytes]) -> float:
        """Send requests and return how long it took until all were answered."""
        wanted = list(requests)
        done = self.answered + len(wanted)
        self.send(wanted)
        return self.run(lambda: self.answered >= done)

    def ask(self, request: bytes) -> bytes:
        """Send one request and return the body of its answer, however it was encoded."""
        answers: list[bytes] = []
        queue = deque([request])
        one = _Connection(self.target, queue, answers.append)
        self._add(one)
        one.start()
        self.run(lambda: bool(answers))
        self._remove(one)
        head, _, body = answers[0].partition(b"\r\n\r\n")
        if b"chunked" in head.lower():
            body = b"".join(body.split(b"\r\n")[1::2])
        return body
