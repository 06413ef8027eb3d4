"""CEL types declared by a schema, for `x-kubernetes-validations`.

Spec: upstream's declaration types. Objects have the fields of their schema (`metadata` has name and generateName),
formatted strings have the format's type, int-or-string is dyn; fields without a schema are left out. Each type
carries its maximum size for the cost estimate, bounded by the largest request where the schema sets none. Names that
are no CEL identifiers are escaped (`a-b` is `a__dash__b`) or left out; CEL keywords can be written both ways
(`self.namespace`, `self.__namespace__`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weir.cel import types
from weir.cel.env import Env, ObjectType
from weir.cel.library import KUBERNETES
from weir.cel.types import Type
from weir.cel.values import Duration, Timestamp, Value
from weir.compat.customresources.schema import Schema
from weir.values.duration import DurationError, parse_duration
from weir.values.timestamp import parse_zoned

REQUEST_BYTES: Final = 3 * 1024 * 1024
NAME_BYTES: Final = 253
_STRING_BYTES, _BOOL_BYTES, _NUMBER_BYTES = 2, 4, 1
#: format → type, smallest and largest size as JSON; None: as large as a request
_FORMATS: Final[Mapping[str, tuple[Type, int, int | None]]] = {
    "byte": (types.BYTES, _STRING_BYTES, None),
    "duration": (types.DURATION, 3, 32),
    "date": (types.TIMESTAMP, 12, 12),
    "datetime": (types.TIMESTAMP, 21, 32),
}
_RESERVED: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_KEPT: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ODD: Final = re.compile(r"__|[^a-zA-Z0-9_]")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


@dataclass(frozen=True, slots=True)
class Declared:
    """The type of a value, and how large it can be."""

    type: Type
    most: int = 0  #: characters, items or entries
    least: int = 0  #: bytes of the smallest value as JSON
    fields: Mapping[str, Declared] = field(default_factory=dict)  #: by escaped name
    item: Declared | None = None
    key: Declared | None = None


def escape(name: str) -> str | None:
    """Return the identifier that stands for a field, None when there is none.

    >>> escape("replicas"), escape("a-b"), escape("namespace"), escape("9")
    ('replicas', 'a__dash__b', '__namespace__', None)
    """
    if not name or name[0].isdigit():
        return None
    if name in _RESERVED:
        return f"__{name}__"
    if _KEPT.fullmatch(name) and "__" not in name:
        return name
    odd = _ODD.findall(name)
    return _ODD.sub(lambda found: _ESCAPES[found[0]], name) if all(one in _ESCAPES for one in odd) else None


def with_metadata(schema: Schema) -> Schema:
    """Return the schema of a resource with apiVersion, kind and metadata names always declared."""
    known = schema.properties.get("metadata") or Schema()
    text = Schema(("string",))

    def capped(name: str, most: int) -> Schema:
        given = (known.properties.get(name) or Schema()).bounds.get("maxLength")
        return Schema(("string",), bounds={"maxLength": most if given is None else min(most, given)})

    names = {"name": capped("name", NAME_BYTES), "generateName": capped("generateName", NAME_BYTES - 1)}
    metadata = Schema(("object",), properties=names)
    properties = {**schema.properties, "kind": text, "apiVersion": text, "metadata": metadata}
    return replace(schema, properties=properties)


def declare(schema: Schema, name: str, objects: list[ObjectType], *, root: bool = False) -> Declared | None:
    """Return what *schema* declares, None when nothing can be said of it; types of objects are added to *objects*.

    >>> found = declare(Schema(("array",), items=Schema(("integer",)), bounds={"maxItems": 5}), "self", [])
    >>> str(found.type), found.most
    ('list(int)', 5)
    """
    if schema.types == ("integer", "string"):
        longest = schema.bounds.get("maxLength")
        return Declared(types.DYN, REQUEST_BYTES - 2 if longest is None else max(longest, 0) * 4, 1)
    kind = schema.types[0] if schema.types else ""
    if root:
        schema = with_metadata(schema)
    if kind == "array":
        return _list(schema, name, objects)
    if kind == "object":
        if isinstance(schema.additional, Schema):
            return _map(schema, schema.additional, name, objects)
        return _object(schema, name, objects)
    if kind == "string":
        return _string(schema)
    scalars = {
        "boolean": Declared(types.BOOL, 0, _BOOL_BYTES),
        "number": Declared(types.DOUBLE, 0, _NUMBER_BYTES),
        "integer": Declared(types.INT, 0, _NUMBER_BYTES),
    }
    return scalars.get(kind)


def _list(schema: Schema, name: str, objects: list[ObjectType]) -> Declared | None:
    if schema.items is None:
        return None
    item = declare(schema.items, f"{name}.@idx", objects, root=schema.items.embedded)
    if item is None:
        return None
    most = schema.bounds.get("maxItems")
    most = (REQUEST_BYTES - 2) // (item.least + 1) if most is None else max(most, 0)
    return Declared(types.list_of(item.type), most, 2, item=item)


def _map(schema: Schema, values: Schema, name: str, objects: list[ObjectType]) -> Declared | None:
    value = declare(values, f"{name}.@elem", objects, root=values.embedded)
    if value is None:
        return None
    most = schema.bounds.get("maxProperties")
    most = (REQUEST_BYTES - 2) // (value.least + 6) if most is None else max(most, 0)
    key = Declared(types.STRING, 0, _STRING_BYTES)
    return Declared(types.map_of(types.STRING, value.type), most, 2, item=value, key=key)


def _object(schema: Schema, name: str, objects: list[ObjectType]) -> Declared:
    fields: dict[str, Declared] = {}
    least = 2
    for field_name, one in schema.properties.items():
        escaped = escape(field_name)
        inner = declare(one, f"{name}.{escaped or field_name}", objects, root=one.embedded)
        if inner is None:
            continue
        if escaped is not None:
            fields[escaped] = inner
        if field_name in schema.required and one.default is None:
            least += len(field_name.encode()) + inner.least + 4
    named = {field_name: inner.type for field_name, inner in fields.items()}
    # how large they can be is known under their escaped names only, as upstream has it
    named |= {
        word: named[f"__{word}__"] for word in schema.properties.keys() & _RESERVED if f"__{word}__" in named
    }
    of = ObjectType(name, named, mapped=True)
    objects.append(of)
    return Declared(of.type, 0, least, fields)


def _string(schema: Schema) -> Declared:
    longest = schema.bounds.get("maxLength")
    if schema.format in _FORMATS:
        kind, least, most = _FORMATS[schema.format]
        if schema.format == "byte" and longest is not None:
            most = max(longest, 0)
        return Declared(kind, REQUEST_BYTES - 2 if most is None else most, least)
    if longest is not None:
        return Declared(types.STRING, max(longest, 0) * 4, _STRING_BYTES)
    if schema.enum:
        sizes = [len(one.encode()) for one in schema.enum if isinstance(one, str)]
        return Declared(types.STRING, max(sizes, default=0), _STRING_BYTES)
    return Declared(types.STRING, REQUEST_BYTES - 2, _STRING_BYTES)


class _Sizes(Mapping[tuple[str, ...], int]):
    """How large what lies at a path can be; the first name of a path is the variable's."""

    def __init__(self, root: Declared) -> None:
        self._root = root

    def __getitem__(self, path: tuple[str, ...]) -> int:
        found: Declared | None = self._root
        for name in path[1:]:
            if found is None:
                break
            if name in ("@items", "@values"):
                found = found.item
            elif name == "@keys":
                found = found.key
            else:
                found = found.fields.get(name)
        if found is None:
            raise KeyError(path)
        return found.most

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter((("self",),))

    def __len__(self) -> int:
        return 1


