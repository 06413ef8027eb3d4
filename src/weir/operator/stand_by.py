"""Release of gated pods by any replica while there is no leader.

A leader that is killed holds its Lease until it expires, and there is no leader meanwhile. Releasing needs no leader:
what orders it with barriers is the table of triples and the pod's resourceVersion, wherever it is done
(weir.operator.barrier). The leader only saves the others the work. So a pod that is still gated after a few seconds is
released by any replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from weir.client.cache import Cache, ObjectKey
from weir.client.queue import WorkQueue, work
from weir.clock import Clock
from weir.operator.views import LoweredPod

#: Longer than a leader takes, shorter than people wait.
STAND_BY_SECONDS: Final = 3.0
_WORKERS: Final = 4


class StandBy:
    """Releases pods that the leader leaves waiting; does nothing while this replica *leads* itself."""

    def __init__(
        self,
        clock: Clock,
        pods: Cache[LoweredPod],
        release: Callable[[LoweredPod], Awaitable[None]],
        failed: Callable[[ObjectKey, Exception], None],
        leads: Callable[[], bool],
    ) -> None:
        self._clock, self._pods, self._leads = clock, pods, leads
        self._release, self._failed = release, failed
        self._queue: WorkQueue[ObjectKey] | None = None
        pods.listen(self._changed)

    async def run(self) -> None:
        """Stand by until cancelled."""
        queue: WorkQueue[ObjectKey] = WorkQueue(self._clock, longest_retry_seconds=10.0)
        self._queue = queue
        tasks = [asyncio.ensure_future(work(queue, self._look, failed=self._failed)) for _ in range(_WORKERS)]
        try:
            for pod in self._pods:
                self._changed(None, pod)
            await asyncio.gather(*tasks)
        finally:
            self._queue = None
            queue.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _changed(self, old: LoweredPod | None, new: LoweredPod | None) -> None:
        if self._queue is None or new is None or not new.gated or new.ended or self._leads():
            return
        if old is None or not old.gated:
            self._queue.add_after(ObjectKey(new.metadata.namespace, new.metadata.name), STAND_BY_SECONDS)

    async def _look(self, key: ObjectKey) -> None:
        pod = self._pods.get(key)
        if pod is not None and pod.gated and not pod.ended and not self._leads():
            await self._release(pod)
