"""Runs an API server: sockets, TLS, background tasks, graceful shutdown.

`serve` serves a built server; `run` opens the store, builds, serves and waits for the stop signal.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from weir.apiserver.auth import kubeconfig, pki
from weir.apiserver.build import build
from weir.apiserver.encryption.at_rest import AtRest
from weir.apiserver.identity_lease import IdentityLease
from weir.apiserver.options import Options, open_store
from weir.apiserver.own_endpoints import OwnEndpoints, advertised
from weir.apiserver.running import Running
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Handler
from weir.apiserver.transport.local_socket import local_socket
from weir.clock import Clock, RealClock
from weir.observe.interpreter import calm_collector, return_memory, trim_for_ever
from weir.observe.listener import listen
from weir.observe.logs import Log
from weir.observe.stopping import stop_on
from weir.store.compact import upkeep_loop

__all__ = ["run", "serve", "sweep"]

log = Log("weir.apiserver")
SWEEP_SECONDS = 5.0
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
        connections.protocol,
        options.bind_address or "127.0.0.1",
        options.secure_port,
        context,
        most_handshakes=connections.most_handshakes,
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
    lease = IdentityLease(running.server.verbs, clock, socket.gethostname(), address, instance)
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
    stop = asyncio.Event()
    stop_on(stop.set, signal.SIGTERM, signal.SIGINT)
    try:
        async with _beside(running):
            if ready is not None:
                ready(running)
            await stop.wait()
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
        access = kubeconfig.Access(f"unix://{socket_path}")
        kubeconfig.write(path, kubeconfig.document(access, "weir-local", "weir-local"))
        yield
