"""RFC 3339 timestamps with nanoseconds, and their calendar fields in a time zone.

Spec: cel.md 3.4 and 3.5. An instant is whole nanoseconds since 1970-01-01T00:00:00Z, as an int. As in Go: the hour
may have one digit, the fraction may follow a comma, digits beyond nanoseconds are dropped, offsets of 24:00 and of 60
minutes are accepted; a fixed offset in an accessor (`+02:75`) is not checked. Python's datetime has microseconds
only, so the calendar is computed here; named zones use zoneinfo.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from weir.values.quoting import quote

NANOSECONDS: Final = 1_000_000_000
_DAY: Final = 86_400
#: 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z in Unix seconds.
MIN_SECONDS: Final = -62_135_596_800
MAX_SECONDS: Final = 253_402_300_799

#: The forms of a time, in Go's notation: a fraction is optional, or six digits.
SECONDS: Final = "2006-01-02T15:04:05Z07:00"
MICROSECONDS: Final = "2006-01-02T15:04:05.000000Z07:00"

_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})\Z", re.ASCII)
_ATOI: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)
_MONTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class TimestampError(ValueError):
    """The text is not an instant; the message is Go's."""


class ZoneError(ValueError):
    """The text is not a time zone; the message is Go's."""


class CalendarTime(NamedTuple):
    """A moment in years, days and hours: month 1-12, day 1-31, weekday 0 = Sunday, day_of_year 1-366."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    nanosecond: int
    weekday: int
    day_of_year: int


def parse_timestamp(text: str, layout: str = SECONDS) -> int:
    """Return the instant *text* means, in nanoseconds since 1970.

    >>> parse_timestamp("2020-01-01T00:00:00+02:00") // 10**9
    1577829600
    """
    return parse_zoned(text, layout)[0]


class _Element(NamedTuple):
    """A part of a layout: how Go calls it, what matches it, and the range of its number."""

    name: str
    match: Callable[[str, int], re.Match[str] | None]
    what: str = ""
    lowest: int = 0
    highest: int = 0


def _element(name: str, pattern: str, what: str = "", lowest: int = 0, highest: int = 0) -> _Element:
    return _Element(name, re.compile(pattern, re.ASCII).match, what, lowest, highest)


_ELEMENTS: Final = (
    _element("2006", r"(\d{4})", "year", 0, 9999),
    _element("-", "-"),
    _element("01", r"(\d\d)", "month", 1, 12),
    _element("-", "-"),
    _element("02", r"(\d\d)", "day", 0, 99),  # checked last, when month and year are known
    _element("T", "T"),
    _element("15", r"(\d\d?)", "hour", 0, 23),
    _element(":", ":"),
    _element("04", r"(\d\d)", "minute", 0, 59),
    _element(":", ":"),
    _element("05", r"(\d\d)", "second", 0, 59),
)
_FRACTION: Final = re.compile(r"(?:[.,](\d+))?", re.ASCII).match
_SIX_DIGITS: Final = re.compile(r"[.,](\d{6})", re.ASCII).match
_ZONE: Final = re.compile(r"(?:Z|([+-])(\d\d):(\d\d))", re.ASCII).match


def parse_zoned(text: str, layout: str = SECONDS) -> tuple[int, int]:
    """Return the instant *text* means and the offset it was written in, in seconds east of UTC.

    >>> parse_zoned("1970-01-01T02:00:00+02:00")
    (0, 7200)
    >>> parse_zoned("2020-01-01t00:00:00z")
    Traceback (most recent call last):
    weir.values.timestamp.TimestampError: parsing time "2020-01-01t00:00:00z" as "2006-01-02T15:04:05Z07:00": \
