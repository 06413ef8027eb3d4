"""Lexer: the tokens of an expression.

Spec: cel.md 2.2 "Tokens", 14.2 for the text of `token recognition error`. Maximal munch: where the longest form
fails (an open string, `1e`), the longest prefix that is a token counts, otherwise the characters up to
and including the one that did not fit are reported and skipped.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from weir.cel.source import Issue, Source

#: Kinds: the text itself for operators and keywords, else one of these names.
IDENTIFIER: Final = "IDENTIFIER"
ESC_IDENTIFIER: Final = "ESC_IDENTIFIER"
NUM_INT: Final = "NUM_INT"
NUM_UINT: Final = "NUM_UINT"
NUM_FLOAT: Final = "NUM_FLOAT"
STRING: Final = "STRING"
BYTES: Final = "BYTES"
EOF: Final = "<EOF>"
VALUES: Final = (NUM_INT, NUM_UINT, NUM_FLOAT, STRING, BYTES)
KEYWORDS: Final = frozenset(("true", "false", "null", "in"))


class Token(NamedTuple):
    """Kind, text and offset."""

    kind: str
    text: str
    pos: int


_ESCAPE = r"\\(?:[abfnrtv\\?\"'`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_STRING = (
    rf"(?:\"\"\"(?:[^\\]|{_ESCAPE})*?\"\"\""
    rf"|'''(?:[^\\]|{_ESCAPE})*?'''"
    rf"|\"(?:[^\\\"\n\r]|{_ESCAPE})*\""
    rf"|'(?:[^\\'\n\r]|{_ESCAPE})*'"
    r"|[rR]\"\"\"[\s\S]*?\"\"\"|[rR]'''[\s\S]*?'''"
    r"|[rR]\"[^\"\n\r]*\"|[rR]'[^'\n\r]*')"
)
_TOKEN: Final = re.compile(
    rf"(?P<SPACE>[ \t\r\n\f]+|//[^\n]*)"
    rf"|(?P<BYTES>[bB]{_STRING})"
    rf"|(?P<STRING>{_STRING})"
    r"|(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])"
    r"|(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<IDENTIFIER>[_a-zA-Z][_a-zA-Z0-9]*)"
    r"|(?P<ESC_IDENTIFIER>`[a-zA-Z0-9_.\-/ ]+`)"
    r"|(?P<OPERATOR>==|!=|<=|>=|&&|\|\||[<>+\-*/%!?:.,()\[\]{}])"
)
_OPEN: Final = {
    '"': re.compile(rf"\"(?:[^\\\"\n\r]|{_ESCAPE})*"),
    "'": re.compile(rf"'(?:[^\\'\n\r]|{_ESCAPE})*"),
}
#: As much of an escape as can still become one; the character after it is the one that does not fit.
_PARTIAL_ESCAPE: Final = re.compile(
    r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?"
)
_OPEN_QUOTED_NAME: Final = re.compile(r"`[a-zA-Z0-9_.\-/ ]*")


def tokenize(source: Source) -> tuple[list[Token], list[Issue]]:
    """The tokens of *source*, ending with EOF, and what could not be read.

    >>> [t.text for t in tokenize(Source("a.b == 'x'"))[0]]
    ['a', '.', 'b', '==', "'x'", '<EOF>']
    """
    text = source.text
    tokens: list[Token] = []
    issues: list[Issue] = []
    position, end = 0, len(text)
    match_at = _TOKEN.match
    while position < end:
        found = match_at(text, position)
        if found is None:
            stop = _first_misfit(text, position)
            bad = text[position : stop + 1]
            issues.append(source.issue(position, f"Syntax error: token recognition error at: '{bad}'"))
            position = stop + 1
            continue
        kind = found.lastgroup or ""
        if kind != "SPACE":
            word = found.group()
            if kind == "OPERATOR" or (kind == "IDENTIFIER" and word in KEYWORDS):
                kind = word
            tokens.append(Token(kind, word, position))
        position = found.end()
    tokens.append(Token(EOF, EOF, end))
    return tokens, issues


def _first_misfit(text: str, position: int) -> int:
    """The offset of the first character that cannot continue any token starting at *position*."""
    first = text[position]
    if first in "=&|":
        return position + 1
    if first == "`":
        found = _OPEN_QUOTED_NAME.match(text, position)
        return found.end() if found else position + 1
    if first in _OPEN:
        found = _OPEN[first].match(text, position)
        stop = found.end() if found else position + 1
        if stop < len(text) and text[stop] == "\\":
            partial = _PARTIAL_ESCAPE.match(text, stop)
            stop = partial.end() if partial else stop + 1
        return stop
    return position
