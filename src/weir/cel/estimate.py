"""Static cost estimate: the least and the most that an evaluation can cost.

Spec: cel.md 11 "Static cost estimate". Only the maximum decides whether an expression is admitted. Sizes
come from literals, from declared maxima (`Env.sizes`, looked up by path) and from the results of calls; what
is not known is (0, MAX), and comparing two unknowns makes an innocent expression "too complex".
`&&` may cost no more than its left side, so minima are small; the elements of a list built by
`split` have unknown size; a name selected from something without a path starts a path of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from weir.cel import ast, costs
from weir.cel.cost_model import NO_UNION, ONE, UNKNOWN_SIZE, ZERO, Charge, Operand, Range, fixed
from weir.cel.env import Env
from weir.cel.types import Kind, Node, Type


class FieldPath:
    """The name of a variable and the steps from there: names, `@items`, `@keys`, `@values` and `@indices`.

    Spec: cel.md 11.3. Upstream grows a path as a Go slice and does not copy it first. A slice's room doubles when it is
    full; of two paths grown from one that had room left, the later overwrites the last step of the earlier. Paths of
    three steps have room for one more: in `self.list.all(x, x.items.all(y, y != x.name))` the size of `x.items` is,
    when it is asked for, that of `x.name`, and which rules are too expensive depends on it.
    """

    __slots__ = ("_length", "_room")

    def __init__(self, *steps: str) -> None:
        self._room = list(steps)
        self._length = len(steps)

    def grown(self, step: str) -> FieldPath:
        """Return this path and one step more, written into the room behind this one if there is any.

        >>> attributes = FieldPath("device").grown("attributes").grown("@values")
        >>> model, memory = attributes.grown("model"), attributes.grown("memory")
        >>> model.steps
        ('device', 'attributes', '@values', 'memory')
        """
        longer = FieldPath()
        longer._length = self._length + 1
        if self._length < len(self._room):
            longer._room = self._room
        else:
            longer._room = [*self._room, *[""] * max(self._length, 1)]
        longer._room[self._length] = step
        return longer

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps as they are now."""
        return tuple(self._room[: self._length])


#: The path of what comes from no variable.
NOWHERE: Final = FieldPath()


#: The estimate of one expression: (min, max).
Estimate = Range

_SCALARS: Final = frozenset({Kind.BOOL, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.DURATION, Kind.TIMESTAMP})
_SELECT_CHARGED: Final = frozenset({Kind.MAP, Kind.OBJECT, Kind.PARAM})
_ANY_NAME: Final = "*"

#: One step of the walk: yields a sub-expression, is sent its cost, returns the cost of the whole.
Walk = Generator[Node, Range, Range]


def estimate(root: Node, env: Env) -> Estimate:
    """Return the least and the most that evaluating the checked expression *root* can cost."""
    return _Estimator(env.sizes).run(root)


