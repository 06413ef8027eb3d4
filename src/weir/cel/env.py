"""Environments: the variables, object types, functions, macros and literal rules of expressions.

Spec: cel.md 4.1, 5, 9. A library (weir.cel.library.*) is a `Library` of `Function`s; each `Overload` keeps
its signature, its implementation and both of its cost rules side by side. An `Env` is libraries plus
variables and object types; it is immutable and compared by identity, so it can key a cache.
Overload order is declaration order and decides result types; functions of the same name
from several libraries are merged, in library order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from weir.cel.cost_model import RuntimeCost, StaticCost
from weir.cel.types import Node, Type, object_named, type_of_type
from weir.cel.unify import parameters
from weir.cel.values import OBJECT_FIELDS, TypeValue, Value
from weir.cel.work import CALL

#: What one evaluation may cost, and what the estimate of an expression may come to: Kubernetes' PerCallLimit.
COST_LIMIT: Final = 1_000_000
#: Judges a format string against the argument nodes (cel.md 4.6).
FormatCheck = Callable[[str, Sequence[Node]], tuple[Node | None, str] | None]

#: Handed to `Overload.specialize` in place of an argument that is not a constant.
UNKNOWN: Final = object()


@dataclass(frozen=True, slots=True)
class Specialized:
    """An implementation with constant arguments baked in: called with the other arguments only.

    `baked`: positions of the arguments it does not take (by default the second, a regular expression). `inline`, if
    given, is a Python expression with `{f}` for `function` and `{0}`, `{1}` … for the remaining arguments,
    e.g. `{f}({0}) is not None`. `fails`: whether it can still raise EvaluationError.
    """

    function: Callable[..., Value]
    inline: str | None = None
    baked: tuple[int, ...] = (1,)
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    id: overload id of the spec (`starts_with_string`); cost rules and messages are keyed by it.
    params: parameter types, receiver first for methods. result: result type.
    member: True for `x.f(y)`, False for `f(x, y)`.
    impl: called positionally with values whose run-time types fit `params` (the caller has checked); returns
        the value or raises EvaluationError. None: handled by the evaluator itself (`&&`, index …).
    fails: whether impl can raise EvaluationError for well-typed arguments. False lets generated code skip
        work: claim it only when certain.
    inline: the implementation as a Python expression over `{0}`, `{1}` … (no names besides those and builtins
        len/str/int/min/max); the same value as impl, and may not raise. Only for hot, total operations.
    specialize: called when the program is built, with constants or UNKNOWN for each argument; may return
        a Specialized or None; EvaluationError raised here is a program error. Example: a literal regex.
    cost: runtime rule; None = 1. static: static rule; None = 1, no result size.
    effort: tenths of a unit of work (weir.cel.work) of one call with small operands; what grows with them is charged
        by the implementation.
    parameters: the type parameters in `params` and `result`.
    """

    id: str
    params: tuple[Type, ...]
    result: Type
    member: bool = False
    impl: Callable[..., Value] | None = None
    fails: bool = True
    inline: str | None = None
    specialize: Callable[[Sequence[Value]], Specialized | None] | None = None
    cost: RuntimeCost | None = None
    static: StaticCost | None = None
    effort: int = CALL
    parameters: tuple[Type, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", parameters(self.result, *self.params))


@dataclass(frozen=True, slots=True)
class Function:
    """A function name with its overloads in declaration order.

    fold: a call with only constant arguments is computed when the program is built and then costs nothing
    (the conversions of cel.md 12: int uint double bool string bytes duration timestamp dyn type).
    """

    name: str
    overloads: tuple[Overload, ...]
    fold: bool = False


@dataclass(frozen=True, slots=True)
class Library:
    """Functions and types that are switched on together.

    types: opaque types whose names become identifiers (`net.IP`). macros: groups of weir.cel.macros.GROUPS
    this library switches on (`"two_variable"`, `"optional"`, `"sort_by"`, `"bind"`). check_format: what is wrong with
    a constant format string and its arguments: the node to blame (None: the call) and the message, or None.
    undefined: names the checker takes for types although no program can refer to them.
    """

    name: str
    functions: tuple[Function, ...]
    types: tuple[Type, ...] = ()
    macros: frozenset[str] = frozenset()
    check_format: FormatCheck | None = None
    undefined: Mapping[str, Type] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectType:
    """A type with named fields. Values are Python objects with the fields as attributes.

    python_class: the class of bound values, so that `type(x)` and dynamic access know them; a class with a
    `cel_type` attribute needs none. A class is registered per environment.
    mapped: values are documents (dicts) that may lack fields, and whose parts need not have the declared types: what
    the checker believes is not relied on when code is generated. read: how a field of a *python_class* is read; one
    that may fail (EvaluationError) belongs to a mapped type.
    """

    name: str
    fields: Mapping[str, Type]
    python_class: type | None = None
    mapped: bool = False
    read: Callable[[Any, str], Value] = getattr

    @property
    def type(self) -> Type:
        """The CEL type of values."""
        return object_named(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Env:
    """Everything an expression is compiled against.

    variables: name → type. sizes: declared maximum sizes for the static cost, keyed by path
    (cel.md 11.3), `"*"` standing for any name: `{("taint", "key"): 317}`.
    homogeneous_literals / validators: the Kubernetes literal checks of cel.md 4.5 and 4.6.
    cost_limit: runtime budget of evaluations. patch_types: `Object{…}` and `JSONPatch{…}` can be built
    (weir.cel.messages).
    """

    libraries: tuple[Library, ...]
    variables: Mapping[str, Type] = field(default_factory=dict)
    objects: tuple[ObjectType, ...] = ()
    sizes: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    container: str = ""
    homogeneous_literals: bool = True
    validators: bool = True
    macros_enabled: bool = True
    cost_limit: int = COST_LIMIT
    patch_types: bool = False
    functions: Mapping[str, Function] = field(init=False)
    object_types: Mapping[str, ObjectType] = field(init=False)
    constants: Mapping[str, tuple[Type, Any]] = field(init=False)
    undefined: Mapping[str, Type] = field(init=False)
    macro_groups: frozenset[str] = field(init=False)
    python_classes: Mapping[type, ObjectType] = field(init=False)
    check_format: FormatCheck | None = field(init=False)

    def __post_init__(self) -> None:
        merged: dict[str, Function] = {}
        for library in self.libraries:
            for function in library.functions:
                known = merged.get(function.name)
                if known is not None:
                    function = Function(
                        function.name, known.overloads + function.overloads, known.fold or function.fold
                    )
                merged[function.name] = function
        constants: dict[str, tuple[Type, Any]] = {}
        for library in self.libraries:
            for declared in library.types:
                constants[declared.name] = (type_of_type(declared), TypeValue(declared.name))
        groups: frozenset[str] = frozenset().union(*(library.macros for library in self.libraries))
        object.__setattr__(self, "functions", merged)
        object.__setattr__(self, "object_types", {o.name: o for o in self.objects})
        object.__setattr__(self, "constants", constants)
        undefined = {name: of for library in self.libraries for name, of in library.undefined.items()}
        object.__setattr__(self, "undefined", undefined)
        object.__setattr__(self, "macro_groups", groups)
        checks = [library.check_format for library in self.libraries if library.check_format is not None]
        object.__setattr__(self, "check_format", checks[0] if checks else None)
        classes = {o.python_class: o for o in self.objects if o.python_class is not None}
        object.__setattr__(self, "python_classes", classes)
        for python, of in classes.items():
            if of.mapped:
                continue
            # Another environment may declare the same class with fewer fields; which came last must not matter.
            if len(of.fields) >= len(OBJECT_FIELDS.get(python, ())):
                OBJECT_FIELDS[python] = tuple(of.fields)
