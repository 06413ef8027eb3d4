"""Persistent volumes: the phase and when it last changed.

Spec: apiserver.md 5.2 (PersistentVolume).
"""

from __future__ import annotations

from weir.apiserver.strategies.strategy import Context, Document, Strategy
from weir.objects.kinds import Kind


class PersistentVolumeStrategy(Strategy):
    """What the server does to persistent volumes."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Start pending, now."""
        new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": context.now}

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Note the time of a change of phase, unless the writer named it."""
        before, after = old.get("status") or {}, new.get("status") or {}
        if before.get("phase") != after.get("phase") and before.get("lastPhaseTransitionTime") == after.get(
            "lastPhaseTransitionTime"
        ):
            new["status"] = {**after, "lastPhaseTransitionTime": context.now}
