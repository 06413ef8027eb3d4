"""Times are read as the plain reader reads them, whichever way they take."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.objects.times import TimeError, parse_micro_time, parse_time
from weir.values.timestamp import MICROSECONDS, TimestampError, format_timestamp, parse_timestamp

near = st.builds(
    "{}-{}-{}T{}:{}:{}{}{}{}".format,
    st.sampled_from(["2026", "0000", "0001", "9999", "1900", "2000", "20", "\u0662026"]),
    st.sampled_from(["01", "02", "12", "13", "00", "1"]),
    st.sampled_from(["01", "28", "29", "30", "31", "32", "00", "\u0661\u0661"]),
    st.sampled_from(["00", "23", "24"]),
    st.sampled_from(["00", "59", "60"]),
    st.sampled_from(["00", "59", "60"]),
    st.sampled_from([".", ".", ".", ",", ""]),
    st.sampled_from(["000000", "123456", "999999", "1", "1234567", ""]),
    st.sampled_from(["Z", "Z", "Z", "+00:00", "-07:30", "+24:00", "z", "", "Z ", "ZZ", "\n"]),
)


def told(text: str) -> str:
    """Return what the one parser of RFC 3339 makes of it."""
    try:
        instant = parse_timestamp(text, MICROSECONDS)
    except TimestampError as error:
        return f"refused: {error}"
    whole, micros = divmod(instant // 1000, 1_000_000)
    shown = format_timestamp(whole * 10**9).removesuffix("Z")
    return f"{shown}.{micros:06d}Z" if len(shown) == 19 and shown[:4] != "0000" else "refused: year"


@settings(max_examples=tries(400, 5000), deadline=None)
@given(near)
@example("2026-02-29T00:00:00.000000Z")
@example("2024-02-29T23:59:59.999999Z")
@example("0000-01-01T00:00:00.000000Z")
def test_a_micro_time_that_is_kept_as_it_is_is_read_like_others(text: str) -> None:
    try:
        found = parse_micro_time(text)
    except TimeError as error:
        found = "refused: year" if "year out of range" in str(error) else f"refused: {error}"
    assert found == told(text)


def test_a_micro_time_in_its_kept_form_is_taken_as_it_is() -> None:
    text = "2026-01-02T03:04:05.678901Z"
    assert parse_micro_time(text) is text


@pytest.mark.parametrize("text", ["2026-01-02T03:04:05.678901+01:00", "2026-01-02T03:04:05,678901Z"])
def test_a_micro_time_in_another_form_is_brought_into_it(text: str) -> None:
    assert parse_micro_time(text).endswith(":04:05.678901Z")


@pytest.mark.parametrize(
    "text, kept",
    [
        ("2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05,5+24:00", "2026-01-01T03:04:05Z"),
        ("2024-02-29T23:59:59.999999999999Z", "2024-02-29T23:59:59Z"),
    ],
)
def test_spellings_that_go_takes(text: str, kept: str) -> None:
    assert parse_time(text) == kept


@pytest.mark.parametrize(
    "text, message",
    [
        ("", ' as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"'),
        ("2026-1-02T03:04:05Z", ' as "2006-01-02T15:04:05Z07:00": cannot parse "1-02T03:04:05Z" as "01"'),
        ("2026-13-02T03:04:05Z", ": month out of range"),
        ("2026-02-29T03:04:05Z", ": day out of range"),
        ("2026-02-28T24:04:05Z", ": hour out of range"),
        ("2026-02-28T03:04:05", ' as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"'),
        ("2026-02-28T03:04:05+25:00", ": time zone offset hour out of range"),
        ("2026-02-28T03:04:05+01:61", ": time zone offset minute out of range"),
        ("2026-02-28T03:04:05Zx", ': extra text: "x"'),
        ("0000-02-28T03:04:05Z", ": year out of range"),
    ],
)
def test_what_is_no_time_is_refused_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(TimeError) as refused:
        parse_time(text)
    assert str(refused.value) == f'parsing time "{text}"{message}'
