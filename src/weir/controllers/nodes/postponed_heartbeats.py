"""Which heartbeats were not written one by one? What a simulation passes to node lifecycle.

Where time is real every heartbeat is written and nothing here is used: `NodeLifecycle` is given none. Under virtual
time the control plane passes one ledger to the simulated kubelets, which write it, and to node lifecycle, which reads
it through this interface; it is an argument like the clock, and part of how virtual time passes.
Not here: the ledger itself (weir.simulation.kubelet.heartbeat_ledger).
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
