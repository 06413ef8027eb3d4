"""CEL values as Python objects, and their run-time types.

Spec: cel.md 3 "Types and values".

| CEL | Python |
|---|---|
| bool, int, double, string, bytes, null | `bool`, `int`, `float`, `str`, `bytes`, `None` |
| uint | `UInt` (a subclass of int; arithmetic gives int, so results are wrapped again) |
| list | `list` or `tuple`, never changed after it was made |
| map | `dict`; a `DefaultMap` answers a missing key with its default |
| duration, timestamp | `Duration`, `Timestamp`: whole nanoseconds in `.ns` |
| type | `TypeValue` |
| optional | `Optional`: `NONE` or `Optional(value)` |
| object | any Python object with the declared fields as attributes (weir.cel.env.ObjectType) |
| opaque | any class with a class attribute `cel_type: Type`, `__eq__` and `__hash__` |

`True == 1` and `UInt(1) == 1` in Python, so untyped code never compares with `==` but with
`equal()`; test `value.__class__`, not `isinstance(value, int)`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from functools import total_ordering
from typing import Any, ClassVar, Final, TypeAlias

from weir.cel import types
from weir.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from weir.cel.types import Type
from weir.cel.work import spend

#: Any CEL value; see the table above.
Value: TypeAlias = Any

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


class UInt(int):
    """An unsigned 64-bit integer; a type of its own, though it compares like the number it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


@total_ordering
class Duration:
    """A signed span of time in nanoseconds (64 bit)."""

    __slots__ = ("ns",)
    cel_type: ClassVar[Type] = types.DURATION

    def __init__(self, ns: int) -> None:
        self.ns: Final = ns

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Duration and self.ns == other.ns

    def __lt__(self, other: Duration) -> bool:
        return self.ns < other.ns

    def __hash__(self) -> int:
        return hash((Duration, self.ns))

    def __repr__(self) -> str:
        return f"Duration({self.ns}ns)"


@total_ordering
class Timestamp:
    """A point in time: nanoseconds since 1970-01-01T00:00:00Z.

    `offset`: seconds east of UTC it was written in; it only shows where the instant is printed.
    """

    __slots__ = ("ns", "offset")
    cel_type: ClassVar[Type] = types.TIMESTAMP

    def __init__(self, ns: int, offset: int = 0) -> None:
        self.ns: Final = ns
        self.offset: Final = offset

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Timestamp and self.ns == other.ns

    def __lt__(self, other: Timestamp) -> bool:
        return self.ns < other.ns

    def __hash__(self) -> int:
        return hash((Timestamp, self.ns))

    def __repr__(self) -> str:
        return f"Timestamp({self.ns}ns)"


class TypeValue:
    """A type as a value; equal when the names are equal, because values carry no parameters."""

    __slots__ = ("name",)
    cel_type: ClassVar[Type] = types.TYPE

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def __eq__(self, other: object) -> bool:
        return other.__class__ is TypeValue and self.name == other.name

    def __hash__(self) -> int:
        return hash((TypeValue, self.name))

    def __repr__(self) -> str:
        return f"TypeValue({self.name})"


_ABSENT: Final = object()


class Optional:
    """A value that may be absent: `Optional(value)` or `NONE`."""

    __slots__ = ("_value",)
    cel_type: ClassVar[Type] = types.optional_of(types.DYN)

    def __init__(self, value: Value = _ABSENT) -> None:
        self._value = value

    @property
    def has_value(self) -> bool:
        """Whether there is a value."""
        return self._value is not _ABSENT

    @property
    def value(self) -> Value:
        """The value; an evaluation error if there is none."""
        if self._value is _ABSENT:
            raise EvaluationError("optional.none() dereference")
        return self._value

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Optional and equal(self, other)

    def __hash__(self) -> int:
        return hash((Optional, self._value))

    def __repr__(self) -> str:
        return "Optional.NONE" if self._value is _ABSENT else f"Optional({self._value!r})"


