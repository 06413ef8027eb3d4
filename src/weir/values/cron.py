"""Cron schedules: five-field lines and `@` words, read with the API server's messages, and their run times.

Spec: the parser that upstream uses for `CronJob.spec.schedule` (robfig/cron v3). Minute resolution; day of month and
day of week are alternatives when both are restricted, and `*/2` restricts. A list may have empty entries (`1,,2`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from weir.values.duration import NANOSECONDS, duration_problem, parse_duration
from weir.values.integer import IntegerError, parse_int64

_MONTHS: Final = dict(
    zip(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
        range(1, 13),
        strict=True,
    )
)
_DAYS: Final = dict(zip(["sun", "mon", "tue", "wed", "thu", "fri", "sat"], range(7), strict=True))
_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MINUTE: Final = timedelta(minutes=1)
#: The longest any line waits: 29 February, across a century that is no leap year.
_FAR: Final = timedelta(days=366 * 9)


class CronError(ValueError):
    """Text that is no schedule; the message is the API server's."""


class _Field(NamedTuple):
    """One field of a line: its lowest and highest number, and the words that stand for numbers."""

    low: int
    high: int
    names: dict[str, int]


_FIELDS: Final = (
    _Field(0, 59, {}),
    _Field(0, 23, {}),
    _Field(1, 31, {}),
    _Field(1, 12, _MONTHS),
    _Field(0, 6, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When something happens again and again."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = True  #: the day of month is not restricted
    any_weekday: bool = True
    every: timedelta | None = None
    zone: str = ""  #: of a line that begins with TZ= or CRON_TZ=

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time later than *moment*; None when there is none within years.

        >>> parse_schedule("30 9 * * mon").after(datetime(2026, 1, 1)).isoformat()
        '2026-01-05T09:30:00'
        """
        if self.every is not None:
            return moment.replace(microsecond=0) + self.every
        found = moment.replace(second=0, microsecond=0) + _MINUTE
        limit = moment + _FAR
        while found < limit:
            if found.month not in self.months:
                found = found.replace(day=28, hour=0, minute=0) + timedelta(days=4)
                found = found.replace(day=1)
            elif not self._day(found):
                found = found.replace(hour=0, minute=0) + timedelta(days=1)
            elif found.hour not in self.hours:
                found = found.replace(minute=0) + timedelta(hours=1)
            elif found.minute not in self.minutes:
                found += _MINUTE
            else:
                return found
        return None

    def _day(self, moment: datetime) -> bool:
        day, weekday = moment.day in self.days, moment.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return day and weekday
        return day or weekday

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the last time later than *after* and not later than *until*; None when there was none.

        >>> str(parse_schedule("*/5 * * * *").latest(datetime(2020, 1, 1), datetime(2026, 1, 1, 0, 7)))
        '2026-01-01 00:05:00'
        """
        for back in (timedelta(minutes=2), timedelta(hours=1), timedelta(days=1), timedelta(days=32), _FAR):
            found = None
            moment: datetime | None = max(after, until - back)
            while moment is not None and (moment := self.after(moment)) is not None and moment <= until:
                found = moment
            if found is not None or after >= until - back:
                return found
        return None


def parse_schedule(text: str) -> Schedule:
    """Return the schedule that *text* writes; raises CronError.

    >>> parse_schedule("* * * *")
    Traceback (most recent call last):
    weir.values.cron.CronError: expected exactly 5 fields, found 4: [* * * *]
    """
    if not text:
        raise CronError("empty spec string")
    zone = ""
    if text.startswith(("TZ=", "CRON_TZ=")):
        name, _, text = text.partition(" ")
        zone, text = name.partition("=")[2], text.strip()
        if not is_time_zone(zone):
            raise CronError(f"provided bad location {zone}: unknown time zone {zone}")
    if text.startswith("@"):
        if text not in _WORDS:
            return Schedule(every=_parse_every(text), zone=zone)
        text = _WORDS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise CronError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    parsed = [_parse_field(text, field) for text, field in zip(fields, _FIELDS, strict=True)]
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = parsed
    return Schedule(minutes, hours, days, months, weekdays, any_day, any_weekday, zone=zone)


def _parse_every(text: str) -> timedelta:
    duration = text.removeprefix("@every ")
    if duration == text:
        raise CronError(f"unrecognized descriptor: {text}")
    if problem := duration_problem(duration):
        raise CronError(f"failed to parse duration {text}: {problem}")
    return timedelta(seconds=max(parse_duration(duration) // NANOSECONDS, 1))


def _parse_field(text: str, field: _Field) -> tuple[frozenset[int], bool]:
    """Return the numbers that a field takes, and whether it is a star: whether it restricts nothing."""
    numbers: set[int] = set()
    star = False
    for part in filter(None, text.split(",")):
        span, *steps = part.split("/")
        ends = span.split("-")
        everything = ends[0] in ("*", "?")
        if everything:
            start, stop = field.low, field.high
        else:
            start = _parse_number(ends[0], field.names)
            if len(ends) > 2:
                raise CronError(f"too many hyphens: {part}")
            stop = _parse_number(ends[-1], field.names)
        if len(steps) > 1:
            raise CronError(f"too many slashes: {part}")
        step = _parse_number(steps[0], {}) if steps else 1
        if steps and len(ends) == 1:
            stop = field.high
        if start < field.low:
            raise CronError(f"beginning of range ({start}) below minimum ({field.low}): {part}")
        if stop > field.high:
            raise CronError(f"end of range ({stop}) above maximum ({field.high}): {part}")
        if start > stop:
            raise CronError(f"beginning of range ({start}) beyond end of range ({stop}): {part}")
        if step == 0:
            raise CronError(f"step of range should be a positive number: {part}")
        numbers.update(range(start, stop + 1, step))
        star |= everything and step == 1
    return frozenset(numbers), star


def _parse_number(text: str, names: dict[str, int]) -> int:
    if (named := names.get(text.lower())) is not None:
        return named
    try:
        number = parse_int64(text)
    except IntegerError as error:
        raise CronError(
            f"failed to parse int from {text}: {str(error).replace('ParseInt', 'Atoi')}"
        ) from None
    if number < 0:
        raise CronError(f"negative number ({number}) not allowed: {text}")
    return number


def is_time_zone(name: str) -> bool:
    """Return whether *name* is a time zone; on a machine that knows none, every name passes.

    >>> is_time_zone("Etc/UTC")
    True
    """
    try:
        ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return not _knows_time_zones()
    return True


@lru_cache(maxsize=1)
def _knows_time_zones() -> bool:
    try:
        ZoneInfo("Etc/UTC")
    except ZoneInfoNotFoundError:
        return False
    return True