class _Entries(NamedTuple):
    """Sizes of what a container holds."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: _Entries) -> _Entries:
        return _Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class _Local:
    """A variable bound by a comprehension."""

    path: FieldPath
    size: Range | None
    entries: _Entries | None = None


class _Estimator:
    """One walk over one expression; notes paths and sizes of the nodes it has passed."""

    def __init__(self, declared: Mapping[tuple[str, ...], int]) -> None:
        self._declared = declared
        self._paths: dict[Node, FieldPath] = {}
        self._sizes: dict[Node, Range] = {}
        self._entries: dict[Node, _Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def run(self, root: Node) -> Range:
        """Walk without recursion: expanded macros nest deeper than Python's stack allows."""
        stack: list[Walk] = [self._walk(root)]
        sent: Range | None = None
        while True:
            try:
                child = next(stack[-1]) if sent is None else stack[-1].send(sent)
            except StopIteration as stop:
                stack.pop()
                sent = stop.value
                if not stack:
                    assert sent is not None
                    return sent
            else:
                stack.append(self._walk(child))
                sent = None

    # -- cost of a node -----------------------------------------------------------------------------

    def _walk(self, node: Node) -> Walk:
        if isinstance(node, ast.Literal):
            return self._nothing(node)
        if isinstance(node, ast.Ident):
            return self._ident(node)
        if isinstance(node, ast.Select):
            return self._select(node)
        if isinstance(node, ast.Call):
            return self._dyn(node) if node.function == "dyn" else self._call(node)
        if isinstance(node, ast.ListExpr):
            return self._list(node)
        if isinstance(node, ast.MapExpr):
            return self._map(node)
        if isinstance(node, ast.StructExpr):
            return self._struct(node)
        assert isinstance(node, ast.Comprehension)
        return self._bind(node) if node.bind else self._comprehension(node)

    def _nothing(self, node: Node) -> Walk:
        return fixed(costs.LITERAL)
        yield node

    def _ident(self, node: ast.Ident) -> Walk:
        local = self._local(node.name)
        self._paths[node] = local.path if local else FieldPath(node.name)
        return fixed(costs.NAME)
        yield node

    def _select(self, node: ast.Select) -> Walk:
        cost = yield node.operand
        if node.test_only:
            return cost
        self._paths[node] = self._path(node.operand).grown(node.field)
        charged = node.operand.type.kind in _SELECT_CHARGED
        return cost.plus(fixed(costs.SELECT)) if charged else cost

    def _list(self, node: ast.ListExpr) -> Walk:
        cost, value = fixed(costs.LIST), NO_UNION if node.elements else ZERO
        for element in node.elements:
            cost = cost.plus((yield element))
            value = value.union(self._size_or_unknown(element))
        self._entries[node] = _Entries(True, ONE, value)
        return cost

    def _map(self, node: ast.MapExpr) -> Walk:
        cost = fixed(costs.MAP)
        key = value = NO_UNION if node.entries else ZERO
        for entry in node.entries:
            assert entry.key is not None
            cost = cost.plus((yield entry.key))
            cost = cost.plus((yield entry.value))
            key = key.union(self._size_or_unknown(entry.key))
            value = value.union(self._size_or_unknown(entry.value))
        self._entries[node] = _Entries(False, key, value)
        return cost

    def _struct(self, node: ast.StructExpr) -> Walk:
        cost = fixed(costs.STRUCT)
        for entry in node.entries:
            cost = cost.plus((yield entry.value))
        return cost

    def _dyn(self, node: ast.Call) -> Walk:
        """`dyn()` only switches checking off: what it wraps keeps its sizes."""
        (argument,) = node.operands
        cost = yield argument
        self._copy_sizes(argument, node)
        return cost.plus(fixed(costs.CALL))

    def _call(self, node: ast.Call) -> Walk:
        args: list[Range] = []
        operands: list[Operand] = []
        for argument in node.args:
            args.append((yield argument))
            operands.append(self._operand(argument))  # now: the walk of the next one may change its path
        target = ZERO
        if node.target is not None:
            target = yield node.target
            operands.insert(0, self._operand(node.target))
        if node.function in (ast.AND, ast.OR):
            left, right = args
            return Range(left.min, left.plus(right).max)
        if node.function == ast.CONDITIONAL:
            return self._conditional(node, args, operands)
        return target.plus(self._dispatch(node, args, operands))

    def _conditional(self, node: ast.Call, args: list[Range], operands: list[Operand]) -> Range:
        self._sizes[node] = operands[1].size.union(operands[2].size)
        self._unite_entries(node, node.args[1], node.args[2])
        return args[0].plus(args[1].union(args[2]))

    def _dispatch(self, node: ast.Call, args: list[Range], operands: list[Operand]) -> Range:
        """Return the price of the call itself plus its arguments, over all overloads that may run."""
        if not node.candidates:
            return ZERO
        arguments = ZERO
        for cost in args:
            arguments = arguments.plus(cost)
        total, size = NO_UNION, None
        for overload in node.candidates:
            charge = overload.static.rule(operands) if overload.static else Charge(ONE)
            total = total.union(charge.cost.plus(arguments))
            if charge.size is not None:
                size = charge.size if size is None else size.union(charge.size)
            if overload.id in ("index_list", "index_map"):
                container = node.args[0]
                entries = self._entries_of(container)
                size = entries.value if entries else None
                step = "@items" if overload.id == "index_list" else "@values"
                self._paths[node] = self._path(container).grown(step)
            elif overload.id in ("add_list", "add_string", "add_bytes"):
                self._unite_entries(node, *node.args)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[node] = size
        return total

    def _bind(self, node: ast.Comprehension) -> Walk:
        cost = yield node.range
        cost = cost.plus((yield node.init))
        self._push_value(node.accu, node.init)
        cost = cost.plus((yield node.result))
        self._locals[node.accu].pop()
        # Asked when the variable is out of scope: a result that is just its name has no known size.
        self._copy_sizes(node.result, node)
        return cost

    def _comprehension(self, node: ast.Comprehension) -> Walk:
        cost = yield node.range
        cost = cost.plus((yield node.init))
        self._push_value(node.accu, node.init)
        self._push_iteration(node)
        each = yield node.condition
        each = each.plus((yield node.step))
        self._locals[node.var].pop()
        if node.var2 is not None:
            self._locals[node.var2].pop()
        cost = cost.plus((yield node.result))
        self._locals[node.accu].pop()
        count = self._size_or_unknown(node.range)
        if isinstance(node.init, ast.ListExpr | ast.MapExpr):
            self._sizes[node] = count
            if (entries := self._entries_of(node.step)) is not None:
                self._entries[node] = entries
        return cost.plus(count.times(each))

    # -- variables ----------------------------------------------------------------------------------

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _push_value(self, name: str, node: Node) -> None:
        self._push(name, _Local(self._path(node), self._size(node), self._entries_of(node)))

    def _push_iteration(self, node: ast.Comprehension) -> None:
        entries, path = self._entries_of(node.range), self._path(node.range)
        is_list = entries.is_list if entries else node.range.type.kind is Kind.LIST
        key, value = (entries.key, entries.value) if entries else (None, None)
        if node.var2 is not None:
            self._push(node.var, _Local(path.grown("@indices" if is_list else "@keys"), key))
            self._push(node.var2, _Local(path.grown("@items" if is_list else "@values"), value))
        elif is_list:
            self._push(node.var, _Local(path.grown("@items"), value))
        else:
            self._push(node.var, _Local(path.grown("@keys"), key))

    # -- paths and sizes ----------------------------------------------------------------------------

    def _path(self, node: Node) -> FieldPath:
        if isinstance(node, ast.Ident) and (local := self._local(node.name)):
            return local.path
        return self._paths.get(node, NOWHERE)

    def _declared_size(self, path: tuple[str, ...]) -> Range | None:
        if not path:
            return None
        most = self._declared.get(path)
        if most is None:
            most = self._declared.get((*path[:-1], _ANY_NAME))
        return None if most is None else Range(0, most)

    def _size(self, node: Node) -> Range | None:
        """Return the size of *node*, or None: the first source of cel.md 11.3 that knows one."""
        if (known := self._sizes.get(node)) is not None:
            return known
        if (size := _literal_size(node)) is not None:
            return fixed(size)
        if (declared := self._declared_size(self._path(node).steps)) is not None:
            return declared
        if _is_scalar(node.type):
            return ONE
        if isinstance(node, ast.Ident) and (local := self._local(node.name)):
            return local.size
        return None

    def _size_or_unknown(self, node: Node) -> Range:
        size = self._size(node)
        return UNKNOWN_SIZE if size is None else size

    def _note_size(self, node: Node, size: Range | None) -> None:
        if size is not None:
            self._sizes[node] = size

    def _entries_of(self, node: Node) -> _Entries | None:
        if (known := self._entries.get(node)) is not None:
            return known
        if isinstance(node, ast.Ident) and (local := self._local(node.name)):
            return local.entries
        return None

    def _unite_entries(self, node: Node, left: Node, right: Node) -> None:
        one, other = self._entries_of(left), self._entries_of(right)
        if one is not None and other is not None:
            self._entries[node] = one.union(other)

    def _copy_sizes(self, source: Node, target: Node) -> None:
        self._note_size(target, self._size(source))
        if (entries := self._entries_of(source)) is not None:
            self._entries[target] = entries

    def _operand(self, node: Node) -> Operand:
        size = self._size(node)
        path = self._path(node).steps
        elements = self._declared_size((*path, "@items")) if path else None
        return Operand(node, size or UNKNOWN_SIZE, size is not None, elements or UNKNOWN_SIZE)


def _literal_size(node: Node) -> int | None:
    if isinstance(node, ast.Literal):
        return len(node.value) if node.value.__class__ in (str, bytes) else 1
    if isinstance(node, ast.ListExpr):
        return len(node.elements)
    if isinstance(node, ast.MapExpr):
        return len(node.entries)
    return None


def _is_scalar(of: Type) -> bool:
    if of.kind in (Kind.OPTIONAL, Kind.WRAPPER):
        (inner,) = of.params
        return _is_scalar(inner)
    return of.kind in _SCALARS
