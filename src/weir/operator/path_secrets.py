"""Secrets in the path of the webhooks, which authenticate the API server.

The webhook configurations, which the API server reads and few others may, name the path `/<secret>/pods` and so on. The
secrets are kept in the installation's Secret. Rotation needs no leader and no step that all replicas take together: a
new secret is accepted as soon as a replica has read it, is written into the configurations once it is `SETTLED` (by
then every replica has read it), and the one before it is accepted for `OVERLAP` after that. A secret in a path can be
seen by others than the API server: it prints the URL of a webhook that it cannot reach to the client of the request. So
secrets are rotated daily, and by a process that starts, which may follow such an outage; and a review is never believed
by itself (weir.operator.hooks).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from weir.objects.times import format_time

#: The key of the Secret's data.
PATHS: Final = "paths"
ROTATION: Final = timedelta(days=1)
#: Longer than a replica needs to read the Secret again, with tries that fail (weir.operator.credentials).
SETTLED: Final = timedelta(minutes=1)
#: Longer than an API server uses a configuration that it has read before.
OVERLAP: Final = timedelta(minutes=10)
_BYTES: Final = 24
_SECRET: Final = re.compile(f"[0-9a-f]{{{2 * _BYTES}}}")
_MOST: Final = 4

#: When the replica first saw each secret, by its own clock (weir.clock.Moment).
Seen = Mapping[str, datetime]
NOT_SEEN: Final[Seen] = {}


@dataclass(frozen=True, slots=True)
class PathSecrets:
    """The secrets that are accepted, with the time at which each was made, the oldest first."""

    made: tuple[tuple[str, datetime], ...]

    @classmethod
    def read(cls, data: Any) -> PathSecrets | None:
        """Return what the data of the Secret says; None when it holds none or is damaged."""
        try:
            rows = json.loads(base64.b64decode(data[PATHS], validate=True))
            made = tuple((str(secret), datetime.fromisoformat(when)) for secret, when in rows)
        except (KeyError, TypeError, ValueError, RecursionError, binascii.Error):
            return None
        whole = all(_SECRET.fullmatch(secret) and when.tzinfo is not None for secret, when in made)
        return cls(made) if made and whole and len(made) <= _MOST else None

    def data(self) -> dict[str, str]:
        """Return the data of the Secret that holds these."""
        rows = [[secret, format_time(when)] for secret, when in self.made]
        return {PATHS: base64.b64encode(json.dumps(rows).encode()).decode()}

    def accepts(self, candidate: str) -> bool:
        """Return whether *candidate* is one of the secrets, in a time that says nothing about how close it is."""
        text = candidate.encode("utf-8", "replace")
        matches = [hmac.compare_digest(text, secret.encode()) for secret, _ in self.made]  # all are compared
        return any(matches)

    def in_use(self, now: datetime, seen: Seen = NOT_SEEN) -> tuple[str, ...]:
        """Return the secrets that a configuration may name: the newest settled one first, then those after it."""
        settled = [i for i, each in enumerate(self.made) if _held(each, now, seen) >= SETTLED]
        first = settled[-1] if settled else 0
        return tuple(secret for secret, _ in self.made[first:])


def renewed(
    found: PathSecrets | None,
    now: datetime,
    *,
    rotate_after: timedelta = ROTATION,
    seen: Seen = NOT_SEEN,
) -> PathSecrets:
    """Return secrets with a new one where the newest is older than *rotate_after*: *found* itself where nothing is due.

    By date a secret is rotated; *seen* keeps one from being dropped early when the time of day is set.

    >>> from datetime import UTC
    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> first = renewed(None, now)
    >>> second = renewed(first, now + ROTATION)
    >>> len(second.made), second.accepts(first.made[0][0])
    (2, True)
    >>> len(renewed(second, now + ROTATION + SETTLED + OVERLAP).made)
    1
    """
    made = found.made if found is not None else ()
    # the secret after this one has been in the configurations for the overlap
    ended = [i for i in range(len(made) - 1) if _held(made[i + 1], now, seen) >= SETTLED + OVERLAP]
    kept = made[ended[-1] + 1 :] if ended else made
    if not kept or _age(kept[-1][1], now) >= max(rotate_after, SETTLED):
        kept = (*kept, (secrets.token_hex(_BYTES), now))[-_MOST:]
    return found if found is not None and kept == made else PathSecrets(kept)


def _age(made: datetime, now: datetime) -> timedelta:
    """Return how long ago *made* was; a time ahead of a clock that was set back counts as past."""
    return abs(now - made)


def _held(made: tuple[str, datetime], now: datetime, seen: Seen) -> timedelta:
    """Return how long a secret has been there, by its date and by the replica's own clock: the shorter."""
    secret, when = made
    age = _age(when, now)
    return min(age, now - seen[secret]) if secret in seen else age


def redacted(text: str) -> str:
    """Return *text*, such as an API server's error with a webhook's URL, without secrets.

    >>> redacted("Post https://h/" + "0123456789ab" * 4 + "/pods: refused")
    'Post https://h/…/pods: refused'
    """
    return _SECRET.sub("…", text)
