"""When schedules fire."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.values.cron import CronError, parse_schedule

NOON = datetime(2026, 1, 1, 12, 0)  # a Thursday


@pytest.mark.parametrize(
    "text, then",
    [
        ("* * * * *", "2026-01-01T12:01:00"),
        ("*/15 * * * *", "2026-01-01T12:15:00"),
        ("5/20 * * * *", "2026-01-01T12:05:00"),
        ("0 0 * * *", "2026-01-02T00:00:00"),
        ("0 9 * * 1-5", "2026-01-02T09:00:00"),
        ("0 9 * * SUN", "2026-01-04T09:00:00"),
        ("0 0 13 * fri", "2026-01-02T00:00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00:00"),
        ("0 0 1 jan,jul ?", "2026-07-01T00:00:00"),
        ("@hourly", "2026-01-01T13:00:00"),
        ("@every 90s", "2026-01-01T12:01:30"),
    ],
)
def test_the_next_time_is_the_first_that_fits(text, then):
    assert parse_schedule(text).after(NOON).isoformat() == then


def test_a_day_that_never_comes_is_no_time():
    assert parse_schedule("0 0 31 2 *").after(NOON) is None


@pytest.mark.parametrize(
    "text", ["", "* * * *", "60 * * * *", "*/0 * * * *", "x * * * *", "5-1 * * * *", "@never", "@every x"]
)
def test_what_is_no_schedule_is_refused(text):
    with pytest.raises(CronError):
        parse_schedule(text)


fields = st.tuples(
    st.sampled_from(["*", "*/7", "3", "10-20"]),
    st.sampled_from(["*", "*/5", "3,14"]),
    st.sampled_from(["*", "1", "13-15"]),
    st.sampled_from(["*", "2", "jun-aug"]),
    st.sampled_from(["*", "mon", "1-5"]),
)


@given(fields, st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)))
def test_the_last_time_until_the_next_one_is_the_next_one(parts, moment):
    schedule = parse_schedule(" ".join(parts))
    then = schedule.after(moment)
    assert then is not None and schedule.latest(moment, then + timedelta(seconds=30)) == then
