"""Validation of cron schedules and time zones, with the parser's messages.

Spec: upstream's rules for `CronJob.spec.schedule`: five fields, or a word that starts with `Spec: upstream's rules
for `CronJob.spec.schedule`: five fields, or a word that starts with `@`.`. Next run times are in weir.values.cron.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from weir.validate.field import Errors, invalid

_NO_NAMES: Final[dict[str, int]] = {}
_MONTHS: Final = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
    "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
_DAYS: Final = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
#: Lowest and highest number of each field of a cron line, and the words that stand for numbers.
_FIELDS: Final = ((0, 59, _NO_NAMES), (0, 23, _NO_NAMES), (1, 31, _NO_NAMES), (1, 12, _MONTHS), (0, 6, _DAYS))
_DESCRIPTORS: Final = frozenset(
    {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
)
_match_every = re.compile(r"@every ([0-9.]+(ns|us|µs|ms|s|m|h))+").fullmatch


def validate_schedule(schedule: str, at: str, time_zone: str | None) -> Errors:
    """Yield what is wrong with the schedule of a CronJob."""
    if problem := schedule_problem(schedule):
        yield invalid(at, schedule, problem)
    if "TZ" in schedule and time_zone is not None:
        yield invalid(at, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
    elif "TZ" in schedule:
        yield invalid(at, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")


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


@cache
def _knows_time_zones() -> bool:
    try:
        ZoneInfo("Etc/UTC")
    except ZoneInfoNotFoundError:
        return False
    return True


def schedule_problem(schedule: str) -> str:
    """Return why *schedule* is no cron line, in the words of the parser the server uses, or "".

    >>> schedule_problem("*/5 * * * *"), schedule_problem("* * * *")
    ('', 'expected exactly 5 fields, found 4: [* * * *]')
    """
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        _, _, text = text.partition(" ")
        text = text.strip()
    if text.startswith("@"):
        if text in _DESCRIPTORS or _match_every(text):
            return ""
        return f"unrecognized descriptor: {text}"
    fields = text.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for field, (low, high, names) in zip(fields, _FIELDS, strict=True):
        if problem := _field_problem(field, low, high, names):
            return problem
    return ""


def _field_problem(field: str, low: int, high: int, names: dict[str, int]) -> str:
    for part in field.split(","):
        span, *steps = part.split("/")
        ends = span.split("-")
        if len(steps) > 1:
            return f"too many slashes: {part}"
        if len(ends) > 2:
            return f"too many hyphens: {part}"
        bounds = []
        for end in ends:
            if end in ("*", "?") and len(ends) == 1:
                bounds = [low, high]
                break
            number = names.get(end.lower(), -1) if end.lower() in names else _plain_number(end)
            if number is None:
                return f'failed to parse int from {end}: strconv.Atoi: parsing "{end}": invalid syntax'
            bounds.append(number)
        start, stop = bounds[0], bounds[-1]
        step = _plain_number(steps[0]) if steps else 1
        if step is None:
            return f'failed to parse int from {steps[0]}: strconv.Atoi: parsing "{steps[0]}": invalid syntax'
        if len(bounds) == 1 and steps:
            stop = high
        if start < low:
            return f"beginning of range ({start}) below minimum ({low}): {part}"
        if stop > high:
            return f"end of range ({stop}) above maximum ({high}): {part}"
        if start > stop:
            return f"beginning of range ({start}) beyond end of range ({stop}): {part}"
        if step == 0:
            return f"step of range should be a positive number: {part}"
    return ""


def _plain_number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None
