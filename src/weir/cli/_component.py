"""Runs a component as a process: client, logs, metrics pages, graceful shutdown."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from weir.cli._loop import run_loop
from weir.cli._options import Live
from weir.cli.render import say
from weir.gates import Gates

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.observe.endpoint import Pages
    from weir.observe.logs import Log

#: What runs until it is cancelled, and what it shows about itself.
Component = tuple[Callable[[], Coroutine[Any, Any, None]], "Pages"]
Make = Callable[["Client", "Log"], Component]


def identity() -> str:
    """Return this process' identity for leader election."""
    return f"{socket.gethostname()}_{os.getpid()}"


def run_component(
    make: Make,
    live: Live,
    agent: str,
    log_name: str,
    gates: Gates | None,
    *,
    door: tuple[str, int] | None = None,
) -> None:
    """Run a component against a cluster until it is stopped; *door* is the address of its metrics pages."""
    if gates is not None:
        say(f"feature gates: {gates}", err=True)
    try:
        run_loop(_run(make, live, agent, log_name, door))
    except KeyboardInterrupt:
        say("stopped", err=True)


async def _run(make: Make, live: Live, agent: str, log_name: str, door: tuple[str, int] | None) -> None:
    from weir.observe.interpreter import calm_collector
    from weir.observe.logs import Log
    from weir.observe.stopping import stop_on

    client, log = live.connect(agent), Log(log_name)
    try:
        work, pages = make(client, log)
        calm_collector()
        async with AsyncExitStack() as stack:
            if door is not None:
                await _open(stack, door, pages, log)
            running = asyncio.ensure_future(work())
            stop_on(running.cancel, signal.SIGTERM)
            try:
                await running
            except asyncio.CancelledError:
                log.info("Stopped")
    finally:
        await client.close()


async def _open(stack: AsyncExitStack, door: tuple[str, int], pages: Pages, log: Log) -> None:
    from weir.observe.endpoint import serving

    host, wanted = door
    try:
        port = await stack.enter_async_context(serving(pages, wanted, host))
    except OSError as error:
        raise click.ClickException(f"--metrics-port {wanted} at {host}: {error.strerror or error}") from None
    log.info("Serving metrics", address=f"http://{host}:{port}/metrics")
