"""Interface for heartbeats that a simulation did not write one by one.

Under virtual time the simulated kubelets write a ledger (weir.simulation.kubelet.heartbeat_ledger) that node
lifecycle reads through this interface. In real time every heartbeat is written and `NodeLifecycle` gets none.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class PostponedHeartbeats(Protocol):
    """Heartbeats that are due but not written yet, or were written late."""

    def in_time(self, node: str) -> bool:
        """Return whether *node* sends its heartbeats in time, written or not."""

    def due_at(self, node: str, text: str) -> datetime | None:
        """Return when the heartbeat that says *text* was due, if it was written late."""

    def take_ended(self) -> list[tuple[str, datetime]]:
        """Return the nodes that stopped being in time since the last call, and when each sent its last heartbeat."""
