"""The annotation `endpoints.kubernetes.io/last-change-trigger-time`: when the oldest unprocessed change happened.

Triggers are a Service's creation and a pod's readiness change. A deleted pod gives no time, and then none is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weir.controllers.network.service_endpoints import ServiceKey
from weir.controllers.runtime.views import Pod

ANNOTATION: Final = "endpoints.kubernetes.io/last-change-trigger-time"


class TriggerTimes:
    """What was seen of each Service at the last look."""

    def __init__(self) -> None:
        self._seen: dict[ServiceKey, tuple[str, dict[str, str]]] = {}

    def forget(self, key: ServiceKey) -> None:
        """Forget a Service that is gone."""
        self._seen.pop(key, None)

    def look(self, key: ServiceKey, service: Mapping[str, Any], pods: Iterable[Pod]) -> str | None:
        """Return when the oldest change since the last look happened; None when it is unknown."""
        made, before = self._seen.get(key, ("", {}))
        created = service["metadata"].get("creationTimestamp") or ""
        times = {pod.metadata.name: at for pod in pods if (at := _ready_since(pod))}
        changed = [at for name, at in times.items() if at > before.get(name, "")]
        if created > made:
            changed.append(created)
        self._seen[key] = created, times
        return min(changed, default=None)


def _ready_since(pod: Pod) -> str:
    found = pod.status.condition("Ready")
    return (found.last_transition_time or "") if found is not None else ""
