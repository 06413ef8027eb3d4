"""Syntax tree of an expression, with the annotations of the checker.

Spec: cel.md 2.3 "AST and operator names". Every node has a number (`id`), the code point offset of its
position (`pos`, see weir.cel.errors) and, after checking, a `type`. A `Call` gets the overloads that may
run (`candidates`, in declaration order: one means the call is resolved), an `Ident` that names a type
gets its value in `constant`. A qualified name the checker resolved is one `Ident` or `Call` with the dotted
name. Macros are expanded by the parser; a `Comprehension` is all that is left of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from weir.cel.env import Overload
from weir.cel.types import Node

CONDITIONAL: Final = "_?_:_"
OR: Final = "_||_"
AND: Final = "_&&_"
NOT: Final = "!_"
LESS: Final = "_<_"
LESS_EQUALS: Final = "_<=_"
GREATER: Final = "_>_"
GREATER_EQUALS: Final = "_>=_"
EQUALS: Final = "_==_"
NOT_EQUALS: Final = "_!=_"
IN: Final = "@in"
ADD: Final = "_+_"
SUBTRACT: Final = "_-_"
MULTIPLY: Final = "_*_"
DIVIDE: Final = "_/_"
MODULO: Final = "_%_"
NEGATE: Final = "-_"
INDEX: Final = "_[_]"
OPT_INDEX: Final = "_[?_]"
OPT_SELECT: Final = "_?._"
NOT_STRICTLY_FALSE: Final = "@not_strictly_false"
MAP_INSERT: Final = "cel.@mapInsert"
#: The accumulator of macros; not a name a user can write.
ACCUMULATOR: Final = "@result"
#: `Ident.constant` of a name that is a variable.
NO_CONSTANT: Final = object()


class Literal(Node):
    """A constant scalar: its Python value (weir.cel.values)."""

    __slots__ = ("value",)

    def __init__(self, id: int, pos: int, value: Any) -> None:
        super().__init__(id, pos)
        self.value = value


class Ident(Node):
    """A name; `constant` is the value of a name that is no variable (`int`, `net.IP`), else NO_CONSTANT.

    One that is written with a leading dot (`absolute`) is never the variable of a comprehension.
    """

    __slots__ = ("absolute", "constant", "name")

    def __init__(self, id: int, pos: int, name: str) -> None:
        super().__init__(id, pos)
        self.name = name
        self.absolute = name.startswith(".")
        self.constant: Any = NO_CONSTANT


class Select(Node):
    """`operand.field`, or `has(operand.field)` when `test_only`."""

    __slots__ = ("field", "operand", "test_only")

    def __init__(self, id: int, pos: int, operand: Node, field: str, test_only: bool = False) -> None:
        super().__init__(id, pos)
        self.operand = operand
        self.field = field
        self.test_only = test_only


class Call(Node):
    """`function(args)` or `target.function(args)`; operators are calls too."""

    __slots__ = ("args", "candidates", "function", "target")

    def __init__(self, id: int, pos: int, function: str, target: Node | None, args: list[Node]) -> None:
        super().__init__(id, pos)
        self.function = function
        self.target = target
        self.args = args
        self.candidates: tuple[Overload, ...] = ()

    @property
    def operands(self) -> list[Node]:
        """Receiver (if any) and arguments, in the order of `Overload.params`."""
        return self.args if self.target is None else [self.target, *self.args]


class ListExpr(Node):
    """`[a, ?b]`; `optional` holds the indices of `?` elements."""

    __slots__ = ("elements", "optional")

    def __init__(
        self, id: int, pos: int, elements: list[Node], optional: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(id, pos)
        self.elements = elements
        self.optional = optional


class Entry:
    """One `key: value` of a map literal, or `field: value` of a struct (key None, field set)."""

    __slots__ = ("field", "id", "key", "optional", "pos", "value")

    def __init__(
        self, id: int, pos: int, key: Node | None, field: str, value: Node, optional: bool = False
    ) -> None:
        self.id = id
        self.pos = pos
        self.key = key
        self.field = field
        self.value = value
        self.optional = optional


class MapExpr(Node):
    """`{k: v, ?k: v}`."""

    __slots__ = ("entries",)

    def __init__(self, id: int, pos: int, entries: list[Entry]) -> None:
        super().__init__(id, pos)
        self.entries = entries


class StructExpr(Node):
    """`Name{field: value}`."""

    __slots__ = ("entries", "name")

    def __init__(self, id: int, pos: int, name: str, entries: list[Entry]) -> None:
        super().__init__(id, pos)
        self.name = name
        self.entries = entries


class Comprehension(Node):
    """A loop over `range`; see cel.md 7 for how each macro fills it.

    `bind` is true for the shape BIND(v, init, e): range `[]`, condition `false`; `accu` is v.
    """

    __slots__ = ("accu", "condition", "init", "range", "result", "step", "var", "var2")

    def __init__(
        self,
        id: int,
        pos: int,
        range: Node,
        var: str,
        var2: str | None,
        accu: str,
        init: Node,
        condition: Node,
        step: Node,
        result: Node,
    ) -> None:
        super().__init__(id, pos)
        self.range = range
        self.var = var
        self.var2 = var2
        self.accu = accu
        self.init = init
        self.condition = condition
        self.step = step
        self.result = result

    @property
    def bind(self) -> bool:
        """Whether this is a variable binding rather than a loop."""
        return (
            isinstance(self.condition, Literal)
            and self.condition.value is False
            and isinstance(self.range, ListExpr)
            and not self.range.elements
        )


def children(node: Node) -> Iterator[Node]:
    """The direct sub-expressions of *node*, in source (evaluation) order."""
    if isinstance(node, Select):
        yield node.operand
    elif isinstance(node, Call):
        yield from node.operands
    elif isinstance(node, ListExpr):
        yield from node.elements
    elif isinstance(node, MapExpr | StructExpr):
        for entry in node.entries:
            if entry.key is not None:
                yield entry.key
            yield entry.value
    elif isinstance(node, Comprehension):
        yield from (node.range, node.init, node.condition, node.step, node.result)


def walk(root: Node) -> Iterator[Node]:
    """Every node below and including *root*, parents first, without recursion."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(list(children(node))))


def depth(root: Node) -> int:
    """How many levels of nodes there are."""
    deepest = 0
    level = [root]
    while level:
        deepest += 1
        level = [child for node in level for child in children(node)]
    return deepest