cannot parse "t00:00:00z" as "T"
    """
    at, numbers = 0, []
    for element in _ELEMENTS:
        match = element.match(text, at)
        if match is None:
            raise _unparsable(text, layout, at, element.name)
        at = match.end()
        if element.what:
            number = int(match[1])
            if not element.lowest <= number <= element.highest:
                raise _out_of_range(text, element.what)
            numbers.append(number)
    match = _SIX_DIGITS(text, at) if layout is MICROSECONDS else _FRACTION(text, at)
    if match is None:
        raise _unparsable(text, layout, at, ".000000")
    at, fraction = match.end(), match[1] or ""
    match = _ZONE(text, at)
    if match is None:
        raise _unparsable(text, layout, at, "Z07:00")
    offset = 0
    if match[1]:
        hours, minutes = int(match[2]), int(match[3])
        if hours > 24:
            raise _out_of_range(text, "time zone offset hour")
        if minutes > 60:
            raise _out_of_range(text, "time zone offset minute")
        offset = (hours * 60 + minutes) * (-60 if match[1] == "-" else 60)
    if rest := text[match.end() :]:
        raise TimestampError(f"parsing time {quote(text)}: extra text: {quote(rest)}")
    year, month, day, hour, minute, second = numbers
    if not valid_date(year, month, day):
        raise _out_of_range(text, "day")
    seconds = days_before(year, month, day) * _DAY + hour * 3600 + minute * 60 + second - offset
    return seconds * NANOSECONDS + int(fraction[:9].ljust(9, "0")), offset


def _unparsable(text: str, layout: str, at: int, element: str) -> TimestampError:
    return TimestampError(
        f"parsing time {quote(text)} as {quote(layout)}: cannot parse {quote(text[at:])} as {quote(element)}"
    )


def _out_of_range(text: str, what: str) -> TimestampError:
    return TimestampError(f"parsing time {quote(text)}: {what} out of range")


def format_timestamp(instant: int, offset_seconds: int = 0) -> str:
    """Return RFC 3339 with as many fractional digits as needed, up to nine.

    >>> format_timestamp(1_577_836_800_500_000_000), format_timestamp(0, -19800)
    ('2020-01-01T00:00:00.5Z', '1969-12-31T18:30:00-05:30')
    """
    shown = calendar_time(instant, offset_seconds)
    fraction = f".{shown.nanosecond:09d}".rstrip("0") if shown.nanosecond else ""
    return (
        f"{shown.year:04d}-{shown.month:02d}-{shown.day:02d}"
        f"T{shown.hour:02d}:{shown.minute:02d}:{shown.second:02d}{fraction}{_zone_suffix(offset_seconds)}"
    )


def _zone_suffix(offset_seconds: int) -> str:
    if not offset_seconds:
        return "Z"
    minutes = abs(offset_seconds) // 60
    return f"{'-' if offset_seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def parse_date(text: str) -> bool:
    """Return whether *text* is an RFC 3339 full-date.

    >>> parse_date("2024-02-29"), parse_date("2023-02-29")
    (True, False)
    """
    match = _DATE.match(text)
    return match is not None and valid_date(*(int(part) for part in match.groups()))


def valid_date(year: int, month: int, day: int) -> bool:
    """Return whether the calendar has this day."""
    if not 1 <= month <= 12:
        return False
    return 1 <= day <= _MONTHS[month - 1] + (month == 2 and _is_leap(year))


def calendar_time(instant: int, offset_seconds: int = 0) -> CalendarTime:
    """Return what a clock *offset_seconds* east of UTC shows at *instant*."""
    seconds, nanosecond = divmod(instant, NANOSECONDS)
    days, of_day = divmod(seconds + offset_seconds, _DAY)
    year, month, day = _date(days)
    hour, rest = divmod(of_day, 3600)
    minute, second = divmod(rest, 60)
    day_of_year = days - days_before(year, 1, 1) + 1
    return CalendarTime(year, month, day, hour, minute, second, nanosecond, (days + 4) % 7, day_of_year)


def zone_offset(zone: str, instant: int) -> int:
    """Return the offset of *zone* at *instant* in seconds east of UTC: an IANA name or `[+-]HH:MM`.

    >>> zone_offset("-05:30", 0), zone_offset("America/New_York", 0)
    (-19800, -18000)
    >>> zone_offset("Mars/Olympus", 0)
    Traceback (most recent call last):
    weir.values.timestamp.ZoneError: unknown time zone Mars/Olympus
    """
    if ":" in zone:
        hours, _, minutes = zone.partition(":")
        hour, minute = _atoi(hours), _atoi(minutes)
        return (hour * 60 - minute if zone[0] == "-" else hour * 60 + minute) * 60
    if zone in ("", "UTC", "Local"):
        return 0
    found = _zone(zone)
    seconds = min(max(instant // NANOSECONDS, MIN_SECONDS + 2 * _DAY), MAX_SECONDS - 2 * _DAY)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    there = (epoch + datetime.timedelta(seconds=seconds)).astimezone(found)
    offset = there.utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


@lru_cache(maxsize=64)
def _zone(name: str) -> zoneinfo.ZoneInfo:
    if ".." in name or name[0] in "/\\":
        raise ZoneError("time: invalid location name")
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ZoneError(f"unknown time zone {name}") from None


def _atoi(text: str) -> int:
    if not _ATOI.match(text):
        raise ZoneError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if len(text) > 18:
        raise ZoneError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return int(text)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_before(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to the given day (proleptic Gregorian calendar, any year)."""
    # Years start in March, so that the leap day is the last of its year.
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _date(days: int) -> tuple[int, int, int]:
    """Return year, month and day of the day that is *days* after 1970-01-01."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1
