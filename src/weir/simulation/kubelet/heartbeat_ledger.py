"""Which heartbeats of simulated nodes are postponed? The ledger of one simulation under virtual time.

A node that is well renews its Lease every ten seconds and nothing comes of it. Under virtual time such heartbeats may
be postponed: the node is noted here as in time, its documents are brought up to date before they are read, and node
lifecycle does not count the silence of such a node. A heartbeat that was written late is noted with the time at which
it was due, so that lifecycle counts from there. The control plane hands the ledger to both as an argument; where time
is real there is none, and every heartbeat is written.
Not here: when a node reports (weir.simulation.kubelet.heartbeats), what silence means
(weir.controllers.nodes.lifecycle).
"""

from __future__ import annotations

from datetime import datetime

from weir.clock import VirtualClock


class HeartbeatLedger:
    """Written by simulated kubelets, read by node lifecycle (weir.controllers.nodes.postponed_heartbeats)."""

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
        """*node* may fall silent: its last heartbeat was due at *last*; those from now on are written."""
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
