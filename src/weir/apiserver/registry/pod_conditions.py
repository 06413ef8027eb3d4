"""Pod conditions that the API server itself sets: on binding and on eviction.

Spec: apiserver.md 12 "Subresources". The time of a condition is that of its last change of status.
"""

from __future__ import annotations

from typing import Any

__all__ = ["set_condition"]

Document = dict[str, Any]


def set_condition(pod: Document, condition: Document, now: str) -> bool:
    """Set a condition of the pod's status; return whether that changed anything."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    before = next((c for c in conditions if c.get("type") == condition["type"]), None)
    changed_at = now
    if before is not None and before.get("status") == condition["status"]:
        changed_at = before.get("lastTransitionTime") or now
    new: Document = {
        "type": condition["type"],
        "status": condition["status"],
        "lastProbeTime": None,
        "lastTransitionTime": changed_at,
        **{key: condition[key] for key in ("reason", "message") if key in condition},
    }
    if before is None:
        conditions.append(new)
        return True
    if before == new:
        return False
    conditions[conditions.index(before)] = new
    return True
