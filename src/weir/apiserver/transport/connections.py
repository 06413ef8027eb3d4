"""Open connections of a server, and bounds on what they hold together.

Per-connection bounds do not bound the sum, so these are counted over all connections:
- request bodies: a user may hold at most what is still free of `RECEIVED_BYTES`, so there is always room for another
  user; beyond, 429;
- unsent responses: beyond `UNSENT_BYTES` the reader idle for longest is disconnected;
- unauthenticated connections: beyond `MOST_SILENT` that have sent nothing, and beyond `MOST_UNPROVEN` that have sent
  something, the oldest is disconnected;
- connections of one user: beyond `MOST_OF_ONE_USER` a new one gets 429.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.transport import limits
from weir.apiserver.transport.http import Handler, Request

# ── per-user slots for reading large request bodies ──
# Bodies from `limits.LARGE_BODY_BYTES` on are processed one at a time off the loop (weir.apiserver.off_loop), so
# reading them earlier only costs memory. A large request is read only when its user has a free slot, kept until it is
# answered; until then its connection is not read. system:masters needs no slot.


class Connection(Protocol):
    """What is asked of one connection (weir.apiserver.transport.protocol)."""

    @property
    def over_tls(self) -> bool: ...

    def may_send(self) -> None:
        """Go on with a large body: there is a place now."""

    def abort(self) -> None: ...
    def close_when_idle(self) -> None: ...
    def check_time(self, now: float) -> None: ...


class LargeBodies:
    """The places of all users, and who waits for one."""

    def __init__(self) -> None:
        self._whose: dict[Connection, str] = {}  # of those that have a place, and those that wait
        self._count: dict[str, int] = {}  # of places taken, by user
        self._waiting: dict[str, dict[Connection, None]] = {}  # by user, who came first first

    def enter(self, sender: Connection, user: User | None) -> bool:
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

    def is_crowded(self, user: User | None) -> bool:
        """Return whether more bodies of *user* wait for a place than may."""
        return user is not None and len(self._waiting.get(user.name, ())) > limits.MOST_LARGE_WAITING

    def leave(self, sender: Connection) -> None:
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


# ── fair turns on one event loop: callers take turns by name (a user, an address), not by arrival ──
# Spec: decision 14. Only `REQUESTS_A_TURN` start per loop turn; waiting calls start name by name, so that a caller with
# few waits for one turn, however many another has. If nothing waits, a call starts at once.


REQUESTS_A_TURN = 8
PAUSE_SECONDS = 0.005  # between looks at whether a call can start


class FairTurns:
    """The requests that are here and not begun, by user."""

    def __init__(self, can_start: Callable[[], bool] = lambda: True) -> None:
        """While *can_start* is False, calls wait."""
        self._can_start = can_start
        self._begun = 0  # in this turn of the loop
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the user whose turn is next first

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def wait(self, user: str) -> asyncio.Future[None] | None:
        """Return what a request of *user* has to wait for; None when it may begin at once."""
        loop = asyncio.get_running_loop()
        if self._begun == 0 and not self._waiting:
            loop.call_soon(self._next_turn, loop)
        if self._begun < REQUESTS_A_TURN and not self._waiting and self._can_start():
            self._begun += 1
            return None
        waiting = loop.create_future()
        self._waiting.setdefault(user, deque()).append(waiting)
        return waiting

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._waiting and self._begun < REQUESTS_A_TURN and self._can_start():
            user = next(iter(self._waiting))
            requests = self._waiting.pop(user)
            first = requests.popleft()
            if requests:
                self._waiting[user] = requests  # behind the others
            if not first.done():  # its client may be gone
                first.set_result(None)
                self._begun += 1
        if self._waiting and not self._begun:
            loop.call_later(PAUSE_SECONDS, self._next_turn, loop)
        elif self._begun:
            loop.call_soon(self._next_turn, loop)


class Connections:
    """The open connections of a server; *authenticate* names the user of a request, None when it proves nothing."""

    def __init__(
        self,
        handle: Handler,
        authenticate: Callable[[Request], User | None] | None = None,
        refused: Callable[[int], object] = lambda code: None,
        *,
        allows: Callable[[Request], bool] = lambda request: True,
        divides: bool = False,
    ) -> None:
        """*refused* is told the code of every request that is turned away before it is one.

        *allows*: whether the user whom a request proves may do what its head says, so that its body is worth reading.

        *divides*: the handler itself divides its time between users (weir.apiserver.compat.flowcontrol); here only
        those whom it does not know take turns.
        """
        self.divides = divides
        self.handle = handle
        self.refused = refused
        self.turns = FairTurns()
        self.authenticate, self.allows = authenticate, allows
        self.open: set[Connection] = set()
        self.closing = False
        self.received_bytes = 0
        self.unsent_bytes = 0
        self._silent: dict[Connection, None] = {}  # have sent nothing yet, the oldest first
        self._unproven: dict[Connection, None] = {}  # have shown no credential, the oldest first
        self._slow: dict[
            Connection, int
        ] = {}  # what is held for whom, and who has taken nothing for longest first
        self._of_user: Counter[str] = Counter()
        self._received_of: dict[str, int] = {}
        self.large = LargeBodies()
        self.arriving = memoryview(bytearray(limits.READ_BYTES))  # what one connection has just read

    # ------------------------------------------------------------------------------- who is connected

    def opened(self, connection: Connection) -> None:
        """Note a new connection; it has proven nothing yet."""
        self.open.add(connection)
        if self.authenticate is None:
            return
        self._silent[connection] = None
        most = limits.MOST_SILENT if connection.over_tls else limits.MOST_SILENT_PLAIN
        if len(self._silent) > most:
            self._cut(next(iter(self._silent)))

    def received_unproven(self, connection: Connection) -> None:
        """Note that *connection* has sent something that shows no credential."""
        if connection in self._silent:
            del self._silent[connection]
            self._unproven[connection] = None
            if len(self._unproven) > limits.MOST_UNPROVEN:
                self._cut(next(iter(self._unproven)))

    def most_handshakes(self) -> int:
        """Return how many TLS handshakes may be in progress beside the connections that have sent nothing yet."""
        return max(limits.FEWEST_HANDSHAKES, limits.MOST_SILENT - len(self._silent))

    def _cut(self, connection: Connection) -> None:
        self._forget(connection)
        connection.abort()

    def _forget(self, connection: Connection) -> None:
        self._silent.pop(connection, None)
        self._unproven.pop(connection, None)

    def proven(self, connection: Connection, user: User) -> bool:
        """Note whose *connection* is; False when this user has too many already."""
        self._forget(connection)
        if MASTERS not in user.groups and self._of_user[user.name] >= limits.MOST_OF_ONE_USER:
            return False
        self._of_user[user.name] += 1
        return True

    def closed(self, connection: Connection, user: User | None) -> None:
        """Forget a connection."""
        self.open.discard(connection)
        self._forget(connection)
        self.taken(connection)
        if user is not None:
            self._of_user[user.name] -= 1
            if self._of_user[user.name] <= 0:
                del self._of_user[user.name]

    # ------------------------------------------------------------------------------- what they hold

    def receive(self, size: int, user: str = "") -> bool:
        """Take *size* bytes of requests of *user* into account; False when there is no room for them."""
        held = self._received_of.get(user, 0) + size
        if held + size + self.received_bytes > limits.RECEIVED_BYTES:
            return False
        self._received_of[user] = held
        self.received_bytes += size
        return True

    def release(self, size: int, user: str = "") -> None:
        """Give back what `receive` took."""
        if size:
            self.received_bytes -= size
            self._received_of[user] -= size
            if not self._received_of[user]:
                del self._received_of[user]

    def waits(self, connection: Connection, size: int) -> None:
        """Note that *size* bytes are held for the reader of *connection*; cut off the slowest when it is too much."""
        self._slow[connection] = size
        self.unsent_bytes += size
        while self.unsent_bytes > limits.UNSENT_BYTES and len(self._slow) > 1:
            slowest = next(iter(self._slow))
            self.taken(slowest)
            slowest.abort()

    def takes(self, connection: Connection) -> None:
        """Note that the reader of *connection* has taken a part of what waits: all others are slower."""
        size = self._slow.pop(connection, None)
        if size is not None:
            self._slow[connection] = size

    def taken(self, connection: Connection) -> None:
        """Note that the reader took what waited, or is gone."""
        self.unsent_bytes -= self._slow.pop(connection, 0)

    # ------------------------------------------------------------------------------- ending them

    def close_idle(self) -> None:
        """Close connections on which nothing happens, and keep no other open after its answer."""
        self.closing = True
        for connection in tuple(self.open):
            connection.close_when_idle()

    def sweep(self, now: float) -> None:
        """Close connections that are idle too long, send their request too slowly or do not take their answer."""
        for connection in tuple(self.open):
            connection.check_time(now)
