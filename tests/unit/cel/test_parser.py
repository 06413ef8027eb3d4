"""Syntax: limits, positions, and the wording of mistakes (cel.md 2, 14)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.cel import CompileError, ast
from weir.cel.errors import Source
from weir.cel.macros import GROUPS, Macros
from weir.cel.parser import parse
from weir.cel.types import Node

_MACROS = Macros(frozenset(GROUPS) - {"standard"})
_E = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)
_E_OR_MARK = _E.replace("'!', ", "'!', '?', ")
_E_OR_END = _E.replace("'(', ", "'(', ')', ")


def _parse(text: str) -> Node:
    return parse(Source(text), _MACROS)


def _mistakes(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(CompileError) as refused:
        _parse(text)
    return [(issue.line, issue.column + 1, issue.message) for issue in refused.value.issues]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(1, 0, f"mismatched input '<EOF>' expecting {_E}")]),
        ("taint.key ==", [(1, 13, f"mismatched input '<EOF>' expecting {_E}")]),
        ("== taint.key", [(1, 1, f"extraneous input '==' expecting {_E}")]),
        (
            "?!",
            [
                (1, 1, f"extraneous input '?' expecting {_E}"),
                (1, 3, f"extraneous input '<EOF>' expecting {_E}"),
            ],
        ),
        (
            "taint.key = 'a'",
            [(1, 11, "token recognition error at: '= '"), (1, 13, "extraneous input ''a'' expecting <EOF>")],
        ),
        ("(taint.key == 'a'", [(1, 18, "missing ')' at '<EOF>'")]),
        ("taint.key == 'a')", [(1, 17, "extraneous input ')' expecting <EOF>")]),
        ("taint.", [(1, 7, "no viable alternative at input '.'")]),
        ("taint.key == 'a' and true", [(1, 18, "mismatched input 'and' expecting <EOF>")]),
        ("[1,2", [(1, 5, "mismatched input '<EOF>' expecting {']', ','}")]),
        ("{1}", [(1, 3, "mismatched input '}' expecting ':'")]),
        ("[1,,2]", [(1, 4, "mismatched input ',' expecting ']'")]),
        ("[1,", [(1, 4, "missing ']' at '<EOF>'")]),
        ("f(1,)", [(1, 5, f"mismatched input ')' expecting {_E}")]),
        ("a[", [(1, 3, f"mismatched input '<EOF>' expecting {_E_OR_MARK}")]),
        ("f(", [(1, 3, f"mismatched input '<EOF>' expecting {_E_OR_END}")]),
        ("a ? b", [(1, 6, "mismatched input '<EOF>' expecting ':'")]),
        (
            "a ? : b",
            [
                (1, 5, f"extraneous input ':' expecting {_E}"),
                (1, 8, "mismatched input '<EOF>' expecting ':'"),
            ],
        ),
        (
            "1 + -",
            [
                (1, 6, "no viable alternative at input '-'"),
                (1, 6, f"mismatched input '<EOF>' expecting {_E}"),
            ],
        ),
        ("a.true.b", [(1, 3, "mismatched input 'true' expecting IDENTIFIER")]),
        (
            "optional(taint taint.key)",
            [
                (1, 16, "mismatched input 'taint' expecting ')'"),
                (1, 25, "extraneous input ')' expecting <EOF>"),
            ],
        ),
        (
            "1[1, 2].all(i, v / i == 1)",
            [(1, 4, "mismatched input ',' expecting ']'"), (1, 26, "extraneous input ')' expecting <EOF>")],
        ),
        ("1..2", [(1, 3, "no viable alternative at input '..2'")]),
        ("1 + * 2", [(1, 5, f"extraneous input '*' expecting {_E}")]),
        ("taint.key === 'a'", [(1, 13, "token recognition error at: '= '")]),
        ("1 2", [(1, 3, "extraneous input '2' expecting <EOF>")]),
        ("@foo", [(1, 1, "token recognition error at: '@'")]),
    ],
)
def test_syntax_errors_are_worded_like_kubernetes_words_them(
    text: str, expected: list[tuple[int, int, str]]
) -> None:
    assert _mistakes(text) == [(line, column, f"Syntax error: {words}") for line, column, words in expected]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 250 + "1" + ")" * 250, "expression recursion limit exceeded: 250"),
        ("[" * 5000, "expression recursion limit exceeded: 250"),
        ("true?1:" * 300 + "1", "expression recursion limit exceeded: 250"),
        (" + ".join(["1"] * 252), "max recursion depth exceeded"),
        ("a" + ".f()" * 251, "max recursion depth exceeded"),
        ("a" * 100_001, "expression code point size exceeds limit: size: 100001, limit 100000"),
    ],
)
def test_an_expression_beyond_a_limit_is_refused_as_a_whole(text: str, message: str) -> None:
    with pytest.raises(CompileError) as refused:
        _parse(text)
    assert str(refused.value) == f"ERROR: <input>:-1:0: {message}"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 249 + "1" + ")" * 249,
        " + ".join(["1"] * 251),
        " && ".join(["true"] * 5000),
        "[1].map(x, " * 240 + "1" + ")" * 240,
        "!" * 9999 + "true",
    ],
    ids=["parentheses", "sum", "conjunction", "macros", "negations"],
)
def test_an_expression_within_the_limits_is_accepted(text: str) -> None:
    assert isinstance(_parse(text), Node)


def test_a_chain_of_conjunctions_becomes_a_balanced_tree() -> None:
    assert ast.depth(_parse(" && ".join(["a"] * 1024))) == 11


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-9223372036854775808", -(2**63)),
        ("0x1F", 31),
        (".5e1", 5.0),
        ("r'\\n'", "\\n"),
        ("'''a'b'''", "a'b"),
        (r"b'\xff\101'", b"\xffA"),
        (r"'\U0001F600\x41\101'", "\N{GRINNING FACE}AA"),
    ],
)
def test_a_literal_means_its_value(text: str, value: object) -> None:
    node = _parse(text)
    assert isinstance(node, ast.Literal) and node.value == value


@pytest.mark.parametrize(
    ("text", "count"), [("-1", 0), ("--1", 0), ("---1", 1), ("!!a", 0), ("!a", 1), ("-(-1)", 1)]
)
def test_signs_cancel_in_pairs_and_one_belongs_to_the_number(text: str, count: int) -> None:
    assert sum(isinstance(node, ast.Call) for node in ast.walk(_parse(text))) == count


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1].map(1, 2)", "argument is not an identifier"),
        ("[1].all(1, true)", "argument must be a simple name"),
        ("[1].filter(__result__, true)", "iteration variable overwrites accumulator variable"),
        ("[1].all(x, x, true)", "duplicate variable name: x"),
        ("has(a)", "invalid argument to has() macro"),
        ("a.optMap(1, 2)", "optMap() variable name must be a simple identifier"),
        ("cel.bind(1, 2, 3)", "cel.bind() variable names must be simple identifiers"),
        ("if", "reserved identifier: if"),
        ("9223372036854775808", "invalid int literal"),
        (r"'\ud800'", "invalid unicode code point"),
        (r"b'\u0041'", "unable to unescape string"),
    ],
)
def test_a_wrong_use_is_one_issue(text: str, message: str) -> None:
    assert [words for _, _, words in _mistakes(text)] == [message]


def test_at_most_a_hundred_issues_are_listed() -> None:
    with pytest.raises(CompileError) as refused:
        _parse("[" + ", ".join(["if"] * 130) + "]")
    assert str(refused.value).endswith("\n30 more errors were truncated")


@given(st.text(alphabet="ab.()[]{}?:,'\"\\+-*!&|<=>01xeu@`\n# ", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        _parse(text)
    except CompileError as refused:
        assert str(refused).startswith("ERROR: <input>:")
