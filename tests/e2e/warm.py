"""Starts `weir` without importing it anew: a process that has everything imported forks, and the fork is the command.

Importing weir takes most of a second of a processor, and the tests of this folder start a hundred commands. `WARM` is
what a test puts before a command's words instead of `python -m weir`: a small program that hands its words, folder,
environment and streams to the process that forks, passes on the signals it gets, and ends as the command ends. Killed,
it takes the command with it.

Not here: commands whose own process is looked at (`COLD`), and terminals. test_person_day.py starts commands from
the wheel as people do.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import sys
from contextlib import suppress

#: What is passed on to the command; SIGKILL is noticed by the connection's end.
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
COLD = [sys.executable, "-m", "weir.cli.main"]


def start() -> list[str]:
    """Start the process that forks, for as long as this one lives; return the words that come before a command's."""
    import subprocess
    import tempfile
    from pathlib import Path

    folder = tempfile.TemporaryDirectory(prefix="weir-warm-")
    address = f"{folder.name}/socket"
    forker = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.warm", "--serve", address],
        stdin=subprocess.PIPE,  # closed when this process ends, however it does
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )
    assert forker.stdin is not None and forker.stdout is not None
    assert forker.stdout.readline() == b"ready\n"

    def stop() -> None:
        forker.stdin.close()
        forker.wait(60)
        folder.cleanup()

    atexit.register(stop)
    return [sys.executable, "-I", "-S", __file__, address]


class _Warm:
    """The words before a command's; the process that forks is started by who asks first."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._pid = 0

    def __iter__(self):
        if self._pid != os.getpid():
            self._words, self._pid = start(), os.getpid()
        return iter(self._words)


WARM = _Warm()


# ── the process that forks ───────────────────────────────────────────────────────────────────────


def serve(address: str) -> None:
    import gc
    import selectors

    import_everything()
    gc.collect()
    gc.freeze()  # so that pages stay shared with the commands
    here = socket.socket(socket.AF_UNIX)
    here.bind(address)
    here.listen(64)
    waker, woken = socket.socketpair()
    woken.setblocking(False)
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watched = selectors.DefaultSelector()
    for each in (here, woken, sys.stdin.buffer):
        watched.register(each, selectors.EVENT_READ)
    running: dict[socket.socket, int] = {}
    print("ready", flush=True)
    while True:
        for key, _ in watched.select():
            if key.fileobj is here:
                asked, _ = here.accept()
                words, folder, environment, streams = receive(asked)
                child = os.fork()
                if child == 0:
                    watched.close()
                    for each in (here, waker, woken, *running):
                        each.close()
                    become(words, folder, environment, streams, asked)
                for stream in streams:
                    os.close(stream)
                running[asked] = child
                watched.register(asked, selectors.EVENT_READ)
            elif key.fileobj is woken:
                woken.recv(4096)
                for asked, child in list(running.items()):
                    ended, status = os.waitpid(child, os.WNOHANG)
                    if ended:
                        watched.unregister(asked)
                        del running[asked]
                        answer(asked, os.waitstatus_to_exitcode(status))
            elif key.fileobj is sys.stdin.buffer:
                for child in running.values():
                    os.kill(child, signal.SIGKILL)
                return
            elif key.fileobj in running:
                for number in key.fileobj.recv(64) or bytes([signal.SIGKILL]):
                    os.kill(running[key.fileobj], number)


def import_everything() -> None:
    import importlib
    import pkgutil

    import weir.cli

    for module in pkgutil.iter_modules(weir.cli.__path__, "weir.cli."):
        if module.name != "weir.cli.start":  # changes what Ctrl-C does
            importlib.import_module(module.name)
    import weir.apiserver.run
    import weir.simulation.cluster
    import weir.simulation.control_plane
    import weir.simulation.processes
    import weir.store.sqlite


def receive(asked: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]]:
    text, streams, _, _ = socket.recv_fds(asked, 1 << 20, 3)
    while not text.endswith(b"\n"):
        text += asked.recv(1 << 20)
    words, folder, environment = json.loads(text)
    return words, folder, environment, list(streams)


def become(
    words: list[str], folder: str, environment: dict[str, str], streams: list[int], asked: socket.socket
) -> None:
    """Be the command, to the end of this process."""
    code = 1
    try:
        asked.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["weir", *words]
        from weir.cli.start import main

        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def answer(asked: socket.socket, code: int) -> None:
    with asked, suppress(OSError):  # who asked may have been killed
        asked.sendall(b"%d\n" % code)


# ── the small program ────────────────────────────────────────────────────────────────────────────


def ask(address: str, words: list[str]) -> int:
    """Run a command by the process that forks; return its exit code, or end by the signal that ended it."""
    there = socket.socket(socket.AF_UNIX)
    there.connect(address)
    for number in PASSED_ON:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: there.sendall(bytes([number])))
    here = os.getcwd()  # noqa: PTH109 (this program imports little: it is started a hundred times)
    message = json.dumps([words, here, dict(os.environ)]).encode() + b"\n"
    sent = socket.send_fds(there, [message], [0, 1, 2])
    if sent < len(message):  # else a quick command may have ended already
        there.sendall(message[sent:])
    for stream in (0, 1, 2):  # who waits for the end of what is written waits for the command's
        os.close(stream)
    said = b""
    while not said.endswith(b"\n"):
        part = there.recv(64)
        if not part:
            return 70
        said += part
    code = int(said)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        os._exit(ask(sys.argv[1], sys.argv[2:]))
