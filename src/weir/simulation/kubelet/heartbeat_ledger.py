"""Ledger of postponed heartbeats under virtual time.

A healthy node's heartbeat changes nothing, so under virtual time it may be postponed: the node is recorded here as
reporting, its objects are updated before they are read, and node lifecycle does not count missing heartbeats for it.
A heartbeat written late is recorded with its due time. In real time there is no ledger.
"""

from __future__ import annotations

from datetime import datetime

from weir.clock import VirtualClock


class HeartbeatLedger:
    """Written by simulated kubelets, read by node lifecycle (weir.controllers.nodes.lifecycle)."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._in_time: set[str] = set()
        self._ended: list[tuple[str, datetime]] = []
        self._made: dict[str, dict[str, datetime]] = {}  # node → text of a late report → when it was due

    # ── kubelets write ───────────────────────────────────────────────────────────────────────────

    def begin(self, node: str) -> None:
        """*node* is in time from now on, its heartbeats unwritten."""
        self._in_time.add(node)

    def end(self, node: str, last: datetime) -> None:
        """*node* may stop reporting: its last heartbeat was due at *last*; later ones are written."""
        if node in self._in_time:
            self._in_time.discard(node)
            self._ended.append((node, last))

    def note(self, node: str, text: str, at: datetime) -> None:
        """A heartbeat of *node*, now written as *text*, was due *at* this time."""
        made = self._made.setdefault(node, {})
        made.pop(text, None)
        made[text] = at
        if len(made) > 2:  # one for the lease, one for the status
            del made[next(iter(made))]

    def forget(self, node: str) -> None:
        """*node* was deleted."""
        self._in_time.discard(node)
        self._made.pop(node, None)

    # ── node lifecycle reads ────────────────────────────────────────────────────────────────────

    def in_time(self, node: str) -> bool:
        """Return whether *node* sends its heartbeats in time, written or not."""
        return node in self._in_time

    def due_at(self, node: str, text: str) -> datetime | None:
        """Return when the heartbeat that says *text* was due, if it was written late."""
        return self._made.get(node, {}).get(text)

    def take_ended(self) -> list[tuple[str, datetime]]:
        """Return the nodes that stopped being in time since the last call, and when each sent its last heartbeat."""
        ended, self._ended = self._ended, []
        return ended
