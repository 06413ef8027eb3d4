"""A command at a terminal: what it shows is read, and keys are typed."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import termios
from collections.abc import Sequence
from contextlib import suppress

CTRL_C = b"\x03"


class Terminal:
    """A process with a terminal of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        self._end, its_end = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=its_end,
            stdout=its_end,
            stderr=its_end,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(its_end, termios.TIOCSCTTY, 0),
        )
        os.close(its_end)
        self.said = b""

    def read_until(self, text: bytes) -> None:
        """Read what is shown until *text* is."""
        while text not in self.said:
            self.said += os.read(self._end, 4096)

    def type(self, keys: bytes) -> None:
        """Type *keys*."""
        os.write(self._end, keys)

    def wait(self, seconds: float = 60) -> int:
        """Read what is shown until the process ends; return its exit code."""
        with suppress(OSError):  # the terminal ends with its last process
            while more := os.read(self._end, 4096):
                self.said += more
        os.close(self._end)
        return self.process.wait(seconds)
