"""Parser of members and primaries: names, literals, lists, maps, messages, selections and calls.

Spec: cel.md 2.1, the rules `Member` and `Primary` of the grammar and what they are made of. An expression inside
brackets is the whole grammar again: `expr`, which weir.cel.parser has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from weir.cel import ast, lexer, literals
from weir.cel.ast import Call, Entry, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from weir.cel.lexer import ESC_IDENTIFIER, IDENTIFIER, Token
from weir.cel.macros import MacroError, Macros
from weir.cel.source import Issue, Source
from weir.cel.tokens import Mistake, TokenReader
from weir.cel.types import Node

MAX_DEPTH: Final = 250


class TooDeep(Exception):
    """A limit on nesting was passed."""


class ParserHelper(TokenReader):
    """Makes nodes, and knows how many levels are below each."""

    def __init__(self, source: Source, tokens: list[Token], issues: list[Issue], macros: Macros) -> None:
        super().__init__(source, tokens, issues)
        self.macros = macros
        self.next_id = 0
        self.heights: dict[int, int] = {}

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


class MemberParser(ParserHelper, ABC):
    """The lower half of the grammar."""

    @abstractmethod
    def expr(self) -> Node:
        """Return the expression that begins here."""

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


_LITERALS: Final[dict[str, Callable[[str], object]]] = {
    lexer.NUM_INT: literals.parse_int,
    lexer.NUM_UINT: literals.parse_uint,
    lexer.NUM_FLOAT: literals.parse_double,
    lexer.STRING: literals.parse_string,
    lexer.BYTES: literals.parse_bytes,
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}


def _field_name(token: Token) -> str:
    return token.text[1:-1] if token.kind == ESC_IDENTIFIER else token.text
