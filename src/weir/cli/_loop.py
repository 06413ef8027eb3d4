"""The event loop of a component's process: uvloop if available."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from weir.observe.interpreter import return_memory


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run *main* to its end; what it frees goes back to the machine, which has to be said before there are threads."""
    return_memory()
    try:
        import uvloop
    except ImportError:  # not on every platform
        asyncio.run(main)
    else:
        uvloop.run(main)
