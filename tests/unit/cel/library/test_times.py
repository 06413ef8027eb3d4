"""Timestamps and durations: arithmetic, calendar, zones."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cel.library import error, value
from weir.values.timestamp import calendar_time

LEAP = "timestamp('2020-02-29T23:59:59.789Z')"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("getFullYear()", 2020), ("getMonth()", 1), ("getDate()", 29), ("getDayOfMonth()", 28), ("getDayOfWeek()", 6),
        ("getDayOfYear()", 59), ("getHours()", 23), ("getMinutes()", 59), ("getSeconds()", 59),
        ("getMilliseconds()", 789), ("getDate('+00:30')", 1), ("getHours('02:00')", 1), ("getHours('-05:30')", 18),
        ("getHours('America/New_York')", 18), ("getMonth('Asia/Tokyo')", 2), ("getHours('')", 23),
        ("getHours('+02:75')", 3), ("getSeconds('UTC')", 59),
    ],
)  # fmt: skip
def test_an_accessor_reads_its_part_of_a_timestamp(call: str, expected: int) -> None:
    assert value(f"{LEAP}.{call}") == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("duration('90m').getHours()", 1),
        ("duration('90m').getMinutes()", 90),
        ("duration('-90m').getHours()", -1),
        ("duration('1.5s').getMilliseconds()", 1500),
        ("duration('1.5s').getSeconds()", 1),
        ("timestamp(0) + duration('1h') == timestamp(3600)", True),
        ("duration('1h') + timestamp(0) == timestamp(3600)", True),
        ("timestamp(3600) - timestamp(0) == duration('60m')", True),
        ("timestamp(0) - duration('1s') < timestamp(0)", True),
        ("duration('1h') - duration('30m') == duration('30m')", True),
    ],
)
def test_sums_differences_and_totals(expression: str, expected: object) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"{LEAP}.getHours('Mars/Olympus')", "unknown time zone Mars/Olympus"),
        (f"{LEAP}.getHours('../etc/passwd')", "time: invalid location name"),
        (f"{LEAP}.getHours('a:00')", 'strconv.Atoi: parsing "a": invalid syntax'),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        ("timestamp('0001-01-01T00:00:00Z') - duration('1ns')", "timestamp overflow"),
        ("duration('2540400h') + duration('2540400h')", "integer overflow"),
        ("timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z')", "integer overflow"),
    ],
)
def test_what_leaves_the_calendar_says_so(expression: str, message: str) -> None:
    assert error(expression) == message


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-01",
        "2020-01-01T00:00:00",
        "2020-01-01t00:00:00z",
        "2020-13-01T00:00:00Z",
        "2019-02-29T00:00:00Z",
        "2020-01-01T24:00:00Z",
        "2020-01-01T00:00:60Z",
        "2020-01-01T00:00:00+25:00",
        "0000-01-01T00:00:00Z",
    ],
)
def test_a_literal_that_is_no_instant_is_refused_when_compiled(text: str) -> None:
    assert "invalid timestamp argument" in error(f"timestamp('{text}') == timestamp(0)")


@pytest.mark.parametrize("text", ["", "1", "1d", "h", "1h -1m", "1.s.", "--1s", "9223372037s", "1 s"])
def test_a_literal_that_is_no_duration_is_refused_when_compiled(text: str) -> None:
    assert "invalid duration argument" in error(f"duration('{text}') == duration('1s')")


@given(st.datetimes())
def test_the_calendar_is_pythons(moment: datetime.datetime) -> None:
    since = moment - datetime.datetime(1970, 1, 1)
    shown = calendar_time(((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000)
    assert shown[:6] == (moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second)
    assert (shown.weekday, shown.day_of_year) == (moment.isoweekday() % 7, moment.timetuple().tm_yday)
