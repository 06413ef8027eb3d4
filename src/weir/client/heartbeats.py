"""Which nodes report without saying so? What simulated kubelets and node lifecycle agree on beside the API.

A node that is well renews its Lease every ten seconds and nothing comes of it. Under virtual time such reports may be
postponed: the node is noted here as *kept*, its documents are brought up to date before anybody reads them, and
node lifecycle does not count the silence of a kept node. A report that was written late is noted with the time at
which it was due, so that lifecycle counts from there. Only a simulation has such a ledger; where time is real, every
report is made.
Not here: when a node reports (weir.simulation.kubelet.heartbeats), what silence means
(weir.controllers.nodes.lifecycle).
"""

from __future__ import annotations

from datetime import datetime

from weir.clock import VirtualClock

__all__ = ["Heartbeats"]


class Heartbeats:
    """The ledger of one simulation: kubelets write it, node lifecycle reads it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._kept: set[str] = set()
        self._ended: list[tuple[str, datetime]] = []
        self._made: dict[str, dict[str, datetime]] = {}  # node → text of a late report → when it was due

    # ── kubelets say ─────────────────────────────────────────────────────────────────────────────

    def begin(self, node: str) -> None:
        """*node* reports in time from now on, unseen."""
        self._kept.add(node)

    def end(self, node: str, last: datetime) -> None:
        """*node* may fall silent: its last report was due at *last*; what it reports from now on is written."""
        if node in self._kept:
            self._kept.discard(node)
            self._ended.append((node, last))

    def note(self, node: str, text: str, at: datetime) -> None:
        """A report of *node*, now to be seen as *text*, was due *at* this time."""
        made = self._made.setdefault(node, {})
        made.pop(text, None)
        made[text] = at
        if len(made) > 2:  # one for the lease, one for the status
            del made[next(iter(made))]

    def forget(self, node: str) -> None:
        """*node* is no more."""
        self._kept.discard(node)
        self._made.pop(node, None)

    # ── node lifecycle asks ──────────────────────────────────────────────────────────────────────

    def keeps(self, node: str) -> bool:
        """Return whether *node* reports in time, seen or not."""
        return node in self._kept

    def made_at(self, node: str, text: str) -> datetime | None:
        """Return when the report that says *text* was due, if it was written late."""
        return self._made.get(node, {}).get(text)

    def take_ended(self) -> list[tuple[str, datetime]]:
        """Return the nodes that stopped being kept since this was last asked, and when each reported last."""
        ended, self._ended = self._ended, []
        return ended
