"""RFC 3339 times of the API: Time and MicroTime, with Go's errors.

Spec: apiserver.md 2 "Decoding" (bad micro time). `Time` keeps seconds, `MicroTime` exactly six fractional digits;
both print in UTC.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

from weir.values.quoting import quote

__all__ = ["TimeError", "format_micro_time", "format_time", "parse_micro_time", "parse_time"]

_SECONDS: Final = "2006-01-02T15:04:05Z07:00"
_MICRO: Final = "2006-01-02T15:04:05.000000Z07:00"
_as_kept: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII).fullmatch


class TimeError(ValueError):
    """The text is not a time; the message is Go's."""


def format_time(moment: datetime) -> str:
    """Return *moment*, which is in UTC, as a `Time`.

    >>> format_time(datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC))
    '2026-01-02T03:04:05Z'
    """
    return moment.isoformat(timespec="seconds")[:19] + "Z"


def format_micro_time(moment: datetime) -> str:
    """Return *moment*, which is in UTC, as a `MicroTime`.

    >>> format_micro_time(datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC))
    '2026-01-02T03:04:05.000600Z'
    """
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


@lru_cache(4096)
def parse_time(text: str) -> str:
    """Return *text* as RFC 3339 in UTC with whole seconds.

    >>> parse_time("2026-01-01T00:00:00.5+02:00")
    '2025-12-31T22:00:00Z'
    """
    return format_time(_read(text, _SECONDS))


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
    return format_micro_time(_read(text, _MICRO))


class _Reader:
    """Walks *text* along *layout*, failing at the first element that does not fit."""

    def __init__(self, text: str, layout: str) -> None:
        self.text = self.rest = text
        self.layout = layout

    def fail(self, element: str) -> TimeError:
        return TimeError(
            f"parsing time {quote(self.text)} as {quote(self.layout)}: "
            f"cannot parse {quote(self.rest)} as {quote(element)}"
        )

    def out_of_range(self, what: str) -> TimeError:
        return TimeError(f"parsing time {quote(self.text)}: {what} out of range")

    def digits(self, count: int, element: str) -> int:
        head = self.rest[:count]
        if len(head) < count or not (head.isascii() and head.isdigit()):
            raise self.fail(element)
        self.rest = self.rest[count:]
        return int(head)

    def literal(self, element: str) -> None:
        if not self.rest.startswith(element):
            raise self.fail(element)
        self.rest = self.rest[len(element) :]

    def zone(self) -> timezone:
        if self.rest.startswith("Z"):
            self.rest = self.rest[1:]
            return UTC
        match = re.match(r"([+-])(\d\d):(\d\d)", self.rest, re.ASCII)
        if match is None:
            raise self.fail("Z07:00")
        hours, minutes = int(match[2]), int(match[3])
        if hours > 24:
            raise self.out_of_range("time zone offset hour")
        if minutes > 60:
            raise self.out_of_range("time zone offset minute")
        self.rest = self.rest[match.end() :]
        offset = timedelta(hours=hours, minutes=minutes)
        if offset >= timedelta(hours=24):  # Go allows it, Python's zones do not
            raise self.out_of_range("time zone offset hour")
        return timezone(offset if match[1] == "+" else -offset)


def _read(text: str, layout: str) -> datetime:
    reader = _Reader(text, layout)
    year = reader.digits(4, "2006")
    reader.literal("-")
    month = reader.digits(2, "01")
    if not 1 <= month <= 12:
        raise reader.out_of_range("month")
    reader.literal("-")
    day = reader.digits(2, "02")
    reader.literal("T")
    hour = reader.digits(2, "15")
    if hour >= 24:
        raise reader.out_of_range("hour")
    reader.literal(":")
    minute = reader.digits(2, "04")
    if minute >= 60:
        raise reader.out_of_range("minute")
    reader.literal(":")
    second = reader.digits(2, "05")
    if second >= 60:
        raise reader.out_of_range("second")
    micros = 0
    if layout is _MICRO:
        if not re.match(r"[.,]\d{6}", reader.rest, re.ASCII):
            raise reader.fail(".000000")
        micros = int(reader.rest[1:7])
        reader.rest = reader.rest[7:]
    elif fraction := re.match(r"[.,](\d+)", reader.rest, re.ASCII):
        reader.rest = reader.rest[fraction.end() :]
    zone = reader.zone()
    if reader.rest:
        raise TimeError(f"parsing time {quote(text)}: extra text: {quote(reader.rest)}")
    if not 1 <= day <= calendar.monthrange(year or 4, month)[1]:
        raise reader.out_of_range("day")
    try:
        return datetime(year, month, day, hour, minute, second, micros, zone).astimezone(UTC)
    except (ValueError, OverflowError):  # year 0, which Python's calendar does not have
        raise reader.out_of_range("year") from None
