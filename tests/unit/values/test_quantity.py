"""Quantities: parsing, comparing, adding and printing as the Kubernetes API does."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.values import quantity as module
from weir.values.quantity import (
    FORMAT_WRONG,
    NUMBER_WRONG,
    SUFFIX_WRONG,
    Quantity,
    QuantityError,
    find_quantity,
    parse_quantity,
)

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2"]
texts = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "+", "-"]),
    st.text("0123456789", max_size=22),
    st.one_of(st.just(""), st.text("0123456789", max_size=12).map(".".__add__)),
    st.sampled_from(SUFFIXES),
).filter(lambda text: any(char.isdigit() for char in text))
quantities = texts.map(parse_quantity)


def exact(amount: Quantity) -> Fraction:
    return amount.unscaled * Fraction(10) ** amount.scale


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("Mi", "0"), ("+Ki", "0"), ("-", "0"), (".5", "500m"), ("5.", "5."), ("1E", "1E"), ("-1", "-1"),
        ("1000m", "1"), ("1500", "1500"), ("2000", "2k"), ("0.001", "1m"), ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"), ("16Ei", "9223372036854775807"), ("-0.1n", "-1n"), ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"), ("1e3", "1e3"), ("1e4", "10e3"), ("1e-1", "100e-3"), ("1000E", "1e21"),
    ],
)  # fmt: skip
def test_a_quantity_is_printed_canonically(text: str, printed: str) -> None:
    assert str(parse_quantity(text)) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT_WRONG), ("Three", FORMAT_WRONG), ("1 ", FORMAT_WRONG), ("1.2.3", FORMAT_WRONG),
        ("٣", FORMAT_WRONG), ("1\n", FORMAT_WRONG), ("200K", SUFFIX_WRONG), ("1Kii", SUFFIX_WRONG),
        ("Ei", NUMBER_WRONG), ("-Pi", NUMBER_WRONG), ("1e", SUFFIX_WRONG), ("1e99999999999999999999", SUFFIX_WRONG),
    ],
)  # fmt: skip
def test_a_bad_quantity_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as error:
        parse_quantity(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "integer"),
    [
        ("0", 0), ("1k", 1000), ("1E", 10**18), ("10E", None), ("2000m", None), ("1.0", None), ("1Gi", 2**30),
        ("1.5Gi", None), ("1Ei", None), ("99Ti", 99 << 40), ("100Ti", None),
        ("12345678901Ki", 12345678901 << 10),
        ("123456789012Ki", None), ("123456789012345678", 123456789012345678), ("1234567890123456789", None),
        ("1e2147483647", None), ("0e2147483647", 0),
    ],
)  # fmt: skip
def test_the_integer_view_follows_the_held_form(text: str, integer: int | None) -> None:
    assert parse_quantity(text).as_int64() == integer


def test_adding_keeps_the_smaller_scale_and_so_is_no_integer() -> None:
    assert (parse_quantity("500m") + parse_quantity("500m")).as_int64() is None


def test_subtracting_prints_in_the_first_operands_family() -> None:
    assert str(parse_quantity("1k") - parse_quantity("2k")) == "-1k"


def test_zero_takes_the_family_of_what_is_added() -> None:
    assert str(parse_quantity("0") + parse_quantity("2Gi")) == "2Gi"


def test_huge_exponents_are_compared_without_writing_them_out() -> None:
    assert parse_quantity("1e2147483647") > parse_quantity("1e2147483646") > parse_quantity("1e-2147483648")


def test_amounts_too_far_apart_are_refused_not_computed() -> None:
    with pytest.raises(QuantityError):
        parse_quantity("1e2147483647") + parse_quantity("1")


def test_find_quantity_gives_none_for_text_that_is_none() -> None:
    assert find_quantity("many") is None


@given(quantities, quantities)
def test_comparison_is_the_comparison_of_the_exact_numbers(left: Quantity, right: Quantity) -> None:
    difference = exact(left) - exact(right)
    assert left.compare(right) == (difference > 0) - (difference < 0)


@given(quantities, quantities)
def test_addition_and_subtraction_are_exact(left: Quantity, right: Quantity) -> None:
    assert (exact(left + right), exact(left - right)) == (
        exact(left) + exact(right),
        exact(left) - exact(right),
    )


@given(quantities)
def test_printing_loses_nothing(amount: Quantity) -> None:
    assert parse_quantity(str(amount)) == amount


@given(quantities, quantities)
def test_equal_amounts_have_equal_hashes(left: Quantity, right: Quantity) -> None:
    assert left != right or hash(left) == hash(right)


@given(st.from_regex(r"[1-9][0-9]{0,14}(m|Ki|Mi|Gi|k|M|G)?", fullmatch=True))
def test_the_fast_path_reads_what_the_general_one_reads(text: str) -> None:
    general = parse_quantity.__wrapped__
    fast = general(text)
    pattern, module._PLAIN = module._PLAIN, module.re.compile("(?!)")
    try:
        plain = general(text)
    finally:
        module._PLAIN = pattern
    fields = ("unscaled", "format", "held_as_integer", "text")
    same = [(getattr(fast, name), getattr(plain, name)) for name in fields if fast.held_as_integer]
    assert fast == plain and all(left == right for left, right in same) and str(fast) == str(plain)


@given(quantities)
def test_whole_and_milli_views_round_away_from_zero(amount: Quantity) -> None:
    for view, unit in ((amount.value, Fraction(1)), (amount.milli_value, Fraction(1, 1000))):
        gap = abs(view * unit) - abs(exact(amount))
        assert 0 <= gap < unit
