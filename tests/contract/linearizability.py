"""Linearizability check: a history of concurrent operations on one key has some sequential order that explains it.

Wing and Gong's search with Lowe's memory of configurations seen: an operation may come next if nothing
that had already ended before it began is still waiting, and if it fits the state. Every write
has a value of its own, so a value stands for a version.
"""

from __future__ import annotations

from dataclasses import dataclass

ANY = b"*"  # no expectation
State = bytes | None


@dataclass(frozen=True)
class Operation:
    """One call: when it was made, when it was answered (None: never), and what was answered.

    action: "read" (found: what it saw), "write" (expect → value; None as value deletes). outcome: "done",
    "refused" (found: what was there instead) or "unknown" (it may or may not have happened).
    """

    began: int
    ended: int | None
    action: str
    outcome: str = "done"
    expect: State = ANY
    value: State = None
    found: State = None

    def next_states(self, state: State) -> list[State]:
        """Return the states that may follow *state*; none if this cannot happen in it."""
        if self.action == "read":
            return [state] if state == self.found else []
        holds = self.expect in (ANY, state) and not (self.value is None and state is None)
        if self.outcome == "unknown":
            return [state, self.value] if holds else [state]
        if self.outcome == "refused":
            return [state] if not holds and state == self.found else []
        return [self.value] if holds else []


def is_linearizable(history: list[Operation], start: State = None) -> bool:
    """Return whether *history* is explained by some order, beginning in state *start*.

    >>> create = Operation(0, 3, "write", expect=None, value=b"x")
    >>> is_linearizable([create, Operation(1, 2, "read", found=b"x")])
    True
    >>> is_linearizable([create, Operation(4, 5, "read", found=None)])
    False
    """
    operations = sorted(history, key=lambda operation: operation.began)
    ends = [
        float("inf") if one.ended is None or one.outcome == "unknown" else one.ended for one in operations
    ]
    everything = (1 << len(operations)) - 1
    stack: list[tuple[int, State]] = [(0, start)]
    seen = {(0, start)}
    while stack:
        done, state = stack.pop()
        if done == everything:
            return True
        horizon = min(end for at, end in enumerate(ends) if not done >> at & 1)
        for at, operation in enumerate(operations):
            if done >> at & 1:
                continue
            if operation.began > horizon:
                break
            for after in operation.next_states(state):
                configuration = (done | 1 << at, after)
                if configuration not in seen:
                    seen.add(configuration)
                    stack.append(configuration)
    return False
