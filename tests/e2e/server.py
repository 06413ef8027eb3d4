"""A `weir apiserver` of one's own: started on a free port, in its own folder, stopped at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.warm import COLD, WARM


@dataclass(frozen=True)
class Server:
    """A running API server."""

    kubeconfig: Path
    data: Path
    pid: int  #: of what started it, unless it was started cold


@contextmanager
def running_server(
    folder: Path, *options: str, cold: bool = False, patience_seconds: float = 60.0
) -> Iterator[Server]:
    """Give a server that answers; its log lies in *folder*. With *cold* its pid is its own."""
    kubeconfig = folder / "kubeconfig"
    log = (folder / "server.log").open("w")
    command = [*(COLD if cold else WARM), "apiserver", "--data-dir", str(folder), "--secure-port", "0"]
    process = subprocess.Popen([*command, *options], stdout=log, stderr=subprocess.STDOUT, env={**os.environ})
    try:
        deadline = time.monotonic() + patience_seconds
        while "is ready at" not in (folder / "server.log").read_text():
            assert process.poll() is None, (folder / "server.log").read_text()
            assert time.monotonic() < deadline, (
                "the server did not become ready: " + (folder / "server.log").read_text()
            )
            time.sleep(0.05)
        yield Server(kubeconfig, folder, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()
