"""The part of an expression that made it true, false or fail.

For explanations: `a && (b || c)` is false because of `b || c`, or because of `a`. The answer is a piece of the
text as the user wrote it. The text is cut at the operators that only combine answers (`?:`, `||`, `&&`, `!` and
parentheses), each piece is compiled by itself in the same environment, and the cut goes on into the piece
that decided. A true `&&` or a false `||` needs all of its parts, so it is its own reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weir.cel import work
from weir.cel.env import Env
from weir.cel.errors import CelError, Source
from weir.cel.lexer import EOF, Token, tokenize
from weir.cel.program import Program, compile
from weir.cel.values import Value

Compile = Callable[[str, Env], Program]

_OPEN: Final = frozenset("([{")
_CLOSE: Final = frozenset(")]}")
#: Operators that bind looser than `!`: where one stands outside brackets, a leading `!` is not the outermost.
_BINARY: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%"})


@dataclass(frozen=True, slots=True)
class Decision:
    """The deciding piece: its text, where it starts (code points), its value or the error it ended with."""

    text: str
    position: int
    value: Value = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some tokens of the source in a row."""

    source: str
    tokens: Sequence[Token]

    @property
    def start(self) -> int:
        return self.tokens[0].pos

    @property
    def text(self) -> str:
        last = self.tokens[-1]
        return self.source[self.start : last.pos + len(last.text)]

    def cut(self, start: int, end: int) -> _Piece:
        return _Piece(self.source, self.tokens[start:end])


def decide(expression: str, env: Env, variables: Mapping[str, Value], compile: Compile = compile) -> Decision:
    """Return which part of *expression* decided its value for these variables.

    >>> from weir.cel import types
    >>> from weir.cel.library import KUBERNETES
    >>> env = Env(KUBERNETES, {"x": types.INT})
    >>> decide("x > 3 && (x == 1 || x < 9)", env, {"x": 10}).text
    'x == 1 || x < 9'
    """
    tokens = [token for token in tokenize(Source(expression))[0] if token.kind != EOF]
    if not tokens:
        return Decision(expression, 0, error=_evaluate(expression, env, variables, compile)[1])

    used = 0

    def value_of(piece: _Piece) -> tuple[Value, str]:
        nonlocal used
        found = _evaluate(piece.text, env, variables, compile)
        used += work.spent()
        return found

    piece = _Piece(expression, tokens)
    while True:
        piece = _without_parentheses(piece)
        # All pieces together may work as much as a few evaluations: each is evaluated at every level it stands in.
        inner = _deciding_part(piece, value_of) if used < 4 * work.MOST_WORK else None
        if inner is None:
            value, error = value_of(piece)
            return Decision(piece.text, piece.start, value, error)
        piece = inner


def conditions(expression: str) -> list[str]:
    """Return the parts of *expression* that `&&`, `||` and `!` only combine, in their order.

    >>> conditions("a == 1 && (b || !c.startsWith('x'))")
    ['a == 1', 'b', "c.startsWith('x')"]
    """
    tokens = [token for token in tokenize(Source(expression))[0] if token.kind != EOF]
    stack = [_Piece(expression, tokens)] if tokens else []
    found: list[str] = []
    while stack:
        piece = _without_parentheses(stack.pop())
        parts = _combined(piece)
        if parts:
            stack.extend(reversed(parts))
        else:
            found.append(piece.text)
    return found


def _combined(piece: _Piece) -> list[_Piece]:
    if _conditional(piece) is not None:
        return []
    for operator in ("||", "&&"):
        operands = list(_split(piece, operator))
        if len(operands) > 1:
            return operands
    negated = _negated(piece)
    return [] if negated is None else [negated]


def _evaluate(text: str, env: Env, variables: Mapping[str, Value], compile: Compile) -> tuple[Value, str]:
    try:
        return compile(text, env).evaluate(variables), ""
    except CelError as error:
        return None, str(error)


def _deciding_part(piece: _Piece, value_of: Callable[[_Piece], tuple[Value, str]]) -> _Piece | None:
    """Return the part of *piece* that decided its value, or None when it is its own reason."""
    if (parts := _conditional(piece)) is not None:
        condition, yes, no = parts
        value, _ = value_of(condition)
        if value.__class__ is not bool:  # it failed, or nothing can be chosen by it
            return condition
        chosen = yes if value else no
        return condition if len(_without_parentheses(chosen).tokens) == 1 else chosen
    for operator, settling in (("||", True), ("&&", False)):
        operands = list(_split(piece, operator))
        if len(operands) > 1:
            return _settled_by(operands, settling, value_of)
    return _negated(piece)


def _settled_by(
    operands: list[_Piece], settling: bool, value_of: Callable[[_Piece], tuple[Value, str]]
) -> _Piece | None:
    """Return the first operand that settles the chain alone, else the first that failed, else None."""
    failed = None
    for operand in operands:
        value, error = value_of(operand)
        if value is settling:
            return operand
        if error and failed is None:
            failed = operand
    return failed


def _top_level(piece: _Piece) -> Iterator[tuple[int, Token]]:
    """Yield the tokens outside brackets with their index; `.?` is one step, not a question."""
    depth, before = 0, ""
    for index, token in enumerate(piece.tokens):
        kind = token.kind
        if kind in _CLOSE:
            depth -= 1
        if depth == 0 and not (kind == "?" and before == "."):
            yield index, token
        if kind in _OPEN:
            depth += 1
        before = kind


def _without_parentheses(piece: _Piece) -> _Piece:
    while piece.tokens[0].kind == "(":
        outside = [index for index, _ in _top_level(piece)]
        if outside != [0, len(piece.tokens) - 1] or len(piece.tokens) < 3:
            return piece
        piece = piece.cut(1, len(piece.tokens) - 1)
    return piece


def _split(piece: _Piece, operator: str) -> Iterator[_Piece]:
    start = 0
    for index, token in _top_level(piece):
        if token.kind == operator:
            yield piece.cut(start, index)
            start = index + 1
    yield piece.cut(start, len(piece.tokens))


def _conditional(piece: _Piece) -> tuple[_Piece, _Piece, _Piece] | None:
    question = colon = None
    for index, token in _top_level(piece):
        if token.kind == "?" and question is None:
            question = index
        elif token.kind == ":" and question is not None and colon is None:
            colon = index
    if question is None or colon is None:
        return None
    return (
        piece.cut(0, question),
        piece.cut(question + 1, colon),
        piece.cut(colon + 1, len(piece.tokens)),
    )


def _negated(piece: _Piece) -> _Piece | None:
    if piece.tokens[0].kind != "!" or len(piece.tokens) < 2:
        return None
    if any(token.kind in _BINARY for _, token in _top_level(piece)):
        return None
    return piece.cut(1, len(piece.tokens))