def environment(declared: Declared, objects: tuple[ObjectType, ...], *, optional_old: bool) -> Env:
    """Return what the rules of one place in a schema are compiled against."""
    old = types.optional_of(declared.type) if optional_old else declared.type
    return Env(KUBERNETES, {"self": declared.type, "oldSelf": old}, objects, _Sizes(declared))


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def to_value(value: Any, schema: Schema, *, root: bool = False) -> Value:
    """Return *value* as CEL sees it: fields under their identifiers, strings as their formats say.

    >>> to_value({"a-b": 1, "n": 2, "x": 0}, Schema(("object",), properties={"a-b": Schema(("integer",)),
    ...          "n": Schema(("number",))}))
    {'a__dash__b': 1, 'n': 2.0}
    """
    if root:
        schema = with_metadata(schema)
    if isinstance(value, dict):
        if isinstance(schema.additional, Schema):
            inner = schema.additional
            return {key: to_value(item, inner, root=inner.embedded) for key, item in value.items()}
        made: dict[str, Value] = {}
        for key, item in value.items():
            one = schema.properties.get(key)
            if one is not None and (escaped := escape(key)) is not None:
                made[escaped] = to_value(item, one, root=one.embedded)
                if key in _RESERVED:
                    made[key] = made[escaped]
        return made
    if isinstance(value, list):
        item_schema = schema.items
        if item_schema is None:
            return value
        return [to_value(item, item_schema, root=item_schema.embedded) for item in value]
    if value.__class__ is int and schema.types == ("number",):
        return float(value)
    if value.__class__ is str and schema.format in _FORMATS and schema.types == ("string",):
        return _formatted(value, schema.format)
    return value


def _formatted(text: str, form: str) -> Value:
    try:
        if form == "byte":
            return base64.b64decode(text)
        if form == "duration":
            return Duration(parse_duration(text))
        return Timestamp(*parse_zoned(text if form == "datetime" else f"{text}T00:00:00Z"))
    except (ValueError, DurationError):
        return text  # reported as an invalid value before any rule is evaluated
