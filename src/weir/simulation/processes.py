"""Processes of `weir up`: scheduler, controllers, simulated nodes and further API servers under a supervisor.

Spec: decision 15. The API server's process forks a supervisor before it has threads; that imports the components'
modules while the server starts, forks each component when the server listens, and again whenever one exits. The
server holds one end of a socket: when it closes, because the server stops or is killed, everything ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weir.errors import WeirError
from weir.observe.logs import Log
from weir.simulation.component_gates import READERS, ComponentGates

if TYPE_CHECKING:
    from weir.apiserver.options import Options

FIRST_PAUSE_SECONDS: Final = 0.25  #: before a component that ended is started again; twice as long each time
LONGEST_PAUSE_SECONDS: Final = 10.0
FORGIVEN_SECONDS: Final = 60.0  #: of life, after which an end is the first one again
STOP_SECONDS: Final = 5.0  #: for components to exit after SIGTERM
_APISERVER: Final = "apiserver-"  #: begins the names of all API servers but the first
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15

log = Log("weir.up")
RunLoop = Callable[[Coroutine[Any, Any, None]], None]


@dataclass(frozen=True)
class Plan:
    """What the components are to be."""

    gates: ComponentGates
    controllers: tuple[str, ...] = ("*",)
    seed: int = 0
    #: open listening sockets of the metrics pages; a restarted component inherits its own
    doors: Mapping[str, socket.socket] = field(default_factory=dict)
    authority: Path | None = None  #: the folder of the authority that signs certificates
    server: Options | None = None  #: of the first API server, which the others share the port with
    apiservers: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The components that get a process.

        >>> Plan(ComponentGates(), apiservers=3).names
        ('scheduler', 'controllers', 'kubelet', 'apiserver-2', 'apiserver-3')
        """
        return (*READERS, *(f"{_APISERVER}{number}" for number in range(2, self.apiservers + 1)))


class EndedEarly(WeirError):
    """The process that looks after the components is gone."""


class Processes:
    """The components, as seen by the process that wants them."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid, self._control = pid, control

    @classmethod
    def fork(cls, plan: Plan, run_loop: RunLoop, let_go: Callable[[], None]) -> Processes:
        """Begin them, to be started later; this process must not have threads yet.

        *let_go* closes in the new process what belongs to this one alone.
        """
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        # What Ctrl-C raises in the interpreter's own hooks around a fork is printed with a traceback, and lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that was started
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            ours.close()
            let_go()
            _end_with(lambda: _Supervisor(plan, run_loop, theirs).run())
        theirs.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return cls(pid, ours)

    def start(self, path: Path, port: int) -> None:
        """Let every component begin, on the server whose local socket is at *path*, and which listens at *port*."""
        self._control.sendall(b"%d %b" % (port, os.fsencode(path)))

    async def watch_over(self) -> None:
        """Wait; raises when the supervisor has exited."""
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        loop.add_reader(self._control, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(self._control)
        raise EndedEarly("the process that looks after scheduler, controllers and nodes has ended")

    def stop(self) -> None:
        """End every component, and return when all have ended. Harmless when repeated."""
        self._control.close()
        if self.pid:
            with suppress(ChildProcessError):  # the parent may ignore SIGCHLD
                os.waitpid(self.pid, 0)
            self.pid = 0


@dataclass
class _Life:
    """One component, over all its processes."""

    pid: int = 0
    started: float = 0.0
    pause: float = FIRST_PAUSE_SECONDS
    due: float = 0.0  #: when it is to be started again, if it does not run


class _Supervisor:
    """Runs in a process of its own, without threads and without an event loop: it only forks and waits."""

    def __init__(self, plan: Plan, run_loop: RunLoop, control: socket.socket) -> None:
        self._plan, self._run_loop, self._control = plan, run_loop, control
        self._lives = {name: _Life() for name in plan.names}
        self._stopping = False
        self._path, self._port = Path(), 0
        self._here, self._alive = os.pipe()  # readable by the components once this process is gone

    def run(self) -> None:
        """Look after the components until the other end of the control socket is closed, or SIGTERM comes."""
        _call_it("weir-components")
        woken, wake = socket.socketpair()
        for end in (woken, wake):
            end.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._stop)
        import weir.simulation.components  # noqa: F401  # while the server starts

        gc.collect()
        gc.freeze()  # so that pages stay shared with the components
        if not (server := self._control.recv(4096)):
            return
        port, _, path = server.partition(b" ")
        self._path, self._port = Path(os.fsdecode(path)), int(port)
        for name in self._plan.names:
            self._start(name)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while not self._stopping:
                for key, _ in selector.select(self._until_due()):
                    if key.fileobj is self._control:
                        self._stopping = True
                    else:
                        woken.recv(4096)
                self._reap()
                if not self._stopping:
                    self._start_due()
        self._end_all()

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _start(self, name: str) -> None:
        life = self._lives[name]
        life.pid, life.started = os.fork(), time.monotonic()
        if not life.pid:
            self._control.close()
            os.close(self._alive)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            _call_it(f"weir-{name}")
            if name.startswith(_APISERVER):
                work = _serve(name, self._plan, self._port, self._here)
            else:
                work = _live(name, self._plan, self._path, self._here)
            _end_with(lambda: self._run_loop(work))

    def _reap(self) -> None:
        """Reap exited processes."""
        for name, life in self._lives.items():
            if not life.pid:
                continue
            ended, status = os.waitpid(life.pid, os.WNOHANG)
            if not ended:
                continue
            now = time.monotonic()
            if now - life.started > FORGIVEN_SECONDS:
                life.pause = FIRST_PAUSE_SECONDS
            life.pid, life.due = 0, now + life.pause
            if not self._stopping:
                log.warning(
                    "a component ended and is started again",
                    component=name,
                    by=_cause(os.waitstatus_to_exitcode(status)),
                    inSeconds=life.pause,
                )
            life.pause = min(2 * life.pause, LONGEST_PAUSE_SECONDS)

    def _until_due(self) -> float | None:
        dues = [life.due for life in self._lives.values() if not life.pid]
        return max(min(dues) - time.monotonic(), 0.0) if dues else None

    def _start_due(self) -> None:
        for name, life in self._lives.items():
            if not life.pid and life.due <= time.monotonic():
                self._start(name)

    def _end_all(self) -> None:
        """Terminate running processes: SIGTERM, then SIGKILL."""
        self._signal_all(signal.SIGTERM)
        until = time.monotonic() + STOP_SECONDS
        while any(life.pid for life in self._lives.values()):
            self._reap()
            if time.monotonic() > until:
                self._signal_all(signal.SIGKILL)
            time.sleep(0.005)

    def _signal_all(self, number: signal.Signals) -> None:
        for life in self._lives.values():
            if life.pid:
                os.kill(life.pid, number)


def _cause(code: int) -> str:
    """Say how a process ended.

    >>> _cause(-9), _cause(1)
    ('signal 9', 'exit code 1')
    """
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _end_with(work: Callable[[], None]) -> None:
    """Be *work* to the end of this process, which never returns to the code of the one it was forked from."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit:  # stopped while it computed
        code = 0
    except WeirError as error:
        log.error("a component failed", err=error)
    except Exception:
        log.exception("a component failed")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _call_it(name: str) -> None:
    """Give this process a name of its own in `ps`, and an end with its parent's, where the system has such calls."""
    with suppress(OSError, AttributeError):
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM if name == "weir-components" else signal.SIGKILL, 0, 0, 0)


