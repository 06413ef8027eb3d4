"""The other end of a connection of the API server, without a socket: what tests and the fuzzer speak to."""

from __future__ import annotations


class FakeTransport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.closed = self.ended = False
        self.reading = True

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 4711) if name == "peername" else None

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0
