"""Choice of an overload by values, and the error when none takes them.

Spec: cel.md 6 "strict calls": dynamic dispatch looks at run-time types, at lists and maps by their first entry. The
texts differ by how upstream implements a function: operators say `no such overload` when the left operand knows the
operator for other types, and name the operator when it does not; other functions list the types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weir.cel import ast
from weir.cel.env import Overload
from weir.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from weir.cel.steps import Invoke
from weir.cel.types import Kind, Type
from weir.cel.values import UInt, Value, type_of
from weir.cel.work import CALL, spend

#: Units of looking through the overloads of a function.
_CHOOSING: Final = 40
_CLASSES: Final[dict[Kind, tuple[type, ...]]] = {
    Kind.BOOL: (bool,),
    Kind.INT: (int,),
    Kind.UINT: (UInt,),
    Kind.DOUBLE: (float,),
    Kind.STRING: (str,),
    Kind.BYTES: (bytes,),
    Kind.NULL: (type(None),),
}
_ANYTHING: Final = frozenset((Kind.DYN, Kind.ANY, Kind.PARAM))

_ARITHMETIC: Final = frozenset(("int", "uint", "double"))
_ORDERED: Final = _ARITHMETIC | {"bool", "bytes", "string", "duration", "timestamp"}
#: Types that know an operator at all; on others the operator is named in the message.
_KNOWS: Final[dict[str, frozenset[str]]] = {
    ast.ADD: _ARITHMETIC | {"bytes", "string", "list", "duration", "timestamp"},
    ast.SUBTRACT: _ARITHMETIC | {"duration", "timestamp"},
    ast.MULTIPLY: _ARITHMETIC,
    ast.DIVIDE: _ARITHMETIC,
    ast.MODULO: frozenset(("int", "uint")),
    ast.NEGATE: frozenset(("bool", "int", "double", "duration")),
    ast.LESS: _ORDERED,
    ast.LESS_EQUALS: _ORDERED,
    ast.GREATER: _ORDERED,
    ast.GREATER_EQUALS: _ORDERED,
    "size": frozenset(("bytes", "string", "list", "map")),
}
_RECEIVERS: Final = frozenset(("string", "duration", "timestamp"))
_PLAIN: Final = frozenset(("contains", "startsWith", "endsWith", "matches", ast.NOT, ast.NOT_STRICTLY_FALSE))
_SEARCHES: Final = frozenset(("find", "findAll"))
#: Functions upstream runs on any list, whatever it holds.
_UNGUARDED: Final = frozenset(("flatten",))


def accepts(param: Type, value: Value) -> bool:
    """Whether *value* may be passed for a parameter of type *param*."""
    kind = param.kind
    if kind in _ANYTHING:
        return True
    classes = _CLASSES.get(kind)
    if classes is not None:
        return value.__class__ in classes
    if kind is Kind.LIST:
        if value.__class__ is not list and value.__class__ is not tuple:
            return False
        return not value or accepts(param.params[0], value[0])
    if kind is Kind.MAP:
        if not isinstance(value, dict):
            return False
        if not value:
            return True
        key, first = next(iter(value.items()))
        return accepts(param.params[0], key) and accepts(param.params[1], first)
    actual = getattr(value, "cel_type", None)
    if not isinstance(actual, Type):
        return False
    return actual.kind is kind and actual.name == param.name


def select(overloads: Sequence[Overload], args: Sequence[Value]) -> Overload | None:
    """The first overload whose parameters accept *args*."""
    for overload in overloads:
        if overload.impl is None or len(overload.params) != len(args):
            continue
        if all(map(accepts, overload.params, args)):
            return overload
    return None


#: Classes that say all about a value that an overload asks for; of lists and maps the first entry counts too.
_TELLING: Final = frozenset((bool, int, UInt, float, str, bytes, type(None)))


def chosen(call: Invoke, args: Sequence[Value]) -> Overload | None:
    """The overload of *call* that takes *args*, which is charged for choosing it and for its effort."""
    classes = tuple([arg.__class__ for arg in args])
    pair = call.by_classes.get(classes)
    if pair is None:
        spend(_CHOOSING)
        overload = select(call.overloads, args)
        remember(call, args, overload, _priced_by_name(call.overloads, args))
    else:
        overload = pair[0]
    if overload is not None and overload.effort > CALL:
        spend(overload.effort // 10)
    return overload


def remember(
    call: Invoke, args: Sequence[Value], overload: Overload | None, priced_by: Overload | None
) -> bool:
    """Choose and price the same way for *args* of these classes from now on, if they tell all; return whether."""
    classes = tuple([arg.__class__ for arg in args])
    if not _TELLING.issuperset(classes):
        return False
    call.by_classes[classes] = overload, priced_by
    return True


def takes_any_list(function: str, args: Sequence[Value]) -> bool:
    """Whether *function* looks into a list itself instead of having it checked."""
    return function in _UNGUARDED and args[0].__class__ in (list, tuple)


def no_such_overload(function: str, args: Sequence[Value], declared: bool = True) -> EvaluationError:
    """The error for a call no overload takes."""
    if not declared:
        return EvaluationError(f"{NO_SUCH_OVERLOAD}: {function}")
    knows = _KNOWS.get(function)
    if knows is not None and args:
        name = str(type_of(args[0])).partition("(")[0]
        if name in knows or name in _RECEIVERS:
            return EvaluationError(NO_SUCH_OVERLOAD)
        return EvaluationError(f"{NO_SUCH_OVERLOAD}: {function}")
    if function in _PLAIN or (function in _SEARCHES and args[0].__class__ is not str):
        return EvaluationError(NO_SUCH_OVERLOAD)
    if function == "flatten":
        found = type_of(args[0])
        name = str(found) if found.params else found.name
        return EvaluationError(f"{NO_SUCH_OVERLOAD}: {name}.flatten()")
    if function == "sort":
        if str(type_of(args[0])) in _RECEIVERS:
            return EvaluationError(NO_SUCH_OVERLOAD)
        return EvaluationError(f"{NO_SUCH_OVERLOAD}: sort")
    names = ", ".join(type_of(arg).name for arg in args)
    return EvaluationError(f"{NO_SUCH_OVERLOAD}: {function}({names})")


def priced_by_name(call: Invoke, args: Sequence[Value]) -> Overload | None:
    """The overload whose by-name price applies to a call with several candidates, if any.

    The best is one that takes the first argument; a name is priced even if nothing does.
    """
    pair = call.by_classes.get(tuple([arg.__class__ for arg in args]))
    return pair[1] if pair is not None else _priced_by_name(call.overloads, args)


def _priced_by_name(overloads: Sequence[Overload], args: Sequence[Value]) -> Overload | None:
    named = [o for o in overloads if len(o.params) == len(args) and o.cost is not None and o.cost.by_name]
    for overload in named:
        if not args or isinstance(args[0], EvaluationError) or accepts(overload.params[0], args[0]):
            return overload
    return named[0] if named else None