async def _live(name: str, plan: Plan, path: Path, here: int) -> None:
    """Be one component until SIGTERM comes, or the process that looks after it is gone (*here* becomes readable)."""
    from weir.client.api import Client
    from weir.client.http import local_transport
    from weir.client.version_skew import OlderTransport
    from weir.client.wire import Transport
    from weir.clock import RealClock
    from weir.observe.endpoint import serving
    from weir.observe.interpreter import calm_collector, trim_for_ever
    from weir.observe.stopping import stop_on
    from weir.simulation.components import AGENTS

    clock = RealClock()
    transport: Transport = local_transport(path)
    if name in plan.gates.older:
        transport = OlderTransport(transport)
    client = Client(transport, clock=clock, user_agent=AGENTS[name])
    try:
        run, pages = _make(name, plan, client, clock)
        calm_collector()
        async with AsyncExitStack() as stack:
            if name in plan.doors:
                await stack.enter_async_context(serving(pages, plan.doors[name]))
            trimming = asyncio.ensure_future(trim_for_ever())
            working = asyncio.ensure_future(run())
            loop = asyncio.get_running_loop()
            stop_on(working.cancel, signal.SIGTERM)
            loop.add_reader(here, working.cancel)
            await asyncio.wait((working,))
            if not working.cancelled():
                working.result()
            trimming.cancel()
    finally:
        await client.close()


async def _serve(name: str, plan: Plan, port: int, here: int) -> None:
    """Be a further API server at *port*, as long as `_live` is a component."""
    from weir.apiserver.run import serving_api
    from weir.observe.endpoint import pages, serving
    from weir.observe.stopping import stop_on

    assert plan.server is not None
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        number = int(name.removeprefix(_APISERVER))
        options = replace(plan.server, secure_port=port, number=number)
        running = await stack.enter_async_context(serving_api(options))
        stop_on(stop.set, signal.SIGTERM)
        asyncio.get_running_loop().add_reader(here, stop.set)
        if name in plan.doors:
            shown = pages(running.metrics.render, lambda: True)
            await stack.enter_async_context(serving(shown, plan.doors[name]))
        await stop.wait()


def _make(
    name: str, plan: Plan, client: Any, clock: Any
) -> tuple[Callable[[], Coroutine[Any, Any, None]], Any]:
    """Return what runs, and what it shows about itself."""
    from weir.observe.endpoint import pages
    from weir.observe.metrics import add_process_metrics
    from weir.simulation.components import make_controllers, make_kubelets, make_scheduler

    gates = getattr(plan.gates, name)
    if name == "scheduler":
        scheduler = make_scheduler(client, gates, clock, plan.seed)
        add_process_metrics(scheduler.metrics.registry)
        return scheduler.run, scheduler.pages()
    if name == "controllers":
        controllers = make_controllers(
            client, gates, clock, plan.seed, plan.controllers, authority=plan.authority
        )
        add_process_metrics(controllers.metrics.registry)
        return controllers.run, controllers.pages()
    kubelets = make_kubelets(client, gates, clock, plan.seed)
    add_process_metrics(kubelets.metrics.registry)
    return kubelets.run, pages(kubelets.metrics.registry.render, lambda: True)
