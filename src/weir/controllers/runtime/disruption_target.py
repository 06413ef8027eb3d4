"""The pod condition DisruptionTarget and the patch that writes it.

Spec: core.md 4.4, dra.md 7.4. The device taint eviction controller writes no observedGeneration, the taint eviction
controller does.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from weir.objects.times import format_time

Document = dict[str, Any]
TYPE = "DisruptionTarget"


def disruption_target(
    pod: Document, reason: str, message: str, now: datetime, *, observed_generation: bool = False
) -> Document | None:
    """Return the condition to write before the deletion; None when the pod says so already."""
    wanted: Document = {"type": TYPE, "status": "True", "reason": reason, "message": message}
    generation = pod["metadata"].get("generation")
    if observed_generation and generation:
        wanted["observedGeneration"] = generation
    present = next((c for c in pod.get("status", {}).get("conditions") or () if c.get("type") == TYPE), None)
    if present is not None and all(present.get(name) == value for name, value in wanted.items()):
        return None
    moved = present is None or present.get("status") != "True"
    since = format_time(now) if moved or present is None else present.get("lastTransitionTime")
    return {**wanted, "lastProbeTime": None, "lastTransitionTime": since}


def condition_patch(pod: Document, condition: Document) -> Document:
    """Return the strategic merge patch that adds or replaces the condition of this very pod."""
    present = [c.get("type") for c in pod.get("status", {}).get("conditions") or ()]
    order = [{"type": type} for type in dict.fromkeys([*present, condition["type"]])]
    status = {"$setElementOrder/conditions": order, "conditions": [condition]}
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
