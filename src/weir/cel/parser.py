"""Parser of expressions.

Spec: cel.md 2 "Syntax", 14.1 "Limits". A hand-written parser with a method for each rule of the grammar, from members
and primaries up to `?:`. Macros are expanded on the way.

`a && b && c …` becomes a balanced tree, so chains of any length stay shallow; everything else is
limited to 250 levels, which also bounds the recursion here.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Final

from weir.cel import ast, lexer
from weir.cel.ast import Call, Entry, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from weir.cel.errors import CompileError, Issue, Source, limit_error
from weir.cel.lexer import EOF, ESC_IDENTIFIER, IDENTIFIER, Token, tokenize
from weir.cel.macros import MacroError, Macros
from weir.cel.tokens import Mistake, TokenReader
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


MAX_DEPTH: Final = 250


class TooDeep(Exception):
    """A limit on nesting was passed."""


_RESERVED_WORDS = """
    as break const continue else false for function if import in let loop namespace null package return true var
    void while
"""
RESERVED: Final = frozenset(_RESERVED_WORDS.split())
_START_TOKENS = "[ { ( . - ! true false null NUM_FLOAT NUM_INT NUM_UINT STRING BYTES IDENTIFIER"
#: What an expression starts with.
START: Final = frozenset(_START_TOKENS.split())
#: What leads from a member to the next.
_STEPS: Final = frozenset((".", "["))


_LITERALS: Final[dict[str, Callable[[str], object]]] = {
    lexer.NUM_INT: lexer.parse_int,
    lexer.NUM_UINT: lexer.parse_uint,
    lexer.NUM_FLOAT: lexer.parse_double,
    lexer.STRING: lexer.parse_string,
    lexer.BYTES: lexer.parse_bytes,
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}


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


class _Parser(TokenReader):
    """Reads the tokens of one expression, and knows how many levels are below each node."""

    resumes = _OPERATORS

    def __init__(self, source: Source, tokens: list[Token], issues: list[Issue], macros: Macros) -> None:
        super().__init__(source, tokens, issues)
        self.macros = macros
        self.next_id = 0
        self.heights: dict[int, int] = {}
        self.depth = 0  # of nested `expr` rules

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def grown(self, node: Node, *below: Node) -> Node:
        """*node*, noted as one level above *below*; refuses a tree that is too deep."""
        heights = self.heights
        height = 1 + max((heights.get(child.id, 0) for child in below), default=0)
        if height > MAX_DEPTH:
            raise TooDeep("max recursion depth exceeded")
        heights[node.id] = height
        return node

    def call(self, pos: int, function: str, *args: Node) -> Node:
        return self.grown(Call(self.new_id(), pos, function, None, list(args)), *args)

    def nothing(self) -> Node:
        return Literal(self.new_id(), self.tokens[self.index].pos, None)

    def invocation(self, pos: int, function: str, target: Node | None, args: list[Node]) -> Node:
        """A call, or what the macro of that name makes of it."""
        below = args if target is None else [target, *args]
        try:
            expanded = self.macros.expand(self.new_id, pos, function, target, args)
        except MacroError as error:
            self.issue(error.pos, str(error))
            return Literal(self.new_id(), pos, None)
        if expanded is not None:
            return self.grown(expanded, *below)
        return self.grown(Call(self.new_id(), pos, function, target, args), *below)

    def wrapped(self, node: Node) -> Node:
        """Parentheses count as a level but make no node."""
        self.heights[node.id] = self.heights.get(node.id, 0) + 1
        if self.heights[node.id] > MAX_DEPTH:
            raise TooDeep("max recursion depth exceeded")
        return node

    # ── operators, from `?:` down to `!` and `-` ──

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

    # ── members and primaries ──

    def nested(self, follow: frozenset[str]) -> Node:
        """An expression inside brackets, which *follow* may end."""
        self.follow.append(follow)
        try:
            return self.expr()
        finally:
            self.follow.pop()

    def member(self) -> Node:
        try:
            node = self.primary()
        except Mistake:
            self.skip(_STEPS)
            node = self.nothing()
        try:
            while self.kind in _STEPS:
                node = self.suffix(node)
        except Mistake:
            self.skip()
            return self.nothing()
        return node

    def suffix(self, node: Node) -> Node:
        """`node` followed by one selection, call or index."""
        if self.kind == "[":
            pos = self.take().pos
            self.sync(START | {"?"})
            optional = self.optional_mark()
            index = self.nested(frozenset(("]",)))
            self.match("]", self.after())
            return self.call(pos, ast.OPT_INDEX if optional else ast.INDEX, node, index)
        dot = self.token
        following = self.ahead()
        if following == "?":
            self.take()
            self.take()
            try:
                self.sync(frozenset((IDENTIFIER, ESC_IDENTIFIER)))
            except Mistake:
                self.issue(self.token.pos, "unsupported ident kind")
                raise
            name = self.take()
            field = Literal(self.new_id(), name.pos, _field_name(name))
            return self.call(dot.pos, ast.OPT_SELECT, node, field)
        if following in ("true", "false", "null"):
            self.take()
            raise self.mismatched(frozenset((IDENTIFIER,)))
        if following not in (IDENTIFIER, ESC_IDENTIFIER):
            self.take()
            self.no_alternative(dot)
            self.skip()
            return node
        self.take()
        name = self.take()
        if self.kind == "(" and name.kind == IDENTIFIER:
            pos = self.take().pos
            args = self.arguments()
            return self.invocation(pos, name.text, node, args)
        return self.grown(Select(self.new_id(), dot.pos, node, _field_name(name)), node)

    def after(self) -> frozenset[str]:
        """What may follow a primary here."""
        return self.resumes | _STEPS | self.follow[-1]

    def arguments(self) -> list[Node]:
        """Arguments up to and including the closing parenthesis."""
        args: list[Node] = []
        self.sync(START | {")"})
        if self.kind != ")":
            follow = frozenset((",", ")"))
            args.append(self.nested(follow))
            while self.kind == ",":
                self.take()
                args.append(self.nested(follow))
        self.match(")", self.after())
        return args

    def primary(self) -> Node:
        kind = self.kind
        if kind == "(":
            self.take()
            node = self.nested(frozenset((")",)))
            self.match(")", self.after())
            return self.wrapped(node)
        if kind == "[":
            return self.list_literal()
        if kind == "{":
            return self.map_literal()
        if kind in (IDENTIFIER, "."):
            return self.name()
        return self.literal()

    def name(self) -> Node:
        """An identifier, a call of a global function or a struct literal."""
        dot = self.take() if self.kind == "." else None
        if self.kind != IDENTIFIER:
            self.no_alternative(dot or self.token)
            raise Mistake
        if self.is_struct():
            return self.struct(dot)
        token = self.take()
        prefix = "." if dot else ""
        if token.text in RESERVED:
            self.issue(token.pos, f"reserved identifier: {token.text}")
        if self.kind == "(":
            pos = self.take().pos
            return self.invocation(pos, prefix + token.text, None, self.arguments())
        return Ident(self.new_id(), token.pos, prefix + token.text)

    def is_struct(self) -> bool:
        """Whether `a.b.c {` lies ahead."""
        at = self.index
        tokens = self.tokens
        while tokens[at].kind == IDENTIFIER:
            if tokens[at + 1].kind == "{":
                return True
            if tokens[at + 1].kind != ".":
                return False
            at += 2
        return False

    def struct(self, dot: Token | None) -> Node:
        names = [self.take()]
        while self.kind == ".":
            self.take()
            names.append(self.take())
        for token in names:
            if token.text in RESERVED:
                self.issue(token.pos, f"reserved identifier: {token.text}")
        brace = self.take()
        entries: list[Entry] = []
        ends = frozenset(("}", ","))
        while self.kind not in ("}", ","):
            optional = self.optional_mark()
            self.sync(frozenset((IDENTIFIER, ESC_IDENTIFIER)) | (frozenset() if entries else ends | {"?"}))
            name = self.take()
            colon = self.match(":", START)
            value = self.nested(ends)
            entries.append(
                Entry(
                    self.new_id(), colon.pos if colon else name.pos, None, _field_name(name), value, optional
                )
            )
            if not self.another(frozenset((IDENTIFIER, ESC_IDENTIFIER))):
                break
        self.end_of_literal("}")
        qualified = ("." if dot else "") + ".".join(token.text for token in names)
        node = StructExpr(self.new_id(), brace.pos, qualified, entries)
        return self.grown(node, *(entry.value for entry in entries))

    def list_literal(self) -> Node:
        bracket = self.take()
        elements: list[Node] = []
        optional: list[int] = []
        follow = frozenset(("]", ","))
        self.sync(START | {"?"} | follow)
        while self.kind not in ("]", ","):
            if self.optional_mark():
                optional.append(len(elements))
            elements.append(self.nested(follow))
            if not self.another(START):
                break
        self.end_of_literal("]")
        return self.grown(ListExpr(self.new_id(), bracket.pos, elements, frozenset(optional)), *elements)

    def map_literal(self) -> Node:
        brace = self.take()
        entries: list[Entry] = []
        follow = frozenset(("}", ","))
        self.sync(START | {"?"} | follow)
        while self.kind not in ("}", ","):
            optional = self.optional_mark()
            key = self.nested(frozenset((":",)))
            colon = self.match(":", START)
            value = self.nested(follow)
            entries.append(Entry(self.new_id(), colon.pos if colon else value.pos, key, "", value, optional))
            if not self.another(START):
                break
        self.end_of_literal("}")
        node = MapExpr(self.new_id(), brace.pos, entries)
        return self.grown(node, *(child for e in entries for child in (e.key, e.value) if child is not None))

    def optional_mark(self) -> bool:
        if self.kind != "?":
            return False
        self.take()
        return True

    def another(self, starts: frozenset[str]) -> bool:
        """Whether a comma and one more part follow; the comma is then taken, else it is a trailing one."""
        if self.kind != "," or (self.ahead() != "?" and self.ahead() not in starts):
            return False
        self.take()
        return True

    def end_of_literal(self, closing: str) -> None:
        """A trailing comma, then the closing bracket."""
        self.sync(frozenset((closing, ",")))
        if self.kind == ",":
            self.take()
        self.match(closing, self.after())

    def literal(self) -> Node:
        if (self.ahead() if self.kind == "-" else self.kind) not in _LITERALS:
            self.mismatched(START)
            return self.nothing()
        sign = self.take() if self.kind == "-" else None
        token = self.take()
        pos = sign.pos if sign else token.pos
        text = ("-" if sign else "") + token.text
        try:
            value = _LITERALS[token.kind](text)
        except ValueError as error:
            self.issue(pos, str(error))
            value = None
        return Literal(self.new_id(), pos, value)


def _field_name(token: Token) -> str:
    return token.text[1:-1] if token.kind == ESC_IDENTIFIER else token.text


__all__ = ["MAX_CODE_POINTS", "MAX_DEPTH", "CompileError", "allow_recursion", "parse"]
