"""Parser of expressions.

Spec: cel.md 2 "Syntax", 14.1 "Limits". A hand-written parser, a method for each rule of the grammar; here are those
of the operators, from `?:` down to `!` and `-`. Macros are expanded on the way.
`a && b && c …` becomes a balanced tree, so chains of any length stay shallow; everything else is
limited to 250 levels, which also bounds the recursion here.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Final

from weir.cel import ast
from weir.cel.ast import Call
from weir.cel.lexer import EOF, Token, tokenize
from weir.cel.macros import Macros
from weir.cel.members import MAX_DEPTH, START, MemberParser, TooDeep
from weir.cel.source import CompileError, Issue, Source, limit_error
from weir.cel.tokens import Mistake
from weir.cel.types import Node

MAX_CODE_POINTS: Final = 100_000

_RELATIONS: Final = {
    "==": ast.EQUALS, "!=": ast.NOT_EQUALS, "<": ast.LESS, "<=": ast.LESS_EQUALS,
    ">": ast.GREATER, ">=": ast.GREATER_EQUALS, "in": ast.IN,
}  # fmt: skip
_SUMS: Final = {"+": ast.ADD, "-": ast.SUBTRACT}
_PRODUCTS: Final = {"*": ast.MULTIPLY, "/": ast.DIVIDE, "%": ast.MODULO}
_OPERATORS: Final = frozenset((*_RELATIONS, *_SUMS, *_PRODUCTS, "&&", "||", "?"))
_NUMBERS: Final = ("NUM_INT", "NUM_FLOAT")


def parse(source: Source, macros: Macros) -> Node:
    """The expression *source* spells, macros expanded; raises CompileError listing every mistake."""
    if len(source.text) > MAX_CODE_POINTS:
        raise limit_error(
            f"expression code point size exceeds limit: size: {len(source.text)}, limit {MAX_CODE_POINTS}"
        )
    tokens, issues = tokenize(source)
    allow_recursion(_nesting(tokens))
    parser = _Parser(source, tokens, issues, macros)
    try:
        root = parser.start()
    except TooDeep as limit:
        raise limit_error(str(limit)) from None
    if parser.issues:
        raise source.error(parser.issues)
    allow_recursion(ast.depth(root))
    return root


def allow_recursion(levels: int) -> None:
    """Let Python recurse over an expression *levels* deep.

    Levels are bounded by the parser (250, and a few nodes for each macro), Python frames need no C stack, so
    a higher limit is safe; it is raised once, only for expressions that need it, and never lowered.
    """
    needed = 700 + levels * 14
    if sys.getrecursionlimit() < needed:
        sys.setrecursionlimit(needed)


def _nesting(tokens: list[Token]) -> int:
    deepest = depth = 0
    for kind, _, _ in tokens:
        if kind in ("(", "[", "{", "?"):
            depth += 1
            deepest = max(deepest, depth)
        elif kind in (")", "]", "}"):
            depth -= 1
    return min(deepest, MAX_DEPTH + 1)


class _Parser(MemberParser):
    """The upper half of the grammar."""

    resumes = _OPERATORS

    def __init__(self, source: Source, tokens: list[Token], issues: list[Issue], macros: Macros) -> None:
        super().__init__(source, tokens, issues, macros)
        self.depth = 0  # of nested `expr` rules

    def start(self) -> Node:
        root = self.expr()
        with contextlib.suppress(Mistake):
            self.match(EOF, frozenset())
        return root

    def expr(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooDeep(f"expression recursion limit exceeded: {MAX_DEPTH}")
        condition = self.logical("||", ast.OR, self.conjunction)
        if self.kind == "?":
            pos = self.take().pos
            self.follow.append(frozenset((":",)))
            try:
                yes = self.logical("||", ast.OR, self.conjunction)
            finally:
                self.follow.pop()
            try:
                self.match(":", START)
                no = self.expr()
                condition = self.call(pos, ast.CONDITIONAL, condition, yes, no)
            except Mistake:
                self.skip()
        self.depth -= 1
        return condition

    def conjunction(self) -> Node:
        return self.logical("&&", ast.AND, self.relation)

    def logical(self, operator: str, function: str, operand: Callable[[], Node]) -> Node:
        first = operand()
        if self.kind != operator:
            return first
        terms, positions = [first], []
        while self.kind == operator:
            positions.append(self.take().pos)
            terms.append(operand())
        return self.balanced(function, terms, positions, 0, len(positions) - 1)

    def balanced(self, function: str, terms: list[Node], positions: list[int], low: int, high: int) -> Node:
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else self.balanced(function, terms, positions, low, middle - 1)
        right = (
            terms[middle + 1]
            if middle == high
            else self.balanced(function, terms, positions, middle + 1, high)
        )
        node = Call(self.new_id(), positions[middle], function, None, [left, right])
        # The chain counts as one level, whatever the shape of its tree.
        tallest = max(self.heights.get(left.id, 0), self.heights.get(right.id, 0))
        self.heights[node.id] = tallest if len(positions) > 1 and (middle not in (low, high)) else tallest + 1
        if self.heights[node.id] > MAX_DEPTH:
            raise TooDeep("max recursion depth exceeded")
        return node

    def relation(self) -> Node:
        left = self.sum()
        while self.kind in _RELATIONS:
            token = self.take()
            left = self.call(token.pos, _RELATIONS[token.kind], left, self.sum())
        return left

    def sum(self) -> Node:
        left = self.product()
        while self.kind in _SUMS:
            token = self.take()
            left = self.call(token.pos, _SUMS[token.kind], left, self.product())
        return left

    def product(self) -> Node:
        left = self.unary()
        while self.kind in _PRODUCTS:
            token = self.take()
            left = self.call(token.pos, _PRODUCTS[token.kind], left, self.unary())
        return left

    def unary(self) -> Node:
        try:
            self.sync(START)
        except Mistake:
            self.skip()
            return self.nothing()
        if self.kind == "!":
            return self.negated()
        if self.kind == "-" and self.ahead() not in _NUMBERS:
            return self.negative()
        return self.member()

    def negated(self) -> Node:
        first = self.take()
        count = 1
        while True:
            while self.kind == "!":
                self.take()
                count += 1
            if self.kind == "-" and self.ahead() not in _NUMBERS:
                return self.nothing_to_negate()
            if self.kind in START:
                break
            self.extraneous(START)
            self.skip(START)
            if self.kind not in START:
                return self.nothing()
        operand = self.member()
        return operand if count % 2 == 0 else self.call(first.pos, ast.NOT, operand)

    def nothing_to_negate(self) -> Node:
        """Report a minus with nothing behind it; it stays, and will be taken for a subtraction."""
        self.no_alternative(self.token, 1)
        return self.nothing()

    def negative(self) -> Node:
        first = self.token
        count = 0
        while self.kind == "-":
            if self.ahead() not in START or self.ahead() == "!":
                return self.nothing_to_negate()
            self.take()
            count += 1
        operand = self.member()
        return operand if count % 2 == 0 else self.call(first.pos, ast.NEGATE, operand)


__all__ = ["MAX_CODE_POINTS", "MAX_DEPTH", "CompileError", "allow_recursion", "parse"]
