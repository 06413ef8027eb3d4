"""What has to be true before a pod is bound? Promises of plugins are written down and waited for.

Spec: core.md 3.1 "PreBind", 3.7.6. A plugin promised something when the node was chosen (Reserve); here it reaches the
API server. While a promise needs others to act (a volume to be made), the room for a binding is lent to other pods.
Not here: what is promised (weir.scheduler.plugins), the binding itself (weir.scheduler.run).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from weir.client.api import Client
from weir.clock import Clock
from weir.errors import WeirError
from weir.objects.kinds import by_kind
from weir.scheduler.framework import PluginError
from weir.scheduler.profile import Reservation

_CHECK_SECONDS: Final = 0.2


async def keep(
    promises: Iterable[Reservation], client: Client, clock: Clock, room: asyncio.Semaphore, patience: float
) -> None:
    """Write what was promised and wait until it is so, *patience* seconds at most; raises PluginError."""
    for promise in promises:
        prefix = f'running PreBind plugin "{promise.plugin}"'
        try:
            for write in promise.writes():
                kind = by_kind("v1", write.kind)
                answer = await client.patch(kind, write.name, write.patch, write.namespace)
                promise.wrote(write, answer["metadata"].get("resourceVersion", ""))
            if not promise.settled():
                room.release()  # others are bound meanwhile
                try:
                    await _settle(promise, clock, patience)
                finally:
                    await room.acquire()
        except (WeirError, OSError, TimeoutError) as error:
            raise PluginError(f"{prefix}: binding volumes: {error}") from error
        except PluginError as error:
            raise PluginError(f"{prefix}: {error}") from error


async def _settle(promise: Reservation, clock: Clock, patience: float) -> None:
    deadline = clock.monotonic() + patience
    while not promise.settled():
        if clock.monotonic() >= deadline:
            raise PluginError("binding volumes: context deadline exceeded")
        await clock.sleep(_CHECK_SECONDS)
