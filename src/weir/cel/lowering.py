"""Lowering of a checked expression to the steps that run, with the types that values certainly have.

Spec: cel.md 1 "program", 12 (what is folded), 16 (index with a constant of impossible key type). Constant literals,
conversions of constants and `in` with a constant list are computed here; what fails here is a program error.
An unchecked expression (conformance tests only) is lowered too: names are then looked up when it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from weir.cel import ast, messages, types
from weir.cel.access import KEYS, invalid_key
from weir.cel.ast import Call, Comprehension, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from weir.cel.checker import candidate_names, qualified_name
from weir.cel.dispatch import no_such_overload, select
from weir.cel.env import UNKNOWN, Env, Overload
from weir.cel.errors import CelError, EvaluationError
from weir.cel.steps import (
    Choice,
    Const,
    Equal,
    Fold,
    InSet,
    Invoke,
    Local,
    Logic,
    NewList,
    NewMap,
    NewStruct,
    OrElse,
    Path,
    Qualifier,
    Step,
    Unresolved,
    Variable,
)
from weir.cel.types import DYN, Kind, Node, Type, list_of, map_of, optional_of
from weir.cel.unify import instantiate
from weir.cel.values import TypeValue, UInt, Value, new_map, type_of


def of_value(value: Value) -> Type:
    """The type of a constant, as precise as its parts are alike.

    >>> str(of_value([1, 2])), str(of_value([1, "a"]))
    ('list(int)', 'list(dyn)')
    """
    if isinstance(value, list | tuple):
        return list_of(alike(of_value(part) for part in value))
    if isinstance(value, dict):
        return map_of(alike(map(of_value, value)), alike(map(of_value, value.values())))
    return type_of(value)


def alike(parts: Iterable[Type]) -> Type:
    """The type all *parts* have, or dyn."""
    found: Type | None = None
    for part in parts:
        if found is not None and part is not found:
            return DYN
        found = part
    return found or DYN


def of_part(container: Type, key: Value, env: Env, optional: bool) -> Type:
    """The type of `container.key` or `container[key]`."""
    if container.kind is Kind.OPTIONAL:
        container, optional = container.params[0], True
    part = DYN
    if container.kind is Kind.MAP:
        part = container.params[1]
    elif container.kind is Kind.LIST:
        part = container.params[0]
    elif container.kind is Kind.OBJECT and isinstance(key, str):
        declared = env.object_types.get(container.name)
        part = declared.fields.get(key, DYN) if declared and not declared.mapped else DYN
    # Through dyn the container itself may have been an optional, and then the part is one as well.
    return optional_of(part) if optional else part


def of_result(candidates: Sequence[Overload], actual: Sequence[Type]) -> Type:
    """The type of what a call returns, whichever of *candidates* runs."""
    return alike(_result(overload, actual) for overload in candidates)


def _result(overload: Overload, actual: Sequence[Type]) -> Type:
    if overload.result.closed:
        return overload.result
    bound: dict[Type, Type] = {}
    for formal, given in zip(overload.params, actual, strict=True):
        _bind(formal, given, bound)
    return _without_free(instantiate(overload.result, bound))


def _bind(formal: Type, given: Type, bound: dict[Type, Type]) -> None:
    if formal.closed:
        return
    if formal.kind is Kind.PARAM:
        known = bound.get(formal)
        bound[formal] = given if known is None or known is given else DYN
        return
    same = given.kind is formal.kind and len(given.params) == len(formal.params)
    for index, part in enumerate(formal.params):
        _bind(part, given.params[index] if same else DYN, bound)


def _without_free(t: Type) -> Type:
    if t.closed:
        return t
    if t.kind is Kind.PARAM:
        return DYN
    return Type(t.kind, t.name, tuple(map(_without_free, t.params)))


def of_iteration(over: Type, two: bool) -> tuple[Type, Type]:
    """The types of the loop variables."""
    if over.kind is Kind.LIST:
        return (types.INT, over.params[0]) if two else (over.params[0], DYN)
    if over.kind is Kind.MAP:
        return over.params[0], over.params[1]
    return DYN, DYN


class ProgramError(CelError):
    """The expression is well typed, but its program cannot be built."""


_PRIMITIVES: Final = frozenset((bool, int, UInt, float, str))
_OPTIONAL_IDS: Final = {"optional_or_optional": False, "optional_orValue_value": True}
_ARITY_WORDS: Final = {0: "", 1: "arg", 2: "lhs, rhs"}


def lower(root: Node, env: Env, checked: bool = True) -> Step:
    """The steps of *root*; raises ProgramError when a constant part fails."""
    return _Lowering(env, checked).lower(root)


class _Lowering:
    def __init__(self, env: Env, checked: bool) -> None:
        self.env = env
        self.checked = checked
        self.slots = 0
        self.locals: list[tuple[str, int, Type]] = []

    def lower(self, node: Node) -> Step:
        if isinstance(node, Literal):
            return Const(node.value, type_of(node.value))
        if isinstance(node, Ident):
            return self.ident(node)
        if isinstance(node, Select):
            return self.select(node)
        if isinstance(node, Call):
            return self.call(node)
        if isinstance(node, ListExpr):
            return self.list(node)
        if isinstance(node, MapExpr):
            return self.map(node)
        if isinstance(node, StructExpr):
            return self.struct(node)
        assert isinstance(node, Comprehension)
        return self.comprehension(node)

    # --- names and paths -----------------------------------------------------------------------------

    def local(self, name: str) -> Local | None:
        for known, slot, declared in reversed(self.locals):
            if known == name:
                return Local(name, slot, declared)
        return None

    def ident(self, node: Ident) -> Step:
        local = self.local(node.name.partition(".")[0])
        if node.absolute and local is not None:
            return self.shadowed(node)
        local = self.local(node.name)
        if local is not None:
            return Path(local, [], local.type)
        if not self.checked:
            return self.unresolved(node.name, [])
        if node.constant is not ast.NO_CONSTANT:
            return Const(node.constant, type_of(node.constant))
        if node.type.kind is Kind.TYPE and node.name not in self.env.variables:
            raise ProgramError(f"reference to undefined type: {node.name}")
        return Path(Variable(node.name, node.type), [], node.type)

    def shadowed(self, node: Ident) -> Step:
        """An absolute name (`.taint`) that a comprehension's variable has, too; upstream, it is no type then."""
        if node.type.kind is Kind.TYPE and node.name not in self.env.variables:
            raise ProgramError(f"reference to undefined type: .{node.name}")
        if node.constant is not ast.NO_CONSTANT:
            return Const(node.constant, type_of(node.constant))
        path = Path(Variable(node.name, node.type), [], node.type)
        path.shadowed = True
        return path

    def unresolved(self, name: str, fields: list[str]) -> Step:
        """A dotted name of an unchecked expression: longer names first, then as selections."""
        candidates = []
        for taken in range(len(fields), -1, -1):
            dotted = ".".join([name, *fields[:taken]])
            candidates += [(full, taken) for full in candidate_names(self.env.container, dotted)]
        qualifiers = [Qualifier(field, types.DYN) for field in fields]
        return Path(Unresolved(name.removeprefix("."), candidates), qualifiers, types.DYN)

    def path(self, step: Step) -> Path:
        return step if isinstance(step, Path) else Path(step, [], step.type)

    def select(self, node: Select) -> Step:
        if not self.checked and not node.test_only:
            dotted = qualified_name(node)
            if dotted is not None:
                first, *fields = dotted.removeprefix(".").split(".")
                if dotted.startswith("."):
                    first = "." + first
                if self.local(first) is None:
                    return self.unresolved(first, fields)
        path = self.path(self.lower(node.operand))
        operand = path.type
        path.qualifiers.append(
            Qualifier(node.field, operand, field=self.is_field(operand, node.field), test=node.test_only)
        )
        path.type = types.BOOL if node.test_only else of_part(operand, node.field, self.env, optional=False)
        path.test = path.test or node.test_only
        return path

    def is_field(self, operand: Type, key: Value) -> bool:
        """Whether *key* is a declared field of objects of this type: nothing else becomes attribute access."""
        declared = self.env.object_types.get(operand.name) if operand.kind is Kind.OBJECT else None
        return declared is not None and not declared.mapped and key in declared.fields

    def index(self, node: Call, optional: bool) -> Step:
        operand, key = node.args
        path = self.path(self.lower(operand))
        step = self.lower(key)
        known = path.type
        if isinstance(step, Const):
            if step.value.__class__ not in KEYS:
                raise ProgramError(invalid_key(step.value))
            field = self.is_field(known, step.value)
            path.qualifiers.append(Qualifier(step.value, known, optional=optional, field=field))
        else:
            path.qualifiers.append(Qualifier(step, known, computed=True, optional=optional))
        key_value = step.value if isinstance(step, Const) else None
        path.type = of_part(known, key_value, self.env, optional)
        return path

    # --- calls ---------------------------------------------------------------------------------------

    def call(self, node: Call) -> Step:
        function = node.function
        if function in (ast.AND, ast.OR):
            left, right = [self.lower(arg) for arg in node.args]
            logic = Logic(function == ast.OR, left, right)
            logic.type = types.BOOL
            return logic
        if function == ast.CONDITIONAL:
            condition, yes, no = [self.lower(arg) for arg in node.args]
            chosen = alike((yes.type, no.type))
            return Path(Choice(condition, yes, no, chosen), [], chosen)
        if function in (ast.INDEX, ast.OPT_INDEX, ast.OPT_SELECT):
            return self.index(node, optional=function != ast.INDEX)
        if function in (ast.EQUALS, ast.NOT_EQUALS):
            left, right = [self.lower(arg) for arg in node.args]
            declared = self.env.functions.get(function)
            overload = declared.overloads[0] if declared else None
            equal = Equal(left, right, function == ast.NOT_EQUALS, overload)
            equal.type = types.BOOL
            return equal
        return self.invoke(node)

    def invoke(self, node: Call) -> Step:
        function = self.env.functions.get(node.function)
        target = node.target
        operands = node.operands
        candidates = node.candidates
        if not self.checked:
            if target is not None:
                prefix = qualified_name(target)
                namespaced = self.env.functions.get(f"{prefix}.{node.function}") if prefix else None
                if namespaced is not None:
                    function, operands, target = namespaced, node.args, None
            declared = function.overloads if function else ()
            candidates = tuple(
                o for o in declared if o.member is (target is not None) and len(o.params) == len(operands)
            )
            if function is not None and not candidates and len(declared) == 1:
                words = _ARITY_WORDS.get(len(operands), "...")
                raise ProgramError(f"no such overload: {function.name}({words})")
        args = [self.lower(operand) for operand in operands]
        if len(candidates) == 1:
            unwrap = _OPTIONAL_IDS.get(candidates[0].id)
            if unwrap is not None:
                return self.or_else(args[0], args[1], unwrap)
            if candidates[0].id == "in_list":
                members = self.set_members(args[1])
                if members is not None:
                    return self.in_set(args[0], members) if members else Const(False, types.BOOL)
        if function is not None and function.fold and len(args) == 1 and isinstance(args[0], Const):
            return self.folded(function.overloads, args[0].value, node)
        overloads = function.overloads if function else ()
        result = of_result(candidates, [arg.type for arg in args])
        step = Invoke(function.name if function else node.function, args, candidates, overloads, result)
        if not self.checked:
            step.resolved = None
        step.guards = tuple(map(self.guard, step.resolved.params, args)) if step.resolved else ()
        self.specialize(step)
        return step

    def or_else(self, left: Step, right: Step, unwrap: bool) -> Step:
        inside = left.type.params[0] if left.type.kind is Kind.OPTIONAL else types.DYN
        return OrElse(left, right, unwrap, alike((inside if unwrap else left.type, right.type)))

    def guard(self, param: Type, arg: Step) -> Type | None:
        return param if needs_guard(param, arg.type) else None

    def specialize(self, step: Invoke) -> None:
        overload = step.resolved
        if overload is None or overload.specialize is None:
            return
        known = [arg.value if isinstance(arg, Const) else UNKNOWN for arg in step.args]
        if any(step.guards[i] for i, value in enumerate(known) if value is UNKNOWN):
            return
        try:
            step.special = overload.specialize(known)
        except EvaluationError as error:
            raise ProgramError(str(error)) from None

    def in_set(self, element: Step, members: list[Value]) -> Step:
        step = InSet(element, members)
        step.type = types.BOOL
        return step

    def set_members(self, step: Step) -> list[Value] | None:
        """The members of a constant list that can be looked up by hashing."""
        if not isinstance(step, Const) or not isinstance(step.value, list):
            return None
        if any(member.__class__ not in _PRIMITIVES for member in step.value):
            return None
        return step.value

    def folded(self, overloads: tuple[Overload, ...], value: Value, node: Call) -> Step:
        if node.function == "type":
            return Const(TypeValue(type_of(value).name), types.TYPE)
        overload = select(overloads, [value])
        try:
            if overload is None or overload.impl is None:
                raise no_such_overload(node.function, [value])
            converted = overload.impl(value)
            return Const(converted, of_value(converted))
        except EvaluationError as error:
            raise ProgramError(str(error)) from None

    # --- literals ------------------------------------------------------------------------------------

    def list(self, node: ListExpr) -> Step:
        elements = [self.lower(element) for element in node.elements]
        if not node.optional and all(isinstance(e, Const) for e in elements):
            constant = [e.value for e in elements if isinstance(e, Const)]
            return Const(constant, of_value(constant))
        parts = [_inside(e.type) if i in node.optional else e.type for i, e in enumerate(elements)]
        return NewList(elements, node.optional, list_of(alike(parts)))

    def map(self, node: MapExpr) -> Step:
        entries = []
        for entry in node.entries:
            assert entry.key is not None
            entries.append((self.lower(entry.key), self.lower(entry.value), entry.optional))
        keys = alike(key.type for key, _, _ in entries)
        values = alike(_inside(value.type) if optional else value.type for _, value, optional in entries)
        built = NewMap(entries, map_of(keys, values))
        pairs: list[tuple[Value, Value]] = []
        for key, value, optional in entries:
            if optional or not isinstance(key, Const) or not isinstance(value, Const):
                return built
            pairs.append((key.value, value.value))
        try:
            return Const(new_map(pairs), built.type)
        except TypeError:
            return built

    def struct(self, node: StructExpr) -> Step:
        name = node.name
        if not self.checked:
            for full in candidate_names(self.env.container, name):
                if full in messages.MESSAGES or full in self.env.object_types:
                    name = full
                    break
        entries = [(entry.field, self.lower(entry.value), entry.optional) for entry in node.entries]
        return NewStruct(name, entries, types.DYN)

    # --- comprehensions ------------------------------------------------------------------------------

    def bind_local(self, name: str, declared: Type) -> int:
        self.slots += 1
        self.locals.append((name, self.slots, declared))
        return self.slots

    def comprehension(self, node: Comprehension) -> Step:
        over = self.lower(node.range)
        init = self.lower(node.init)
        outer = len(self.locals)
        first, second = of_iteration(over.type, node.var2 is not None)
        started = init.type if node.bind else _emptied(init.type)
        accu = self.bind_local(node.accu, started)
        inner = len(self.locals)
        slot = self.bind_local(node.var, first)
        slot2 = self.bind_local(node.var2, second) if node.var2 is not None else None
        condition = self.lower(node.condition)
        step = self.lower(node.step)
        del self.locals[inner:]
        if not node.bind:
            self.locals[outer] = (node.accu, accu, _accumulated(started, step, accu))
        result = self.lower(node.result)
        del self.locals[outer:]
        return Fold(over, slot, slot2, accu, init, condition, step, result, node.bind, result.type)


