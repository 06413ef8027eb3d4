"""`weir up --detach`: leaves the cluster running in the background.

Forks before anything starts; the child gets its own session and writes to DATA_DIR/up.log, the parent waits for its
greeting or its exit. SIGINT is blocked around the fork, because an exception there would be printed with a traceback
and lost.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from weir.cli.main import FINE, INTERRUPTED
from weir.cli.render import say, say_lines, write_document

PATIENCE_SECONDS: Final = 120.0


def detached(log: Path, ready: str, work: Callable[[], int]) -> int:
    """Run *work* in a process of its own; return once a line of its log begins with *ready*, or it has ended."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log.write_text("")
    log.chmod(0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()
    if not pid:
        _live_apart(log, work)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return _wait(pid, log, ready)
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        say(err=True)
        say("interrupted: it is stopped again", err=True)
        return INTERRUPTED


def _live_apart(log: Path, work: Callable[[], int]) -> None:
    """Be the child, to the end of the process."""
    code = 1
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        nothing = os.open(os.devnull, os.O_RDONLY)
        out = os.open(log, os.O_WRONLY | os.O_APPEND)
        os.dup2(nothing, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        code = work()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, log: Path, ready: str) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        said = log.read_text()
        if any(line.startswith(ready) for line in said.splitlines(keepends=True) if line.endswith("\n")):
            write_document(said, nl=False)
            return FINE
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            say_lines(log.read_text().splitlines(), err=True)
            return os.waitstatus_to_exitcode(status) or 1
        time.sleep(0.05)
    os.kill(pid, signal.SIGTERM)
    raise click.ClickException(f"it was not up within {PATIENCE_SECONDS:.0f} seconds: see {log}")
