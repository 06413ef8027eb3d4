"""Macro expansion.

Spec: cel.md 7 "Macros". A macro is recognised by name, number of arguments and call style; with another number of
arguments the name is an ordinary function. Every node a macro makes stands at the `(` of the call.
`existsOne` exists only with two variables, `exists_one` with one or two; the accumulator is a name no
user can write, yet `__result__` is refused as an iteration variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from weir.cel import ast
from weir.cel.ast import ACCUMULATOR, Call, Comprehension, Ident, ListExpr, Literal, MapExpr, Select
from weir.cel.types import Node

_UNUSED: Final = "#unused"
_SORT_INPUT: Final = "@__sortBy_input__"


class MacroError(Exception):
    """A macro was used wrongly; `pos` is where."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos


class _Maker:
    """Makes nodes at one position; a fresh one for every expansion."""

    def __init__(self, new_id: Callable[[], int], pos: int) -> None:
        self.new_id = new_id
        self.pos = pos

    def literal(self, value: object) -> Node:
        return Literal(self.new_id(), self.pos, value)

    def ident(self, name: str) -> Node:
        return Ident(self.new_id(), self.pos, name)

    def accu(self) -> Node:
        return self.ident(ACCUMULATOR)

    def call(self, function: str, *args: Node) -> Node:
        return Call(self.new_id(), self.pos, function, None, list(args))

    def method(self, target: Node, function: str, *args: Node) -> Node:
        return Call(self.new_id(), self.pos, function, target, list(args))

    def list(self, *elements: Node) -> Node:
        return ListExpr(self.new_id(), self.pos, list(elements))

    def map(self) -> Node:
        return MapExpr(self.new_id(), self.pos, [])

    def fold(
        self,
        over: Node,
        names: tuple[str, str | None],
        init: Node,
        condition: Node,
        step: Node,
        result: Node,
        accu: str = ACCUMULATOR,
    ) -> Node:
        return Comprehension(
            self.new_id(), self.pos, over, names[0], names[1], accu, init, condition, step, result
        )

    def bind(self, name: str, init: Node, result: Node) -> Node:
        return self.fold(
            self.list(), (_UNUSED, None), init, self.literal(False), self.ident(name), result, accu=name
        )


Expander = Callable[[_Maker, Node, list[Node]], Node]


def _name(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.pos, message)
    if node.name in (ACCUMULATOR, "__result__"):
        raise MacroError(node.pos, "iteration variable overwrites accumulator variable")
    return node.name


def _names(
    args: list[Node], count: int, message: str = "argument must be a simple name"
) -> tuple[str, str | None]:
    first = _name(args[0], message)
    if count == 1:
        return first, None
    second = _name(args[1], message)
    if first == second:
        raise MacroError(args[1].pos, f"duplicate variable name: {second}")
    return first, second


def _all(count: int) -> Expander:
    def expand(make: _Maker, over: Node, args: list[Node]) -> Node:
        names = _names(args, count)
        return make.fold(
            over, names, make.literal(True), make.call(ast.NOT_STRICTLY_FALSE, make.accu()),
            make.call(ast.AND, make.accu(), args[count]), make.accu(),
        )  # fmt: skip

    return expand


def _exists(count: int) -> Expander:
    def expand(make: _Maker, over: Node, args: list[Node]) -> Node:
        names = _names(args, count)
        return make.fold(
            over, names, make.literal(False),
            make.call(ast.NOT_STRICTLY_FALSE, make.call(ast.NOT, make.accu())),
            make.call(ast.OR, make.accu(), args[count]), make.accu(),
        )  # fmt: skip

    return expand


def _exists_one(count: int) -> Expander:
    def expand(make: _Maker, over: Node, args: list[Node]) -> Node:
        names = _names(args, count)
        step = make.call(
            ast.CONDITIONAL, args[count], make.call(ast.ADD, make.accu(), make.literal(1)), make.accu()
        )
        result = make.call(ast.EQUALS, make.accu(), make.literal(1))
        return make.fold(over, names, make.literal(0), make.literal(True), step, result)

    return expand


def _collect(make: _Maker, over: Node, names: tuple[str, str | None], test: Node | None, value: Node) -> Node:
    step = make.call(ast.ADD, make.accu(), make.list(value))
    if test is not None:
        step = make.call(ast.CONDITIONAL, test, step, make.accu())
    return make.fold(over, names, make.list(), make.literal(True), step, make.accu())


_NOT_IDENTIFIER: Final = "argument is not an identifier"


def _map(make: _Maker, over: Node, args: list[Node]) -> Node:
    names = _names(args, 1, _NOT_IDENTIFIER)
    return _collect(make, over, names, args[1] if len(args) == 3 else None, args[-1])


def _filter(make: _Maker, over: Node, args: list[Node]) -> Node:
    names = _names(args, 1, _NOT_IDENTIFIER)
    return _collect(make, over, names, args[1], args[0])


