"""Runs an API server: sockets, TLS, background tasks, graceful shutdown.

`serve` serves a built server; `run` opens the store, builds, serves and waits for the stop signal.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import ssl
import stat
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from weir.apiserver.auth import pki
from weir.apiserver.build import Running, build
from weir.apiserver.compat.encryption.configuration import AtRest
from weir.apiserver.options import Options, open_store
from weir.apiserver.own_endpoints import IdentityLease, OwnEndpoints, advertised
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Handler
from weir.apiserver.transport.protocol import HttpProtocol
from weir.clock import Clock, RealClock
from weir.observe.interpreter import calm_collector, return_memory, trim_for_ever
from weir.observe.listener import listen
from weir.observe.logs import Log
from weir.observe.stopping import stop_on
from weir.store.memory import upkeep_loop

# ── unix socket for components on the same machine, without TLS ──
# A client that can open the socket acts as administrator: it is in a folder that only its owner may enter. Requests go
# through authentication, authorization and admission with the administrator's current certificate. Unix socket paths
# are limited to about a hundred bytes; for longer data folders, or one that others may enter, the socket is in a
# temporary folder. Its server holds a lock there while it lives, so that the next start removes those of killed
# servers only.


NAME: Final = "api.sock"
LOCK: Final = "lock"
PREFIX: Final = "weir-socket-"
LONGEST: Final = 100  #: bytes; the shortest bound among systems is 104, with a byte for its end


@asynccontextmanager
async def local_socket(
    connections: Connections, folder: Path, whose: Callable[[], bytes | None], name: str = NAME
) -> AsyncIterator[Path]:
    """Listen while the block runs, and give the socket's path; *whose* is the certificate that requests count for."""
    path = folder.resolve() / name
    own, lock = None, -1
    if len(os.fsencode(path)) > LONGEST or not _is_private(folder):
        remove_abandoned()
        own = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(own / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = own / name
    with suppress(FileNotFoundError):
        path.unlink()  # of a process that was killed
    before = os.umask(0o177)
    try:
        server = await asyncio.get_running_loop().create_unix_server(
            partial(HttpProtocol, connections, whose), str(path), backlog=1024
        )
    finally:
        os.umask(before)
    try:
        yield path
    finally:
        server.close()
        with suppress(OSError):
            path.unlink()
        if own is not None:
            with suppress(OSError):
                (own / LOCK).unlink()
                own.rmdir()
            os.close(lock)


def remove_abandoned() -> None:
    """Remove the socket folders of servers of this user that no longer live.

    A folder without a socket may be one that is just being made: the lock is taken before the socket appears.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            sockets = [each for each in folder.iterdir() if each.name != LOCK]
            if not sockets or not all(stat.S_ISSOCK(each.lstat().st_mode) for each in sockets):
                continue
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a live server has it: BlockingIOError
                for each in sockets:
                    each.unlink()
                (folder / LOCK).unlink()
                folder.rmdir()
            finally:
                os.close(lock)


def _is_private(folder: Path) -> bool:
    """Return whether only its owner may enter *folder*."""
    found = folder.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


# ── runs an API server: sockets, TLS, background tasks, graceful shutdown ──


log = Log("weir.apiserver")
SWEEP_SECONDS = 1.0  # so that connections whose time is over do not all come back at once
SWITCH_SECONDS = 0.00002
RENEW_SECONDS = 60.0  # how often certificates are looked at; the time of day may have been set meanwhile


async def serve(running: Running, clock: Clock) -> None:
    """Listen, and write the kubeconfig that reaches this server."""
    options, credentials = running.options, running.credentials
    loop = asyncio.get_running_loop()
    handle: Handler = running.server.handle
    if running.blocking is not None:
        handle = running.blocking.measured(running.server.handle)
    connections = running.connections = Connections(
        handle,
        running.server.prove,
        running.metrics.refused,
        allows=running.server.allows,
        divides=options.priority_and_fairness,
    )
    running.server.verbs.off_loop.start()
    context: ssl.SSLContext | None = None
    if not options.insecure and credentials is not None:
        context = running.serving = pki.serving_context(credentials)
        shown = [credentials.server_cert_path, credentials.server_key_path, credentials.ca_path]
        running.files.follow(shown, running.load_serving)
    running.listener = await listen(
        partial(HttpProtocol, connections),
        options.bind_address or "127.0.0.1",
        options.secure_port,
        context,
        most_handshakes=connections.most_handshakes,
        shared=options.shares_port,
    )
    running.port = running.listener.port
    running.chores.append(loop.create_task(upkeep_loop(running.store, clock)))
    running.chores.append(loop.create_task(sweep(connections)))
    running.chores.append(loop.create_task(trim_for_ever()))
    running.chores.append(loop.create_task(running.files.run(clock)))
    running.chores.append(loop.create_task(_renew(running, clock)))
    if running.keeper is not None:
        running.chores.append(loop.create_task(running.keeper.run(clock)))
    address = f"{options.bind_address or '127.0.0.1'}:{running.port}"
    instance = str(uuid.UUID(bytes=options.random_bytes(16), version=4))
    log.v(1, "Serving", address=address, store=options.store, gates=options.gates)
    known_at = advertised(options.bind_address)
    if known_at and options.bind_address in ("0.0.0.0", "::"):
        address = f"{known_at}:{running.port}"
    verbs, hostname = running.server.verbs, socket.gethostname()
    lease = IdentityLease(verbs, clock, hostname, address, instance, options.number)
    running.chores.append(loop.create_task(lease.run()))
    if known_at:
        endpoints = OwnEndpoints(running.server.verbs, clock, known_at, running.port)
        running.chores.append(loop.create_task(endpoints.run()))
    running.write_kubeconfig()


def tune_interpreter() -> None:
    """Look for cycles rarely, and let the store's writer in soon.

    The writer wants the interpreter for moments, twice per group of writes, and a busy loop would keep it (and the
    disk) waiting for Python's five milliseconds each time. The loop in turn takes the interpreter anew for every socket
    that has something: while large documents are read beside it, it waits this long each time (decision 18).
    """
    calm_collector()
    return_memory()
    sys.setswitchinterval(SWITCH_SECONDS)


async def _renew(running: Running, clock: Clock) -> None:
    """Make certificates anew before they end."""
    while True:
        await clock.sleep(RENEW_SECONDS)
        try:
            running.renew(clock.now())
        except (pki.PkiError, OSError) as error:
            log.error("the certificates cannot be renewed", err=error)


async def sweep(connections: Connections) -> None:
    """Close connections that hold a place without using it."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        connections.sweep(loop.time())


async def run(options: Options, *, ready: Callable[[Running], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    async with serving_api(options) as running:
        stop_on(stop.set, signal.SIGTERM, signal.SIGINT)
        if ready is not None:
            ready(running)
        await stop.wait()


@asynccontextmanager
async def serving_api(options: Options) -> AsyncIterator[Running]:
    """Serve while the block runs, in a process for nothing else."""
    clock = RealClock()
    at_rest = AtRest(options.encryption_config)
    store = await open_store(options, clock, at_rest)
    try:
        running = await build(options, store, clock)
        if options.encryption_config is not None and options.encryption_reload:
            running.files.follow([options.encryption_config], at_rest.reload)
    except BaseException:
        await store.close()
        raise
    await serve(running, clock)
    tune_interpreter()
    try:
        async with _beside(running):
            yield running
    finally:
        await running.stop()


@asynccontextmanager
async def _beside(running: Running) -> AsyncIterator[None]:
    """Serve components of this machine on a Unix socket while the block runs, if configured."""
    connections, path = running.connections, running.options.local_kubeconfig
    if connections is None or path is None:
        yield
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{path.stem}.sock"
    async with local_socket(connections, path.parent, lambda: running.admin_certificate, name) as socket_path:
        access = pki.Access(f"unix://{socket_path}")
        pki.write_kubeconfig(path, pki.kubeconfig_document(access, "weir-local", "weir-local"))
        yield
