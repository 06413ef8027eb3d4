"""Node construction of the parser, with bounded nesting.

Spec: cel.md 14.1 "Limits". Nodes are numbered in the order they are made.
Depth is counted as upstream's grammar nests, not as the tree does: parentheses are a level though they
make no node.
"""

from __future__ import annotations

from typing import Final

from weir.cel.ast import Call, Literal, Node
from weir.cel.lexer import Token
from weir.cel.macros import MacroError, Macros
from weir.cel.source import Issue, Source
from weir.cel.tokens import TokenReader

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
