"""HTTP/1.1 response heads, the sink of a watch, and the transport of a lost connection."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from weir.apiserver.transport.http import Response, Stream

__all__ = ["CLOSED", "TransportSink", "head_of", "head_of_stream"]

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: ".encode()
    for status in HTTPStatus
}


def head_of(answer: Response, keep: bool) -> bytes:
    """Return the head of an answer.

    >>> head_of(Response(200, b"ok", b"text/plain"), keep=False)
    b'HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nConnection: close\\r\\nContent-Length: 2\\r\\n\\r\\n'
    """
    # A webhook may refuse with any code it likes.
    line = _STATUS_LINES.get(answer.code) or b"HTTP/1.1 %d Refused\r\nContent-Type: " % answer.code
    parts = [line, answer.content_type]
    for name, value in answer.headers or ():
        parts += (b"\r\n", name, b": ", value)
    if not keep:
        parts.append(b"\r\nConnection: close")
    parts.append(b"\r\nContent-Length: %d\r\n\r\n" % answer.size)
    return b"".join(parts)


def head_of_stream(answer: Stream) -> bytes:
    """Return the head of an answer that goes on."""
    parts = [_STATUS_LINES[answer.code], answer.content_type]
    for name, value in answer.headers or ():
        parts += (b"\r\n", name, b": ", value)
    parts.append(b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    return b"".join(parts)


class TransportSink:
    """A watch's way to its client."""

    __slots__ = ("_transport", "lost")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.lost = False

    def write(self, frame: bytes) -> None:
        """Send one frame as one chunk."""
        self.write_chunk(b"%x\r\n%b\r\n" % (len(frame), frame))

    def write_chunk(self, chunk: bytes) -> None:
        """Send a ready chunk."""
        if not self.lost:
            self._transport.write(chunk)

    def close(self) -> None:
        """End the answer."""
        if not self.lost:
            self._transport.write(b"0\r\n\r\n")

    def abort(self) -> None:
        """Break the connection."""
        self.lost = True
        self._transport.abort()

    @property
    def pending_bytes(self) -> int:
        """What the client has not taken yet."""
        return 0 if self.lost else int(self._transport.get_write_buffer_size())


class _ClosedTransport(asyncio.Transport):
    """Transport that is closed and drops what is written to it."""

    def is_closing(self) -> bool:
        return True

    def write(self, data: object) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


#: Stands in for the transport of every lost connection.
CLOSED = _ClosedTransport()
