"""CEL types and their notation.

Spec: cel.md 3 "Types and values". A `Type` is an immutable tree; `str(type)` is the notation Kubernetes
prints in messages (`list(string)`, `optional_type(int)`). `any` and `dyn` are static only,
no value has them; `null` is written `null` as a type in messages but its name as an identifier is
`null_type`; time types have a short notation (`timestamp`) and a long name (`google.protobuf.Timestamp`).
"""

from __future__ import annotations

import enum
from typing import Final, TypeAlias
from weakref import WeakValueDictionary


class Kind(enum.Enum):
    """The constructor of a type."""

    BOOL = enum.auto()
    INT = enum.auto()
    UINT = enum.auto()
    DOUBLE = enum.auto()
    STRING = enum.auto()
    BYTES = enum.auto()
    NULL = enum.auto()
    DURATION = enum.auto()
    TIMESTAMP = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()
    TYPE = enum.auto()
    OPTIONAL = enum.auto()
    OBJECT = enum.auto()
    OPAQUE = enum.auto()
    WRAPPER = enum.auto()
    DYN = enum.auto()
    ANY = enum.auto()
    ERROR = enum.auto()
    PARAM = enum.auto()


#: Parts of one type. A literal as deep as an expression may be has some five hundred; `.map(v, {v: v})` doubles a type.
MOST_PARTS: Final = 600


class TypeTooLarge(ValueError):
    """A type of more than `MOST_PARTS` parts."""


_Key: TypeAlias = "tuple[Kind, str, tuple[Type, ...]]"
_KNOWN: WeakValueDictionary[_Key, Type] = WeakValueDictionary()


class Type:
    """One type: its kind, its runtime name and its parameters.

    >>> str(map_of(STRING, list_of(INT)))
    'map(string, list(int))'
    >>> TIMESTAMP.name
    'google.protobuf.Timestamp'
    """

    __slots__ = ("__weakref__", "_hash", "closed", "kind", "name", "params", "parts")

    kind: Kind
    name: str
    params: tuple[Type, ...]
    #: Whether there is no type parameter inside.
    closed: bool
    #: How many types it is written with, itself included.
    parts: int
    _hash: int

    def __new__(cls, kind: Kind, name: str, params: tuple[Type, ...] = ()) -> Type:
        # One object per type: equal types are identical, so deep ones compare at once.
        key = (kind, name, params)
        found = _KNOWN.get(key)
        if found is None:
            parts = 1 + sum([part.parts for part in params])
            if parts > MOST_PARTS:
                raise TypeTooLarge(f"a type has more than {MOST_PARTS} parts")
            found = super().__new__(cls)
            found.kind = kind
            found.parts = parts
            found.name = name
            found.params = params
            found.closed = kind is not Kind.PARAM and all(part.closed for part in params)
            found._hash = hash(key)
            found = _KNOWN.setdefault(key, found)
        return found

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Type], tuple[Kind, str, tuple[Type, ...]]]:
        return Type, (self.kind, self.name, self.params)

    def __str__(self) -> str:
        if self.kind is Kind.TIMESTAMP:
            return "timestamp"
        if self.kind is Kind.DURATION:
            return "duration"
        if self.kind is Kind.NULL:
            return "null"
        if self.kind is Kind.WRAPPER:
            return f"wrapper({self.params[0]})"
        if self.params:
            return f"{self.name}({', '.join(map(str, self.params))})"
        return self.name

    def __repr__(self) -> str:
        return f"<Type {self}>"


BOOL: Final = Type(Kind.BOOL, "bool")
INT: Final = Type(Kind.INT, "int")
UINT: Final = Type(Kind.UINT, "uint")
DOUBLE: Final = Type(Kind.DOUBLE, "double")
STRING: Final = Type(Kind.STRING, "string")
BYTES: Final = Type(Kind.BYTES, "bytes")
NULL: Final = Type(Kind.NULL, "null_type")
DURATION: Final = Type(Kind.DURATION, "google.protobuf.Duration")
TIMESTAMP: Final = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
DYN: Final = Type(Kind.DYN, "dyn")
ANY: Final = Type(Kind.ANY, "any")
ERROR: Final = Type(Kind.ERROR, "!error!")
#: The type of types without saying of which; `type(int)` is `type_of_type(INT)`.
TYPE: Final = Type(Kind.TYPE, "type")


def list_of(element: Type) -> Type:
    """The type of lists of *element*."""
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """The type of maps from *key* to *value*."""
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """The type of optional *value*s."""
    return Type(Kind.OPTIONAL, "optional_type", (value,))


def type_of_type(of: Type) -> Type:
    """The type of the type value *of*: what the checker gives the identifier `int`."""
    return Type(Kind.TYPE, "type", (of,))


def wrapper(of: Type) -> Type:
    """The nullable form of a primitive type."""
    return Type(Kind.WRAPPER, of.name, (of,))


def opaque(name: str, *params: Type) -> Type:
    """A library's own type, e.g. `kubernetes.Semver`."""
    return Type(Kind.OPAQUE, name, params)


def object_named(name: str) -> Type:
    """A type with named fields, declared by the environment."""
    return Type(Kind.OBJECT, name)


def param(name: str) -> Type:
    """A type parameter of an overload: `param("A")`."""
    return Type(Kind.PARAM, name)


A: Final = param("A")
B: Final = param("B")
K: Final = param("K")
V: Final = param("V")
T: Final = param("T")
LIST_OF_A: Final = list_of(A)
MAP_OF_A_B: Final = map_of(A, B)
LIST_OF_DYN: Final = list_of(DYN)
MAP_OF_DYN: Final = map_of(DYN, DYN)


class Node:
    """A node of a syntax tree (weir.cel.ast): number, position, checked type."""

    __slots__ = ("id", "pos", "type")

    def __init__(self, id: int, pos: int) -> None:
        self.id = id
        self.pos = pos
        self.type: Type = DYN
