"""Times are read as the plain reader reads them, whichever way they take."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.objects.times import _MICRO, TimeError, _read, format_micro_time, parse_micro_time

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
    try:
        return format_micro_time(_read(text, _MICRO))
    except TimeError as error:
        return f"refused: {error}"


@settings(max_examples=tries(400, 5000), deadline=None)
@given(near)
@example("2026-02-29T00:00:00.000000Z")
@example("2024-02-29T23:59:59.999999Z")
@example("0000-01-01T00:00:00.000000Z")
def test_a_micro_time_that_is_kept_as_it_is_is_read_like_others(text: str) -> None:
    try:
        found = parse_micro_time(text)
    except TimeError as error:
        found = f"refused: {error}"
    assert found == told(text)


def test_a_micro_time_in_its_kept_form_is_taken_as_it_is() -> None:
    text = "2026-01-02T03:04:05.678901Z"
    assert parse_micro_time(text) is text


@pytest.mark.parametrize("text", ["2026-01-02T03:04:05.678901+01:00", "2026-01-02T03:04:05,678901Z"])
def test_a_micro_time_in_another_form_is_brought_into_it(text: str) -> None:
    assert parse_micro_time(text).endswith(":04:05.678901Z")
