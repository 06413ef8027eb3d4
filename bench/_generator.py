"""Load over TLS that is cheap to generate, so that the server is measured: raw sockets and prepared requests.

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
_RECORD = 1 << 14  # the most that one read of TLS gives
_ARRIVED = bytearray(_RECORD)  # what was read last, of whichever connection
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_VERSION = b'"resourceVersion":"'
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
        return cls.at(config["clusters"][0]["cluster"]["server"], token)

    @classmethod
    def at(cls, server: str, token: str) -> Target:
        """Return the target at the address *server*."""
        address = urlsplit(server)
        return cls(address.hostname or "", address.port or 0, token)

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
    """Takes prepared requests from a queue, one after another, and hands on each answer.

    Of an answer the beginning is kept and the rest only counted, unless it is wanted *whole*.
    """

    def __init__(
        self, target: Target, queue: deque[bytes], answered: Callable[[bytes], None], *, whole: bool = False
    ) -> None:
        self.socket = target.connect()
        self.is_closed = False  # by a server that heard nothing for a while
        self._queue, self._answered, self._whole = queue, answered, whole
        self._answer = bytearray()
        self._has_head = False
        self._missing: int | None = None  # bytes that are still to come; None: chunks up to the last
        self._end = b""  # the last bytes that came
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
        receive = self.socket.recv_into
        try:
            while True:
                size = receive(_ARRIVED)
                if not size:
                    if not self.is_idle:
                        raise RuntimeError("the server closed a connection under load")
                    self.is_closed = True
                    return
                if self._is_whole(size):
                    answer, self._answer, self._has_head = bytes(self._answer), bytearray(), False
                    self._answered(answer)
                    self.start()
                    return  # nothing comes before it is asked for
        except ssl.SSLWantReadError:
            return

    def _is_whole(self, size: int) -> bool:
        """Take the *size* bytes that arrived; whether they end the answer."""
        if not self._has_head:
            self._answer += _ARRIVED[:size]
            end = self._answer.find(b"\r\n\r\n")
            if end < 0:
                return False
            self._has_head = True
            found = _LENGTH.search(self._answer, 0, end)
            self._missing = end + 4 + int(found[1]) - len(self._answer) if found else None
            self._end = bytes(self._answer[-len(_LAST_CHUNK) :])
        else:
            if self._whole:
                self._answer += _ARRIVED[:size]
            if self._missing is not None:
                self._missing -= size
            else:
                last = len(_LAST_CHUNK)
                self._end = (self._end + _ARRIVED[max(0, size - last) : size])[-last:]
        return self._end == _LAST_CHUNK if self._missing is None else self._missing <= 0


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
        self._latest = b""  # the events that came last
        self.open()

    def open(self) -> None:
        """Begin, or go on after the last event that was seen."""
        self.is_closed = False
        self._rest = b""
        at = self._latest.rfind(_VERSION)
        if at >= 0:
            at += len(_VERSION)
            self._since = self._latest[at : self._latest.index(b'"', at)].decode()
        self.socket = self._target.connect()
        sign = "&" if "?" in self._path else "?"
        path = f"{self._path}{sign}watch=true&resourceVersion={self._since}"
        self.socket.sendall(self._target.request("GET", path))

    def ready(self) -> None:
        size = 1
        try:
            while size:
                size = self.socket.recv_into(_ARRIVED)
                self._take(self._rest + _ARRIVED[:size])
                if size < _RECORD:
                    break  # the rest is not here yet; to ask for it is dearer than to be told
        except ssl.SSLWantReadError:
            pass
        self.is_closed = not size or self._rest.endswith(_LAST_CHUNK)

    def _take(self, text: bytes) -> None:
        whole = text.rfind(b"}\n")  # up to here events are complete; the rest is looked at with what follows
        if whole < 0:
            self._rest = text
            return
        self._latest, self._rest = text[: whole + 2], text[whole + 2 :]
        found = self._latest.count(self._mark)
        # Nothing follows an error, and who asks again after what came before it gets it alone.
        if not found and b'{"type":"ERROR"' in self._latest:
            raise RuntimeError(f"a watch was refused: {self._latest[-600:].decode(errors='replace')}")
        self.count += found
        if self._seen is None:
            return
        for line in self._latest.split(b"\n"):
            start = line.find(self._mark)
            if start >= 0:
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
            self._turn(1.0)
            if time.perf_counter() - began > seconds:
                raise TimeoutError(f"not done after {seconds:g} s; {self.answered:,} requests were answered")
        return time.perf_counter() - began

    def read(self, seconds: float) -> None:
        """Take what watches bring, for so long."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self._turn(left)

    def _turn(self, seconds: float) -> None:
        """Do what there is to do; wait so long for it."""
        for number, _ in self._poll.poll(seconds):
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
        one = _Connection(self.target, queue, answers.append, whole=True)
        self._add(one)
        one.start()
        self.run(lambda: bool(answers))
        self._remove(one)
        head, _, body = answers[0].partition(b"\r\n\r\n")
        if b"chunked" in head.lower():
            body = b"".join(body.split(b"\r\n")[1::2])
        return body