NONE: Final = Optional()


class DefaultMap(dict[Any, Any]):
    """A map that answers a missing key with *default*; size, iteration and `in` see real keys only."""

    __slots__ = ("default",)

    def __init__(self, entries: dict[Any, Any], default: Value) -> None:
        super().__init__(entries)
        self.default = default

    def __missing__(self, key: Value) -> Value:
        return self.default


class MixedMap(dict[Any, Any]):
    """A map with boolean and number keys, which Python would take for the same; slow and rare."""

    def get(self, key: Value, default: Value = None) -> Value:
        return super().get(_apart(key), default)

    def __getitem__(self, key: Value) -> Value:
        return super().__getitem__(_apart(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(_apart(key))

    def __iter__(self) -> Iterator[Value]:
        return iter([_together(key) for key in super().__iter__()])

    def keys(self) -> Any:
        return list(self)

    def items(self) -> Any:
        return [(_together(key), value) for key, value in super().items()]


_BOOL_KEYS: Final = ("bool key",)


def _apart(key: Value) -> Value:
    return (_BOOL_KEYS, key) if key.__class__ is bool else key


def _together(key: Value) -> Value:
    return key[1] if key.__class__ is tuple and key[0] is _BOOL_KEYS else key


def new_map(pairs: Iterable[tuple[Value, Value]]) -> dict[Any, Any]:
    """The map with these entries, the last one winning; raises TypeError for a key that cannot be one.

    >>> len(new_map([(1, "a"), (True, "b")]))
    2
    """
    entries = list(pairs)
    for key, _ in entries:
        if key.__class__ is str and len(key) > 256:
            spend(len(key) >> 8)
    plain = dict(entries)
    if len(plain) == len(entries):
        return plain
    booleans = sum(key.__class__ is bool for key, _ in entries)
    if not booleans or booleans == len(entries):
        return plain
    mixed = MixedMap()
    for key, value in entries:
        dict.__setitem__(mixed, _apart(key), value)
    return mixed


_TYPE_OF_CLASS: Final[dict[type, Type]] = {
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    list: types.LIST_OF_DYN,
    tuple: types.LIST_OF_DYN,
    dict: types.MAP_OF_DYN,
    DefaultMap: types.MAP_OF_DYN,
    MixedMap: types.MAP_OF_DYN,
}


def type_of(value: Value) -> Type:
    """The run-time type of *value*; lists and maps have dyn parameters.

    >>> type_of(UInt(1)).name, type_of([1]).name, type_of(None).name
    ('uint', 'list', 'null_type')
    """
    found = _TYPE_OF_CLASS.get(value.__class__)
    if found is not None:
        return found
    declared = getattr(value, "cel_type", None)
    if isinstance(declared, Type):
        return declared
    return types.MAP_OF_DYN  # an object bound by the host: fields by name


#: Fields of the Python classes that hosts bind as objects, filled by the environments that declare them.
OBJECT_FIELDS: Final[dict[type, tuple[str, ...]]] = {}


def object_as_map(value: Value) -> Value:
    """*value*; an object becomes the map of its fields, which is what it is once its static type is given up."""
    fields = OBJECT_FIELDS.get(value.__class__)
    return value if fields is None else {name: getattr(value, name) for name in fields}


_NUMBERS: Final = frozenset((int, UInt, float))
_PLAIN: Final = frozenset((bool, str, bytes, type(None), Duration, Timestamp, TypeValue))
_LISTS: Final = frozenset((list, tuple))
#: Units of comparing one element of a list.
_PER_ELEMENT: Final = 8
#: Python's own equality of long lists is right for these, and much faster.
_SAME_IN_PYTHON: Final = frozenset((int, str, bytes, bool, UInt))


def equal(a: Value, b: Value) -> bool:
    """Whether *a* equals *b* when nothing is known about their types (cel.md 3.1).

    Raises `EvaluationError("no such overload")` for a library value against another type, as upstream does.

    >>> equal(1, 1.0), equal(1, True), equal([1, "a"], [UInt(1), "a"])
    (True, False, True)
    """
    ca, cb = a.__class__, b.__class__
    if ca in _NUMBERS:
        if cb not in _NUMBERS:
            return False
        # Against a double, integers are compared as doubles: 2^63-1 equals 2.0^63, as upstream has it.
        return float(a) == float(b) if ca is float or cb is float else bool(a == b)
    if ca in _PLAIN:
        return ca is cb and bool(a == b)
    if ca in _LISTS:
        if cb not in _LISTS or len(a) != len(b):
            return False
        if len(a) > 8:
            spend(len(a))
            kinds = set(map(type, a))
            if len(kinds) == 1 and kinds <= _SAME_IN_PYTHON and kinds == set(map(type, b)):
                spend(_long_texts(a))
                return list(a) == list(b)
        spend(3 * _PER_ELEMENT + len(a) * _PER_ELEMENT)
        spend(_long_texts(a))
        return all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        b = object_as_map(b)
        if not isinstance(b, dict) or len(a) != len(b):
            return False
        spend(5 * _PER_ELEMENT + len(a) * 2 * _PER_ELEMENT)
        spend(_long_texts(a) + _long_texts(a.values()))
        for key, value in a.items():
            found = find_key(b, key)
            if found is _ABSENT or not equal(value, found):
                return False
        return True
    if ca is Optional:
        if cb is not Optional:
            return False
        if a._value is _ABSENT or b._value is _ABSENT:
            return a._value is b._value
        spend(3 * _PER_ELEMENT)  # as dear as a list of three
        return equal(a._value, b._value)
    if ca in OBJECT_FIELDS:
        return a is b or equal(object_as_map(a), b)
    if ca is cb:
        return bool(a == b)
    if b is None:
        return False
    if type_of(a).kind is types.Kind.OPAQUE:
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return False


def same(a: Value, b: Value) -> bool:
    """Return whether two values are equal; library values of different types are just unequal."""
    try:
        return equal(a, b)
    except EvaluationError:
        return False


def _long_texts(values: Collection[Value]) -> int:
    """Units of comparing the long texts among *values*; looking for them is part of what an element is charged."""
    return sum(len(value) >> 8 for value in values if value.__class__ is str or value.__class__ is bytes)


def find_key(m: dict[Any, Any], key: Value) -> Value:
    """The value under *key*, or `ABSENT`; numbers find each other, booleans only booleans."""
    kind = key.__class__
    if kind is str or m.__class__ is MixedMap:
        if kind is str and len(key) > 256:
            spend(len(key) >> 8)
        return m.get(key, _ABSENT)
    if kind is bool or kind in _NUMBERS:
        if kind is float and math.isnan(key):
            return _ABSENT
        found = m.get(key, _ABSENT)
        if found is _ABSENT:
            return _ABSENT
        # Python would let True find 1; a map is not expected to hold both.
        if (next(iter(m)).__class__ is bool) is not (kind is bool):
            spend(len(m))
            for candidate, value in m.items():
                if candidate == key and (candidate.__class__ is bool) is (kind is bool):
                    return value
            return _ABSENT
        return found
    try:
        return m.get(key, _ABSENT)
    except TypeError:
        return _ABSENT


ABSENT: Final = _ABSENT


def size_of(value: Value) -> int:
    """What runtime cost takes as the size: length of strings, bytes, lists and maps; library values may say theirs
    (`cel_size`); an optional is as large as what it holds; everything else is 1.
    """
    kind = value.__class__
    if kind is Optional and value.has_value:
        return size_of(value.value)
    if kind is str or kind is list or kind is bytes or kind is tuple or isinstance(value, dict):
        return len(value)
    size: int = getattr(value, "cel_size", 1)
    return size
