"""Runs a component as a process: client, logs, metrics pages, event loop, graceful shutdown."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import click

from weir.client.api import Client
from weir.gates import Gates
from weir.inputs.live import Live
from weir.observe.endpoint import Pages, serving
from weir.observe.interpreter import calm_collector, return_memory
from weir.observe.logs import Log
from weir.observe.stopping import stop_on
from weir.output import say


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run *main* to its end; what it frees goes back to the machine, which has to be said before there are threads."""
    return_memory()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (most, most)
    )  # as Go programs do: a connection is a descriptor
    try:
        import uvloop
    except ImportError:  # not on every platform
        asyncio.run(_reporting(main))
    else:
        uvloop.run(_reporting(main))


async def _reporting(main: Coroutine[Any, Any, None]) -> None:
    """Run *main*; what no task or connection of the loop catches is one line of the log."""
    log = Log("weir.loop")

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        log.error(str(context.get("message")), err=context.get("exception"))

    asyncio.get_running_loop().set_exception_handler(report)
    await main


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
    host, wanted = door
    try:
        port = await stack.enter_async_context(serving(pages, wanted, host))
    except OSError as error:
        raise click.ClickException(f"--metrics-port {wanted} at {host}: {error.strerror or error}") from None
    log.info("Serving metrics", address=f"http://{host}:{port}/metrics")
