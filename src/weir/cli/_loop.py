"""The event loop of a component's process: uvloop if available."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Coroutine
from typing import Any

from weir.observe.interpreter import return_memory
from weir.observe.logs import Log


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
