"""Integers: canonical for tolerations, any of Go's spellings for node affinity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.values.integer import (
    INT64_MAX,
    INT64_MIN,
    IntegerError,
    canonical_problem,
    parse_int64,
    parse_integer,
    parse_uint64,
)

NOT_CANONICAL = "must be a valid decimal integer in canonical form"


@pytest.mark.proves("5471-15", "5471-37")
@pytest.mark.parametrize("text", ["0", "7", "950", "-5", "-9223372036854775808", "9223372036854775807"])
def test_canonical_integers_are_read(text):
    assert parse_integer(text) == int(text)


@pytest.mark.proves("5471-55")
@pytest.mark.parametrize(
    "text", ["12345678901234567890", "9223372036854775808", "-9223372036854775809", "1" * 5000]
)
def test_canonical_integers_beyond_64_bits_are_out_of_range(text):
    with pytest.raises(IntegerError, match="value out of range"):
        parse_integer(text)


@pytest.mark.proves("5471-37", "5471-42", "5471-55", "5471-68", "5471-80")
@pytest.mark.parametrize(
    "text",
    ["00", "01", "0950", "-01", "-0", "+5", "+0", "-", "+", " 5", "5 ", "1 0", "95.5", "1e3", "0x10", "1_000", "1,000",
     "５", "٣", "−5", "5\n"],
)  # fmt: skip
def test_every_other_spelling_is_refused(text):
    assert canonical_problem(text) == NOT_CANONICAL


def test_an_empty_text_is_refused_with_its_own_words():
    assert canonical_problem("") == "must be non-empty"


@pytest.mark.parametrize("text, number", [("007", 7), ("+5", 5), ("-0", 0), ("-01", -1)])
def test_the_plain_parse_takes_signs_and_leading_zeros(text, number):
    assert parse_int64(text) == number


def test_the_plain_parse_quotes_what_it_cannot_read():
    with pytest.raises(IntegerError) as refused:
        parse_int64('a"b')
    assert str(refused.value) == 'strconv.ParseInt: parsing "a\\"b": invalid syntax'


@pytest.mark.proves("5471-37")
@given(st.integers(INT64_MIN, INT64_MAX))
def test_every_int64_is_canonical_in_its_own_decimal_form(number):
    assert parse_integer(str(number)) == number


@pytest.mark.parametrize(
    "text, number",
    [("0", 0), ("000", 0), ("007", 7), (str(2**64 - 1), 2**64 - 1), ("0" * 30 + str(2**64 - 1), 2**64 - 1)],
)
def test_an_unsigned_number_may_have_leading_zeros_and_64_bits(text, number):
    assert parse_uint64(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "٣", "a"])
def test_what_spells_no_unsigned_number_is_refused_in_gos_words(text):
    with pytest.raises(IntegerError, match="invalid syntax"):
        parse_uint64(text)


@pytest.mark.parametrize("text", [str(2**64), "9" * 21, "1" + "0" * 30])
def test_an_unsigned_number_of_more_than_64_bits_is_out_of_range(text):
    with pytest.raises(IntegerError, match="value out of range"):
        parse_uint64(text)


def test_a_number_in_another_form_than_the_canonical_one_is_no_integer():
    with pytest.raises(IntegerError, match="canonical"):
        parse_integer("05")
