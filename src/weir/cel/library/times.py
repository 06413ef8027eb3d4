"""Timestamps and durations: sums, differences and what a calendar shows.

Spec: cel.md 3.3 and 3.5. `getMonth` and `getDayOfMonth` start at 0 but `getDate` at 1; the
duration accessors give totals (`duration('90m').getHours()` is 1, `getMinutes()` is 90), milliseconds included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from weir.cel.ast import ADD, SUBTRACT
from weir.cel.errors import EvaluationError
from weir.cel.library.declare import Row, functions, method, plain
from weir.cel.types import DURATION, INT, STRING, TIMESTAMP
from weir.cel.values import INT_MAX, INT_MIN, Duration, Timestamp
from weir.cel.work import spend
from weir.values.timestamp import (
    MAX_SECONDS,
    MIN_SECONDS,
    NANOSECONDS,
    CalendarTime,
    ZoneError,
    calendar_time,
    zone_offset,
)

#: Units of looking for the file of a zone that does not exist.
_UNKNOWN_ZONE: Final = 1_500
TIMESTAMP_OVERFLOW: Final = "timestamp overflow"


def duration(ns: int) -> Duration:
    """Return a duration of *ns* nanoseconds, or the overflow error."""
    if INT_MIN <= ns <= INT_MAX:
        return Duration(ns)
    raise EvaluationError("integer overflow")


def timestamp(ns: int, offset: int = 0) -> Timestamp:
    """Return the instant *ns* nanoseconds after 1970, or the overflow error outside years 1 to 9999."""
    if MIN_SECONDS <= ns // NANOSECONDS <= MAX_SECONDS:
        return Timestamp(ns, offset)
    raise EvaluationError(TIMESTAMP_OVERFLOW)


SUMS: Final = (
    plain(ADD, "add_duration_duration", (DURATION, DURATION), DURATION, lambda a, b: duration(a.ns + b.ns),
          fails=True),
    plain(ADD, "add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP, lambda a, b: timestamp(a.ns + b.ns,
          b.offset), fails=True),
    plain(ADD, "add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP, lambda a, b: timestamp(a.ns + b.ns,
          a.offset), fails=True),
)  # fmt: skip
DIFFERENCES: Final = (
    plain(SUBTRACT, "subtract_duration_duration", (DURATION, DURATION), DURATION, lambda a, b: duration(a.ns - b.ns),
          fails=True),
    plain(SUBTRACT, "subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP, lambda a,
          b: timestamp(a.ns - b.ns, a.offset), fails=True),
    plain(SUBTRACT, "subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION, lambda a,
          b: duration(a.ns - b.ns), fails=True),
)  # fmt: skip


def _shown(at: Timestamp, zone: str = "") -> CalendarTime:
    spend(len(zone) * 2)
    try:
        return calendar_time(at.ns, zone_offset(zone, at.ns) if zone else 0)
    except ZoneError as error:
        spend(_UNKNOWN_ZONE)
        raise EvaluationError(str(error)) from None


#: Accessor → overload id and what it reads from the clock.
_READINGS: Final[dict[str, tuple[str, Callable[[CalendarTime], int]]]] = {
    "getFullYear": ("timestamp_to_year", lambda shown: shown.year),
    "getMonth": ("timestamp_to_month", lambda shown: shown.month - 1),
    "getDayOfYear": ("timestamp_to_day_of_year", lambda shown: shown.day_of_year - 1),
    "getDayOfMonth": ("timestamp_to_day_of_month", lambda shown: shown.day - 1),
    "getDate": ("timestamp_to_day_of_month_1_based", lambda shown: shown.day),
    "getDayOfWeek": ("timestamp_to_day_of_week", lambda shown: shown.weekday),
    "getHours": ("timestamp_to_hours", lambda shown: shown.hour),
    "getMinutes": ("timestamp_to_minutes", lambda shown: shown.minute),
    "getSeconds": ("timestamp_to_seconds", lambda shown: shown.second),
    "getMilliseconds": ("timestamp_to_milliseconds", lambda shown: shown.nanosecond // 1_000_000),
}
#: Accessor of durations → overload id and nanoseconds of its unit.
_TOTALS: Final = {
    "getHours": ("duration_to_hours", 3600 * NANOSECONDS),
    "getMinutes": ("duration_to_minutes", 60 * NANOSECONDS),
    "getSeconds": ("duration_to_seconds", NANOSECONDS),
    "getMilliseconds": ("duration_to_milliseconds", 1_000_000),
}


def _reading(name: str, id: str, read: Callable[[CalendarTime], int]) -> tuple[Row, Row]:
    zoned = "timestamp_to_seconds_tz" if id == "timestamp_to_seconds" else f"{id}_with_tz"
    return (
        method(name, id, (TIMESTAMP,), INT, lambda at: read(_shown(at))),
        method(
            name,
            zoned,
            (TIMESTAMP, STRING),
            INT,
            lambda at, zone: read(_shown(at, zone)),
            fails=True,
        ),
    )


def _total(name: str, id: str, unit: int) -> Row:
    def total(span: Duration) -> int:
        return span.ns // unit if span.ns >= 0 else -(-span.ns // unit)

    return method(name, id, (DURATION,), INT, total)


def _accessor(name: str) -> tuple[Row, ...]:
    totals = (_total(name, *_TOTALS[name]),) if name in _TOTALS else ()
    return *_reading(name, *_READINGS[name]), *totals


FUNCTIONS: Final = functions(*(row for name in _READINGS for row in _accessor(name)))
