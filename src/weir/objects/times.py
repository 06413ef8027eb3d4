"""RFC 3339 times of the API: Time and MicroTime, with Go's errors.

Spec: apiserver.md 2 "Decoding" (bad micro time). `Time` keeps seconds, `MicroTime` exactly six fractional digits;
both print in UTC.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from weir.caches import bounded
from weir.values.quoting import quote
from weir.values.timestamp import (
    MAX_SECONDS,
    MICROSECONDS,
    MIN_SECONDS,
    NANOSECONDS,
    SECONDS,
    TimestampError,
    format_timestamp,
    parse_timestamp,
)

_as_kept: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII).fullmatch


class TimeError(ValueError):
    """The text is not a time; the message is Go's."""


def format_time(moment: datetime) -> str:
    """Return *moment*, which is in UTC, as a `Time`.

    >>> format_time(datetime(2026, 1, 2, 3, 4, 5, 600))
    '2026-01-02T03:04:05Z'
    """
    return moment.isoformat(timespec="seconds")[:19] + "Z"


def format_micro_time(moment: datetime) -> str:
    """Return *moment*, which is in UTC, as a `MicroTime`.

    >>> format_micro_time(datetime(2026, 1, 2, 3, 4, 5, 600))
    '2026-01-02T03:04:05.000600Z'
    """
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


@bounded(4096)
def parse_time(text: str) -> str:
    """Return *text* as RFC 3339 in UTC with whole seconds.

    >>> parse_time("2026-01-01T00:00:00.5+02:00")
    '2025-12-31T22:00:00Z'
    """
    return f"{_parse(text, SECONDS)[0]}Z"


def parse_micro_time(text: str) -> str:
    """Return *text* as RFC 3339 in UTC with six fractional digits.

    Every event and every heartbeat brings another one, as a rule in the form it is kept in.

    >>> parse_micro_time("2026-01-01T00:00:00.123456+01:00")
    '2025-12-31T23:00:00.123456Z'
    """
    if _as_kept(text):
        try:
            datetime.fromisoformat(text[:-1])
            return text
        except ValueError:
            pass  # Go's words about it follow
    seconds, nanoseconds = _parse(text, MICROSECONDS)
    return f"{seconds}.{nanoseconds // 1000:06d}Z"


def _parse(text: str, layout: str) -> tuple[str, int]:
    """Return a time in UTC without its zone and its fraction, and the nanoseconds of the fraction."""
    try:
        instant = parse_timestamp(text, layout)
    except TimestampError as error:
        raise TimeError(str(error)) from None
    if (
        not MIN_SECONDS <= instant // NANOSECONDS <= MAX_SECONDS
    ):  # year 0, which Python's calendar does not have
        raise TimeError(f"parsing time {quote(text)}: year out of range")
    seconds, nanoseconds = divmod(instant, NANOSECONDS)
    return format_timestamp(seconds * NANOSECONDS)[:19], nanoseconds
