from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.fields.field import (
    Bare,
    Enum,
    FieldError,
    duplicate,
    forbidden,
    internal,
    invalid,
    not_found,
    not_supported,
    required,
    show,
    too_long,
    too_many,
)
from weir.validate.gonames import diff, equal, go_struct


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (invalid("a", "x", "bad"), 'a: Invalid value: "x": bad'),
        (invalid("a", None, ""), "a: Invalid value: null"),
        (invalid("a", Bare("as it stands"), ""), "a: Invalid value: as it stands"),
        (not_supported("a", "x", ("b", "a")), 'a: Unsupported value: "x": supported values: "b", "a"'),
        (required("a"), "a: Required value"),
        (required("a", "why"), "a: Required value: why"),
        (duplicate("a", {"k": 1}), 'a: Duplicate value: {"k":1}'),
        (forbidden("a", "why"), "a: Forbidden: why"),
        (too_long("a", 1), "a: Too long: may not be more than 1 byte"),
        (too_long("a", 63), "a: Too long: may not be more than 63 bytes"),
        (too_many("a", 17, 16), "a: Too many: 17: must have at most 16 items"),
        (not_found("a", "v"), 'a: Not found: "v"'),
        (internal("a", "text"), "a: Internal error: text"),
    ],
)
def test_each_error_prints_the_line_users_know(error: FieldError, line: str) -> None:
    assert str(error) == line


def test_plain_text_is_quoted_and_enums_are_json() -> None:
    assert (show("<é\n>"), show(Enum("<é>"))) == ('"<é\\n>"', '"\\u003cé\\u003e"')


def test_equal_errors_are_one() -> None:
    assert len({invalid("a", "x", "bad"), invalid("a", "x", "bad"), required("a")}) == 2


@given(st.text())
def test_every_text_prints_on_one_line(text: str) -> None:
    assert "\n" not in show(text) and "\n" not in show(Enum(text))


def test_a_struct_prints_every_field_with_its_go_name() -> None:
    assert go_struct("NodeSelectorTerm", {"matchFields": []}) == {
        "MatchExpressions": None,
        "MatchFields": None,
    }


def test_empty_lists_and_absent_ones_are_equal_but_an_empty_struct_is_not_an_absent_one() -> None:
    assert equal("PodSpec", {"tolerations": []}, {}) and not equal("PodSpec", {"affinity": {}}, {})


def test_a_field_the_table_does_not_know_still_counts() -> None:
    assert not equal("PodSpec", {"newField": 1}, {"newField": 2})


def test_a_diff_shows_three_lines_around_each_change() -> None:
    text = diff("PodSpec", {"nodeName": "a"}, {"nodeName": "b"})
    assert [line for line in text.split("\n") if line[:1] in "+-"] == [
        '- "NodeName": "a",',
        '+ "NodeName": "b",',
        "",
    ]
