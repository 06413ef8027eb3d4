"""The string extension and its formatter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cel.library import costs, error, value
from weir.cel.errors import CostLimitExceeded
from weir.cel.library.strings import join, replace, split


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'tacocat'.charAt(3)", "o"), ("'abc'.charAt(3)", ""), ("'ta©o©αT'.indexOf('©', 3)", 4),
        ("'abc'.indexOf('a', 5)", -1), ("'abc'.indexOf('', 9)", 3), ("'abcabc'.lastIndexOf('abc', 3)", 3),
        ("'abcabc'.lastIndexOf('abc', 2)", 0), ("'tacocat'.lastIndexOf('a', 30)", -1), ("'abc'.lastIndexOf('')", 3),
        ("'abc'.lastIndexOf('', 1)", 1), ("'ÀBc'.lowerAscii()", "Àbc"), ("'àBc'.upperAscii()", "àBC"),
        ("'a-b-c'.replace('-', '+', 1)", "a+b-c"), ("'a-b'.replace('-', '', 0)", "a-b"),
        ("'abc'.replace('', '_')", "_a_b_c_"), ("'a,b,c'.split(',', 2)", ["a", "b,c"]), ("'a,b'.split(',', 0)", []),
        ("'abc'.split('')", ["a", "b", "c"]), ("'abc'.split('', 2)", ["a", "bc"]), ("''.split(',')", [""]),
        ("''.split('')", []), ("'abc'.substring(1)", "bc"), ("'abc'.substring(1, 1)", ""),
        ("' \\u00a0x\\t'.trim()", "x"), ("'\\x1cx'.trim()", "\x1cx"), ("['a', 'b'].join('-')", "a-b"),
        ("['a', 'b'].join()", "ab"), ("strings.quote('a\"b\\n\\\\')", '"a\\"b\\n\\\\"'),
    ],
)  # fmt: skip
def test_a_call_gives_its_value(expression: str, expected: Any) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("'abc'.charAt(-1)", "index out of range: -1"),
        ("'abc'.charAt(4)", "index out of range: 4"),
        ("'abc'.indexOf('a', -1)", "index out of range: -1"),
        ("'abc'.lastIndexOf('a', -2)", "index out of range: -2"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'abc'.substring(0, 9)", "index out of range: 9"),
        ("'abc'.substring(4)", "index out of range: 4"),
    ],
)
def test_positions_outside_the_text_are_errors(expression: str, message: str) -> None:
    assert error(expression) == message


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'%s %d%%'.format(['a', 1])", "a 1%"), ("'%s'.format([1.0])", "1"), ("'%s'.format([null])", "null"),
        ("'%s'.format([[1, 'a', 2.5]])", '[1, "a", 2.500000]'), ("'%s'.format([{'b': 1, 'a': 2}])", '{"a":2, "b":1}'),
        ("'%s'.format([[duration('90s'), timestamp(0)]])",
         '[duration("90s"), timestamp("1970-01-01T00:00:00Z")]'),
        ("'%s'.format([[b'x', double('nan'), double('-inf')]])", '[b"x", "NaN", "-Inf"]'),
        ("'%s'.format([int])", "int"), ("'%f'.format([1234567.891])", "1,234,567.891000"),
        ("'%.2f'.format([1.005])", "1.00"), ("'%.0f'.format([2.5])", "2"), ("'%f'.format(['Infinity'])", "∞"),
        ("'%e'.format([1052.032911275])", "1.052033×10⁰³"), ("'%.3e'.format([12345.678])", "1.234568×10⁰⁴"),
        ("'%e'.format([0.00001])", "1.000000×10⁻⁰⁵"), ("'%e'.format([-double('inf')])", "    -∞"),
        ("'%b'.format([-5])", "-101"), ("'%b'.format([true])", "1"), ("'%x'.format(['hi'])", "6869"),
        ("'%X'.format([3054])", "BEE"), ("'%o'.format([-8])", "-10"), ("'%x'.format([b'abc'])", "616263"),
    ],
)  # fmt: skip
def test_a_clause_prints_its_value(expression: str, expected: str) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("'%d'.format([])", "index 0 out of range"),
        ("'%d'.format([1, 2])", "too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%05d'.format([3])", 'could not parse formatting clause: unrecognized formatting clause "0"'),
        ("'100%'.format([])", "unexpected end of string"),
        (
            "'%d'.format(['a'])",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%d'.format([dyn('a')])",
            "error during formatting: decimal clause can only be used on integers, was given ",
        ),
        (
            "'%f'.format([1])",
            "error during formatting: fixed-point clause can only be used on doubles, was given int",
        ),
        (
            "'%e'.format([true])",
            "error during formatting: scientific clause can only be used on doubles, was given ",
        ),
        (
            "'%b'.format(['a'])",
            "error during formatting: only integers and bools can be formatted as binary, was given ",
        ),
        (
            "'%x'.format([1.5])",
            "only integers, byte buffers, and strings can be formatted as hex, was given double",
        ),
        (
            "'%o'.format(['a'])",
            "error during formatting: octal clause can only be used on integers, was given string",
        ),
        (
            "'%s'.format([semver('1.0.0')])",
            "string clause can only be used on strings, bools, bytes, ints, doubles, ",
        ),
        ("'%s'.format([[optional.of(1)]])", "was given optional_type"),
        ("'%.f'.format([1.0])", "error while converting precision to integer"),
        ("'%.5'.format([1.0])", "could not find end of precision specifier"),
    ],
)
def test_a_clause_refuses_what_it_cannot_print(expression: str, message: str) -> None:
    assert message in error(expression)


def test_a_template_known_only_at_run_time_is_read_then() -> None:
    assert error("(taint.effect + '%d %d').format([1])") == "index 1 out of range"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("taint.key.lowerAscii() == 'abc'", (3, 35, 5)),
        ("taint.key.replace('a','b')", (2, 66, 5)),
        ("taint.key.split('.')", (2, 66, 5)),
        ("taint.key.indexOf('/')", (2, 34, 3)),
        ("taint.key.charAt(0)", (3, 3, 3)),
        ("strings.quote(taint.key)", (2, 34, 4)),
        ("taint.key.substring(4).contains('a')", (2, 66, 5)),
        ("'%s'.format([taint.key])", (13, 13, 13)),
        ("taint.value.replace('a', 'bc').contains('x')", (2, 28, 4)),
        ("taint.key.split('/').join('.').size()", (3, 1844674407370955331, 9)),
    ],
)
def test_a_call_costs_what_kubernetes_charges(expression: str, expected: tuple[int, int, int]) -> None:
    assert costs(expression) == expected


@given(st.text(alphabet="ab,", max_size=20), st.text(alphabet="ab,", max_size=3))
def test_joining_what_was_split_gives_the_text_back(text: str, separator: str) -> None:
    assert join(split(text, separator), separator) == text


@given(st.text(alphabet="abc", max_size=12), st.integers(min_value=1, max_value=5))
def test_a_limit_bounds_the_parts_and_loses_nothing(text: str, limit: int) -> None:
    parts = split(text, "b", limit)
    assert len(parts) <= limit and "b".join(parts) == text


def test_a_replacement_beyond_any_budget_is_stopped_before_it_is_built() -> None:
    with pytest.raises(CostLimitExceeded):
        replace("a" * 10_000, "a", "b" * 10_000)