def _transform_list(make: _Maker, over: Node, args: list[Node]) -> Node:
    names = _names(args, 2)
    return _collect(make, over, names, args[2] if len(args) == 4 else None, args[-1])


def _insert(make: _Maker, over: Node, names: tuple[str, str | None], test: Node | None, step: Node) -> Node:
    if test is not None:
        step = make.call(ast.CONDITIONAL, test, step, make.accu())
    return make.fold(over, names, make.map(), make.literal(True), step, make.accu())


def _transform_map(make: _Maker, over: Node, args: list[Node]) -> Node:
    names = _names(args, 2)
    step = make.call(ast.MAP_INSERT, make.accu(), make.ident(names[0]), args[-1])
    return _insert(make, over, names, args[2] if len(args) == 4 else None, step)


def _transform_map_entry(make: _Maker, over: Node, args: list[Node]) -> Node:
    names = _names(args, 2)
    step = make.call(ast.MAP_INSERT, make.accu(), args[-1])
    return _insert(make, over, names, args[2] if len(args) == 4 else None, step)


def _has(make: _Maker, _: Node | None, args: list[Node]) -> Node:
    tested = args[0]
    if not isinstance(tested, Select) or tested.test_only:
        raise MacroError(tested.pos, "invalid argument to has() macro")
    return Select(make.new_id(), make.pos, tested.operand, tested.field, test_only=True)


def _optional_map(name: str, wrap: bool) -> Expander:
    def expand(make: _Maker, target: Node, args: list[Node]) -> Node:
        variable = args[0]
        if not isinstance(variable, Ident):
            raise MacroError(variable.pos, f"{name}() variable name must be a simple identifier")
        bound = make.bind(variable.name, make.method(target, "value"), args[1])
        return make.call(
            ast.CONDITIONAL,
            make.method(target, "hasValue"),
            make.method(make.ident("optional"), "of", bound) if wrap else bound,
            make.method(make.ident("optional"), "none"),
        )

    return expand


def _sort_by(make: _Maker, target: Node, args: list[Node]) -> Node:
    if not isinstance(target, ListExpr | Ident | Comprehension | Call | Select):
        raise MacroError(
            target.pos,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    keys = _map(make, make.ident(_SORT_INPUT), args)
    return make.bind(_SORT_INPUT, target, make.method(make.ident(_SORT_INPUT), "@sortByAssociatedKeys", keys))


def _bind(make: _Maker, target: Node, args: list[Node]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    variable = args[0]
    if not isinstance(variable, Ident):
        raise MacroError(variable.pos, "cel.bind() variable names must be simple identifiers")
    return make.bind(variable.name, args[1], args[2])


_Key = tuple[str, int]
#: Methods by (name, number of arguments), in the groups libraries switch on; "standard" is always there.
GROUPS: Final[dict[str, dict[_Key, Callable[[_Maker, Node, list[Node]], Node | None]]]] = {
    "standard": {
        ("all", 2): _all(1),
        ("exists", 2): _exists(1),
        ("exists_one", 2): _exists_one(1),
        ("map", 2): _map,
        ("map", 3): _map,
        ("filter", 2): _filter,
    },
    "two_variable": {
        ("all", 3): _all(2),
        ("exists", 3): _exists(2),
        ("existsOne", 3): _exists_one(2),
        ("exists_one", 3): _exists_one(2),
        ("transformList", 3): _transform_list,
        ("transformList", 4): _transform_list,
        ("transformMap", 3): _transform_map,
        ("transformMap", 4): _transform_map,
        ("transformMapEntry", 3): _transform_map_entry,
        ("transformMapEntry", 4): _transform_map_entry,
    },
    "optional": {
        ("optMap", 2): _optional_map("optMap", wrap=True),
        ("optFlatMap", 2): _optional_map("optFlatMap", wrap=False),
    },
    "sort_by": {("sortBy", 2): _sort_by},
    "bind": {("bind", 3): _bind},
}


class Macros:
    """The macros of one environment."""

    def __init__(self, groups: frozenset[str], enabled: bool = True) -> None:
        self._methods: dict[_Key, Callable[[_Maker, Node, list[Node]], Node | None]] = {}
        if enabled:
            for group in ("standard", *sorted(groups)):
                self._methods.update(GROUPS[group])
        self._enabled = enabled

    def expand(
        self, new_id: Callable[[], int], pos: int, function: str, target: Node | None, args: list[Node]
    ) -> Node | None:
        """What the call expands to, or None when it is no macro; raises MacroError when used wrongly."""
        if target is None:
            if function == "has" and len(args) == 1 and self._enabled:
                return _has(_Maker(new_id, pos), None, args)
            return None
        expander = self._methods.get((function, len(args)))
        if expander is None:
            return None
        return expander(_Maker(new_id, pos), target, args)