def _inside(t: Type) -> Type:
    """What an element marked `?` puts into its literal."""
    return t.params[0] if t.kind is Kind.OPTIONAL else types.DYN


def _emptied(t: Type) -> Type:
    """The accumulator while its loop runs: nothing is known about what it holds."""
    if t.kind is Kind.LIST:
        return types.LIST_OF_DYN
    return types.MAP_OF_DYN if t.kind is Kind.MAP else t


def _accumulated(started: Type, step: Step, accu: int) -> Type:
    """The accumulator after the loop, whose *step* keeps it, extends it, or makes something else."""
    if isinstance(step, Path) and isinstance(step.root, Choice) and not step.qualifiers:
        step = step.root.yes  # the other branch keeps it
    extends = (
        isinstance(step, Invoke)
        and step.resolved is not None
        and step.resolved.id == "add_list"
        and isinstance(step.args[0], Path)
        and isinstance(step.args[0].root, Local)
        and step.args[0].root.slot == accu
    )
    if extends:
        assert isinstance(step, Invoke)
        return step.args[1].type
    return started if step.type is started or started.kind in (Kind.LIST, Kind.MAP) else types.DYN


def needs_guard(param: Type, actual: Type) -> bool:
    """Whether a value of static type *actual* may at run time not be a *param*."""
    if param.kind in (Kind.DYN, Kind.ANY, Kind.PARAM):
        return False
    if actual.kind is not param.kind:
        return True
    if param.kind in (Kind.LIST, Kind.MAP):
        return any(map(needs_guard, param.params, actual.params))
    return actual.name != param.name
