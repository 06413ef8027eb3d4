"""Regular expressions: RE2's meaning, Go's messages, linear time."""

from __future__ import annotations

import re

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.unit.cel.library import costs, error, value
from weir.cel.errors import CostLimitExceeded
from weir.cel.library.regex import compile_regex, paid_regex
from weir.cel.library.simple_regex import translate
from weir.cel.work import begin

sets = st.sampled_from(
    ["a", "b", "-", r"\.", "[ab]", "[a-c]", "[0-9]", r"\d", r"\w", "[a-z0-9-]", "é", "[12]", r"[\-x]"]
)
counts = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}"])
patterns = st.builds(
    lambda start, items, end: start + "".join(s + c for s, c in items) + end,
    st.sampled_from(["^", "^", ""]),
    st.lists(st.tuples(sets, counts), max_size=5),
    st.sampled_from(["$", ""]),
)
texts = st.text("abcx12.-é\n", max_size=12)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'taco'.matches('t.*o')", True), ("matches('taco', '^a')", False), ("'a\\n'.matches('a$')", False),
        ("'line1\\nline2'.matches('(?m)^line2$')", True), ("'\\u0661'.matches('^\\\\d$')", False),
        ("'É'.matches('(?i)^é$')", True), ("'λ'.matches('^\\\\p{Greek}$')", True), ("'x'.matches('a{1000}')", False),
        ("'aaa'.find('a{2}')", "aa"), ("'abc'.find('z')", ""), ("'x1y22'.findAll('[0-9]+')", ["1", "22"]),
        ("'x1y22'.findAll('[0-9]+', 1)", ["1"]), ("'x1y22'.findAll('[0-9]', 0)", []),
        ("'x1y22'.findAll('[0-9]', -1)", ["1", "2", "2"]), ("'abc'.findAll('b*')", ["", "b", ""]),
        ("'é'.findAll('')", ["", ""]), ("taint.key.matches(taint.effect + '|' + taint.key)", True),
        ("'ab'.matches('(?<n>a)(?P<m>b)')", True),
    ],
)  # fmt: skip
def test_patterns_match(expression: str, expected: object) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("[", "missing closing ]: `[`"),
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("a\\\\", "trailing backslash at end of expression: ``"),
        ("\\\\8", "invalid escape sequence: `\\8`"),
        ("\\\\C", "invalid escape sequence: `\\C`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ("(?<=a)b", "invalid named capture: `(?<=a)b`"),
        ("(?<!a)>b", "invalid named capture: `(?<!a)>`"),
        ("\\\\pX", "invalid character class range: `\\pX`"),
    ],
)
def test_bad_patterns_are_described_in_gos_words(pattern: str, message: str) -> None:
    assert (
        error(f"taint.key.matches(taint.key.substring(0, 0) + '{pattern}')")
        == f"error parsing regexp: {message}"
    )


def test_a_bad_computed_pattern_of_find_is_an_illegal_regex() -> None:
    assert (
        error("taint.key.find(taint.value + '[')")
        == "Illegal regex: error parsing regexp: missing closing ]: `[`"
    )


def test_a_bad_literal_is_refused_when_compiled_or_built() -> None:
    assert "invalid matches argument" in error("taint.key.matches('[')")
    assert error("taint.key.find('[')") == "error parsing regexp: missing closing ]: `[`"


def test_the_price_is_the_product_of_text_and_pattern() -> None:
    assert costs("taint.key.matches('^zone-a[12]-rack-[0-9]+$')") == (8, 194, 14)


@given(patterns, texts)
@settings(max_examples=tries(160, 400))
def test_a_translated_pattern_matches_what_re2_matches(pattern: str, text: str) -> None:
    plain = translate(pattern)
    if plain is not None:
        assert bool(re.search(plain, text)) == bool(re2.search(pattern, text)), (pattern, plain, text)


@given(st.text(alphabet="ab^$[]-\\.*+?{}()|d1,", max_size=8), texts)
@settings(max_examples=tries(160, 400))
def test_translation_never_accepts_what_re2_refuses(pattern: str, text: str) -> None:
    plain = translate(pattern)
    if plain is not None:
        options = re2.Options()
        options.log_errors = False
        assert bool(re.search(plain, text)) == bool(re2.compile(pattern, options).search(text))


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "^a*a*b$", "a+", "^(ab)+$", "a|b", "^.*x$", "[^a]", "^a+[a-c]$", "(?i)a"]
)
def test_patterns_that_could_backtrack_are_left_to_re2(pattern: str) -> None:
    assert translate(pattern) is None


@given(patterns, texts)
def test_find_all_agrees_with_find(pattern: str, text: str) -> None:
    regex = compile_regex(pattern)
    found = regex.find_all(text)
    assert (found[0] if found else "") == regex.find(text) and bool(found) == bool(regex.test(text))


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:a{0,1000})" * 8,
        "(?:[]a[:^alpha:]\\]]{0,1000}?)" * 8,
        "(?P<n>(?:\\x{10FFFF}|){0,900}(?i:k*){9,900})" * 6,
        "a?" * 5_000,
        "|".join(["a{0,100}"] * 190),
        "(?:(?:a{0,30}){0,30})" * 8,
    ],
)
def test_a_pattern_that_takes_re2_long_is_not_given_to_it(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RE2 takes the square of the parts that may be left out in a row: up to two seconds for one pattern."""
    given: list[str] = []
    monkeypatch.setattr("weir.cel.library.regex._compile", given.append)
    begin()
    with pytest.raises(CostLimitExceeded):
        paid_regex(pattern)
    assert given == []


@pytest.mark.parametrize(
    "pattern",
    [
        "^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\\.){0,15}[a-z]{2,63}$",
        "^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$",
        "[a-z]{1,999}[a-z]{1,999}x",
        "(?:a{0,5}b)" * 900,
        "^\\pL{1,10}$",
        "|".join(f"word{n}" for n in range(600)),
        "\\Qa{0,1000}\\E{3}",
    ],
)
def test_a_pattern_that_repeats_much_and_takes_little_is_compiled(pattern: str) -> None:
    begin()
    assert paid_regex(pattern).size > 0
