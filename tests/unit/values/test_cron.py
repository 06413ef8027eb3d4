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
    "text, message",
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("*/-2 * * * *", "negative number (-2) not allowed: -2"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("@never", "unrecognized descriptor: @never"),
        ("@every", "unrecognized descriptor: @every"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        ("TZ=Mars/Olympus * * * * *", "provided bad location Mars/Olympus: unknown time zone Mars/Olympus"),
        ("TZ=Etc/UTC * * * *", "expected exactly 5 fields, found 4: [* * * *]"),
    ],
)
def test_what_is_no_schedule_is_refused_in_the_api_servers_words(text, message):
    with pytest.raises(CronError) as refused:
        parse_schedule(text)
    assert str(refused.value) == message


@pytest.mark.parametrize("text", ["+5 * * * *", "1,,2 * * * *", "*-5 * * * *", "? ? ? ? ?", "\t1  * * * *"])
def test_spellings_that_the_api_server_takes(text):
    assert parse_schedule(text).after(NOON) is not None


def test_two_days_are_alternatives_unless_one_is_a_star():
    for text, days in [
        ("0 0 13 * fri", [2, 9, 13, 16, 23]),
        ("0 0 * * fri", [2, 9, 16, 23, 30]),
        ("0 0 */1 * fri", [2, 9, 16, 23, 30]),
        ("0 0 */10 * fri", [2, 9, 11, 16, 21]),
        ("0 0 31 * */6", [3, 4, 10, 11, 17]),
    ]:
        schedule, moment, found = parse_schedule(text), NOON, []
        for _ in days:
            moment = schedule.after(moment)
            found.append(moment.day)
        assert found == days, text


def test_a_duration_is_whole_seconds_and_at_least_one():
    everies = [parse_schedule(f"@every {text}").every for text in ("1m30.9s", "10ms", "-5m", "0")]
    assert everies == [timedelta(seconds=seconds) for seconds in (90, 1, 1, 1)]


def test_a_line_may_name_its_zone():
    for prefix in ("TZ", "CRON_TZ"):
        assert parse_schedule(f"{prefix}=Europe/Berlin  0 9 * * *").zone == "Europe/Berlin"
    assert parse_schedule("0 9 * * *").zone == ""


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
