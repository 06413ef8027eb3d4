"""Tolerant versions: what is read, what is refused with which words, and how versions order."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weir.values.semver import SemverError, find_tolerant, parse_strict, parse_tolerant

VECTORS = yaml.safe_load((Path(__file__).parents[2] / "vectors" / "semver.yaml").read_text())


@pytest.mark.proves("5721-13", "5721-24", "5721-88")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: repr(v["text"]))
def test_a_text_is_read_or_refused_as_recorded(vector):
    if "version" in vector:
        assert str(parse_tolerant(vector["text"])) == vector["version"]
    else:
        with pytest.raises(SemverError) as refused:
            parse_tolerant(vector["text"])
        assert str(refused.value) == vector["error"]


PRECEDENCE = [
    "1.0.0-0", "1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-1a", "1.0.0-a", "1.0.0-a.1", "1.0.0-a.b", "1.0.0-rc.2",
    "1.0.0-rc.10", "1.0.0-rc10", "1.0.0-rc2", "1.0.0", "1.0.1-x", "1.0.1", "1.9.0", "1.10.0", "2.0.0",
]  # fmt: skip


@pytest.mark.proves("5721-5", "5721-88")
def test_precedence_is_total_and_as_the_specification_orders_it():
    backwards = PRECEDENCE[::-1]
    assert sorted(backwards, key=lambda text: parse_tolerant(text).key) == PRECEDENCE
    assert sorted(backwards, key=parse_tolerant) == PRECEDENCE


def test_build_metadata_never_counts():
    assert parse_tolerant("1.2.3+a") == parse_tolerant("1.2.3+b")


def test_leading_zeros_are_taken_off_before_a_prerelease_and_build_too():
    assert [str(parse_tolerant(text)) for text in ("1.2.03-beta", "1.2.00-beta", "1.2.03+x")] == [
        "1.2.3-beta",
        "1.2.0-beta",
        "1.2.3+x",
    ]


def test_a_letter_behind_a_number_is_named_with_it():
    with pytest.raises(SemverError, match='found in patch number "3é"'):
        parse_tolerant("1.2.03é")


@pytest.mark.parametrize(
    "space, taken_off", [("\u1fff", False), ("\u2000", True), ("\u200a", True), ("\u200b", False)]
)
def test_space_around_a_version_is_what_unicode_calls_so(space, taken_off):
    assert (find_tolerant(f"{space}1.2.3{space}") is not None) is taken_off


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("01.2.3", 'Major number must not contain leading zeroes "01"'),
    ],
)
def test_the_strict_parser_has_its_own_refusals(text, problem):
    with pytest.raises(SemverError, match=problem):
        parse_strict(text)


@given(st.text(max_size=30) | st.from_regex(r"\Av?[0-9]{1,3}(\.[0-9x]{1,3}){0,3}([-+][a-z0-9.]{0,5})?\Z"))
def test_any_text_is_read_or_refused_and_what_is_read_reads_the_same_again(text):
    version = find_tolerant(text)
    if version is not None:
        assert parse_strict(str(version)).key == version.key


def test_a_version_is_neither_less_nor_greater_than_itself_and_equal_ones_are_one_key():
    first, second = parse_tolerant("v1.2.3"), parse_tolerant("1.2.3")
    assert not first < second and not first > second and first <= second and first >= second
    assert len({first, second}) == 1 and repr(first) == "Version('1.2.3')"


@pytest.mark.proves("5721-29", "5721-32")
def test_a_version_is_parsed_once():
    assert find_tolerant("v1.28.3") is find_tolerant("v1.28.3")
