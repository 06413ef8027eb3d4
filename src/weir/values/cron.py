"""Cron schedules: next run times of five-field lines and `@` words.

Minute resolution; day of month and day of week are alternatives when both are restricted. Messages for invalid lines
are in weir.validate.cron.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

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
_EVERY: Final = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MINUTE: Final = timedelta(minutes=1)
#: The longest any line waits: 29 February, across a century that is no leap year.
_FAR: Final = timedelta(days=366 * 9)


class CronError(ValueError):
    """Text that is no schedule."""


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

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time later than *moment*; None when there is none within years.

        >>> parse_schedule("30 9 * * mon").after(datetime(2026, 1, 1)).isoformat()
        '2026-01-05T09:30:00'
        """
        if self.every is not None:
            return moment + self.every
        found = moment.replace(second=0, microsecond=0) + _MINUTE
        limit = moment + _FAR
        while found < limit:
            if found.month not in self.months or not self._day(found):
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
    """Return the schedule that *text* writes; raises CronError."""
    text = text.strip()
    if text.startswith("@every "):
        parts = _EVERY.findall(text.removeprefix("@every "))
        try:
            seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        except ValueError:
            seconds = 0.0
        if not parts or seconds <= 0:
            raise CronError(f"{text!r} is no schedule")
        return Schedule(every=timedelta(seconds=max(1.0, round(seconds))))
    fields = _WORDS.get(text, text).split()
    if len(fields) != 5:
        raise CronError(f"{text!r} is no schedule: five fields are expected")
    minute, hour, day, month, weekday = fields
    return Schedule(
        _read(minute, 0, 59, {}),
        _read(hour, 0, 23, {}),
        _read(day, 1, 31, {}),
        _read(month, 1, 12, _MONTHS),
        _read(weekday, 0, 6, _DAYS),
        day[0] in "*?",
        weekday[0] in "*?",
    )


def _read(field: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step_text = part.partition("/")
        first, dash, last = span.partition("-")
        try:
            step = int(step_text) if slash else 1
            if first in ("*", "?"):
                start, stop = low, high
            else:
                start = names.get(first.lower(), -1) if first.lower() in names else int(first)
                stop = start
                if dash:
                    stop = names[last.lower()] if last.lower() in names else int(last)
                elif slash:
                    stop = high
        except ValueError:
            raise CronError(f"{part!r} is no part of a schedule") from None
        if not low <= start <= stop <= high or step < 1:
            raise CronError(f"{part!r} is no part of a schedule")
        found |= set(range(start, stop + 1, step))
    return frozenset(found)
