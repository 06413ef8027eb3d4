"""Confirmation of deletions and evictions.

The question names the context and the server; `--yes` answers it, and without a terminal nothing is done. Ctrl-C
means no. An event loop catches Ctrl-C and only cancels its task, which a prompt does not notice, and `input` loses a
Ctrl-C that comes just before the terminal is read; so the default handler is restored meanwhile.
"""

from __future__ import annotations

import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from weir.cli._options import Option
from weir.inputs.live import Live
from weir.output import say

yes_option: Final[Option] = click.option("-y", "--yes", is_flag=True, help="Do not ask.")

_ANSWERS: Final = {"y": True, "yes": True, "n": False, "no": False, "": False}


def can_ask() -> bool:
    """Return whether there is a terminal to ask on."""
    return sys.stdin.isatty()


def check_askable(yes: bool) -> None:
    """Raise when consent is needed and cannot be given."""
    if not yes and not can_ask():
        raise click.UsageError("this asks before it acts, and here is no terminal to ask on: add --yes")


def agreed(what: str, live: Live, yes: bool) -> bool:
    """Return whether *what* may be done in the cluster of *live*. Raises click.Abort on Ctrl-C."""
    return agreed_here(f"{what} in {live.cluster_name()}", yes)


def agreed_here(what: str, yes: bool) -> bool:
    """Return whether *what*, which names its place itself, may be done; else as `agreed`."""
    check_askable(yes)
    if yes:
        say(what, err=True)
        return True
    try:
        with _interruptible() as interrupted:
            return _answer(what, interrupted)
    except KeyboardInterrupt:
        raise click.Abort from None


def _answer(what: str, interrupted: socket.socket | None) -> bool:
    while True:
        say(f"{what}? [y/N]: ", nl=False, err=True)
        if interrupted is not None:
            select.select([sys.stdin, interrupted], [], [])
        line = sys.stdin.readline()
        if not line:
            raise click.Abort
        answer = line.strip().lower()
        if answer in _ANSWERS:
            return _ANSWERS[answer]
        say("write y or n", err=True)


@contextmanager
def _interruptible() -> Iterator[socket.socket | None]:
    """Let Ctrl-C raise KeyboardInterrupt; yield what becomes readable with it, None where signals do not arrive."""
    if threading.current_thread() is not threading.main_thread() or not can_ask():
        yield None
        return
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    descriptor = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    try:
        yield woken
    finally:
        signal.set_wakeup_fd(descriptor)
        signal.signal(signal.SIGINT, handler)
        woken.close()
        waker.close()
