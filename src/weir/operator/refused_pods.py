"""Retry of pods that were refused while no operator answered: their controllers are asked to look again.

Spec: stock.md 9. A controller whose pod is refused waits twice as long after each refusal, many minutes after a long
outage; any change of its workload ends that wait. So once this replica answers, each extended workload that is short
of pods has `status.observedGeneration` set back by one, which its controller puts right when it looks. Nothing that an
author wrote is touched and nothing is left behind. An API server may reach the operator only some seconds later, so
this is done a few times.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from weir import errors
from weir.client.api import Client, Unreachable
from weir.clock import Clock
from weir.lowering.names import ANNOTATED, ANNOTATED_AFFINITY, OPERATOR, REQUIREMENTS, TOLERATIONS
from weir.lowering.templates import template_of
from weir.objects.kind import Document, Kind
from weir.objects.kinds import by_kind
from weir.observe.logs import Log

KINDS: Final = tuple(by_kind("apps/v1", kind) for kind in ("DaemonSet", "ReplicaSet", "StatefulSet"))
#: Before each look: a Service needs some seconds to lead to a pod that has become ready.
PAUSES: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_EXTENDED: Final = (ANNOTATED, ANNOTATED_AFFINITY, TOLERATIONS, REQUIREMENTS)


def is_short_of_pods(workload: Mapping[str, Any], kind: str) -> bool:
    """Return whether an extended *workload* has fewer pods than its controller has seen that it should have.

    >>> template = {"metadata": {"annotations": {"weir.dev/tolerations": "[]"}}}
    >>> is_short_of_pods({"spec": {"replicas": 2, "template": template}, "status": {"replicas": 1}}, "ReplicaSet")
    True
    """
    metadata, status = workload.get("metadata") or {}, workload.get("status") or {}
    annotations = (template_of(workload, kind).get("metadata") or {}).get("annotations") or {}
    if metadata.get("deletionTimestamp") or annotations.keys().isdisjoint(_EXTENDED):
        return False
    if kind == "DaemonSet":
        wanted, there = status.get("desiredNumberScheduled"), status.get("currentNumberScheduled")
    else:
        wanted, there = (workload.get("spec") or {}).get("replicas", 1), status.get("replicas")
    return (there or 0) < (wanted or 0)


class RefusedPods:
    """Wakes the controllers of workloads that are short of pods."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._log = Log("weir.operator")

    async def run(self) -> None:
        """Look a few times, and end."""
        for pause in PAUSES:
            await self._clock.sleep(pause)
            try:
                for kind in KINDS:
                    await self._wake(kind)
            except (errors.ApiError, Unreachable) as error:
                self._log.warning("Controllers could not be asked to try again", error=str(error))

    async def _wake(self, kind: Kind) -> None:
        async for page in self._client.pages(kind):
            short = [each for each in page.documents() if is_short_of_pods(each, kind.kind)]
            for workload in short:
                await self._look_again(kind, workload)

    async def _look_again(self, kind: Kind, workload: Document) -> None:
        metadata, seen = workload["metadata"], (workload.get("status") or {}).get("observedGeneration") or 0
        if seen < metadata["generation"]:
            return  # a change that its controller is about to look at
        patch = {"status": {"observedGeneration": seen - 1}}
        with suppress(errors.NotFound):
            await self._client.patch(
                kind,
                metadata["name"],
                patch,
                metadata["namespace"],
                subresource="status",
                field_manager=OPERATOR,
                read=False,
            )
