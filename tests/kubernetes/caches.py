"""A real API server's admission and authorization read caches that lag behind its store: wait for them.

What weir answers follows its store at once. So a request that depends on what was written a moment ago is first tried,
without effect, until both servers say the same, and only then asked. A true difference is still there when the
patience ends, and is found by the comparison itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

PATIENCE_SECONDS = 15.0
WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))


def both_answers(servers: Iterable[str], case: Any, ask: Callable[[str, Any], Any]) -> tuple[Any, Any]:
    """Return what the two *servers* say to *case*, once what it depends on has reached the caches of both."""
    first, second = servers
    trial, deadline = without_effect(case), time.monotonic() + PATIENCE_SECONDS
    while ask(first, trial) != ask(second, trial) and time.monotonic() < deadline:
        time.sleep(0.05)
    return ask(first, case), ask(second, case)


def without_effect(case: Any) -> Any:
    """Return a request that says what *case* says and writes nothing.

    >>> from tests.kubernetes.requests import Asked
    >>> without_effect(Asked("make", "POST", "/api/v1/namespaces")).path
    '/api/v1/namespaces?dryRun=All'
    >>> without_effect(Asked("read", "GET", "/api/v1/pods?limit=5")).path
    '/api/v1/pods?limit=5'
    """
    if case.method not in WRITES or "dryRun=" in case.path:
        return case
    return replace(case, path=f"{case.path}{'&' if '?' in case.path else '?'}dryRun=All")
