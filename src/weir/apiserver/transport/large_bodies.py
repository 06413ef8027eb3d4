"""Per-user slots for reading large request bodies.

Bodies from `limits.LARGE_BODY_BYTES` on are processed one at a time off the loop (weir.apiserver.off_loop), so
reading them earlier only costs memory. A large request is read only when its user has a free slot, kept until it is
answered; until then its connection is not read. system:masters needs no slot.
"""

from __future__ import annotations

from typing import Protocol

from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.transport import limits

__all__ = ["LargeBodies"]


class Sender(Protocol):
    """A connection by which a large body comes."""

    def may_send(self) -> None:
        """Go on: there is a place now."""


class LargeBodies:
    """The places of all users, and who waits for one."""

    def __init__(self) -> None:
        self._whose: dict[Sender, str] = {}  # of those that have a place, and those that wait
        self._count: dict[str, int] = {}  # of places taken, by user
        self._waiting: dict[str, dict[Sender, None]] = {}  # by user, who came first first

    def enter(self, sender: Sender, user: User | None) -> bool:
        """Whether *sender* may send a large body of *user* now; else `may_send` tells it when."""
        if sender in self._whose or user is None or MASTERS in user.groups:
            return True
        name = self._whose[sender] = user.name
        count = self._count.get(name, 0)
        if count >= limits.MOST_LARGE_OF_ONE_USER:
            self._waiting.setdefault(name, {})[sender] = None
            return False
        self._count[name] = count + 1
        return True

    def leave(self, sender: Sender) -> None:
        """Free the place of *sender* for the next of its user, or take it out of their line."""
        name = self._whose.pop(sender, None)
        if name is None:
            return
        line = self._waiting.get(name, {})
        if sender in line:
            del line[sender]
        elif line:
            sender = next(iter(line))
            del line[sender]
            sender.may_send()
        else:
            self._count[name] -= 1
            if not self._count[name]:
                del self._count[name]
        if not line:
            self._waiting.pop(name, None)
