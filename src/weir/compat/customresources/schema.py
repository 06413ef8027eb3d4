"""`openAPIV3Schema` of a definition, parsed into a tree.

Kubernetes' meaning of keywords: `nullable` beside the type, `x-kubernetes-int-or-string` instead of one, formats only
with their type, `metadata` of the object and of embedded ones validated elsewhere.

Names of the validated string formats, without dashes; the checks (.formats) import CEL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from weir.values.quoting import compact_json, quote

Document = Mapping[str, Any]

_NUMERIC_FORMATS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


FORMAT_NAMES: Final = frozenset(
    [
        "bsonobjectid",
        "byte",
        "cidr",
        "creditcard",
        "date",
        "datetime",
        "duration",
        "email",
        "hexcolor",
        "hostname",
        "ipv4",
        "ipv6",
        "isbn",
        "isbn10",
        "isbn13",
        "k8slongname",
        "k8sshortname",
        "mac",
        "password",
        "rgbcolor",
        "ssn",
        "uri",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
    ]
)


class SchemaError(ValueError):
    """A schema that no API server would take; the message says where and why."""


def _hashable(value: Any) -> Any:
    """Return what is equal for equal JSON values, and only for these; true is not 1."""
    if isinstance(value, list):
        return "list", tuple(map(_hashable, value))
    if isinstance(value, Mapping):
        return "map", frozenset((key, _hashable(one)) for key, one in value.items())
    return isinstance(value, bool), value


class Enum(tuple[Any, ...]):
    """The values that an enum allows. A list of thousands of items is held against thousands of them."""

    @cached_property
    def _allowed(self) -> frozenset[Any]:
        return frozenset(map(_hashable, self))

    def allows(self, value: Any) -> bool:
        """Return whether *value* is one of them; true is not 1.

        >>> Enum([1, "a"]).allows(1.0), Enum([1]).allows(True), Enum([[1]]).allows([1]), Enum([[1]]).allows([True])
        (True, False, True, False)
        """
        try:
            return _hashable(value) in self._allowed
        except RecursionError:  # deeper than any value that a definition may name
            return False

    @cached_property
    def detail(self) -> str:
        """What an error says of them, one text for all errors."""
        listed = (quote(one if isinstance(one, str) else compact_json(one)) for one in self)
        return f"supported values: {', '.join(listed)}"


NO_ENUM: Final = Enum()


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of one value. What a keyword forbids is None, empty or False where it is not given."""

    types: tuple[str, ...] = ()
    format: str = ""
    nullable: bool = False
    properties: Mapping[str, Schema] = field(default_factory=dict)
    #: of keys that are not properties; True and None allow any value
    additional: Schema | bool | None = None
    items: Schema | None = None
    required: tuple[str, ...] = ()
    enum: Enum = NO_ENUM
    all_of: tuple[Schema, ...] = ()
    any_of: tuple[Schema, ...] = ()
    one_of: tuple[Schema, ...] = ()
    negated: Schema | None = None
    #: maximum, minLength, pattern …: what needs nothing but the value
    bounds: Mapping[str, Any] = field(default_factory=dict)
    preserves_unknown: bool = False
    embedded: bool = False
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    map_type: str = ""
    default: Any = None
    #: whether a default stands here or below, outside of allOf and its like
    has_defaults: bool = False
    #: whether a resource is embedded here or below
    has_embedded: bool = False
    rules: tuple[Document, ...] = ()


_BOUNDS: Final = (
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "maxProperties",
    "minProperties",
)


def has_rules(schema: Schema) -> bool:
    """Return whether rules stand in *schema* or below."""
    below = (*schema.properties.values(), schema.additional, schema.items)
    return bool(schema.rules) or any(isinstance(one, Schema) and has_rules(one) for one in below)


def read_schema(found: Any, at: str = "openAPIV3Schema") -> Schema:
    """Return the tree of a schema document.

    >>> read_schema({"type": "object", "properties": {"n": {"type": "integer"}}}).properties["n"].types
    ('integer',)
    """
    if not isinstance(found, Mapping):
        raise SchemaError(f"{at} must be an object")
    types = _types(found, at)
    properties = found.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise SchemaError(f"{at}.properties must be an object")
    additional, items = found.get("additionalProperties"), found.get("items")
    negated = found.get("not")
    below = {str(name): read_schema(one, f"{at}.properties[{name}]") for name, one in properties.items()}
    more = (
        additional
        if additional is None or isinstance(additional, bool)
        else read_schema(additional, f"{at}.additionalProperties")
    )
    each = None if items is None else read_schema(items, f"{at}.items")
    nested = [*below.values(), *((more,) if isinstance(more, Schema) else ()), *((each,) if each else ())]
    default = found.get("default")
    return Schema(
        types=types,
        format=known_format(types[0] if len(types) == 1 else "", found.get("format") or ""),
        nullable=found.get("nullable") is True,
        properties=below,
        additional=more,
        items=each,
        required=tuple(found.get("required") or ()),
        enum=Enum(found.get("enum") or ()),
        all_of=_several(found, "allOf", at),
        any_of=_several(found, "anyOf", at),
        one_of=_several(found, "oneOf", at),
        negated=None if negated is None else read_schema(negated, f"{at}.not"),
        bounds={name: found[name] for name in _BOUNDS if found.get(name) is not None},
        preserves_unknown=found.get("x-kubernetes-preserve-unknown-fields") is True,
        embedded=found.get("x-kubernetes-embedded-resource") is True,
        list_type=found.get("x-kubernetes-list-type") or "",
        map_keys=tuple(found.get("x-kubernetes-list-map-keys") or ()),
        map_type=found.get("x-kubernetes-map-type") or "",
        default=default,
        has_defaults=default is not None or any(one.has_defaults for one in nested),
        has_embedded=found.get("x-kubernetes-embedded-resource") is True
        or any(one.has_embedded for one in nested),
        rules=tuple(found.get("x-kubernetes-validations") or ()),
    )


def _types(found: Document, at: str) -> tuple[str, ...]:
    if found.get("x-kubernetes-int-or-string") is True:
        return ("integer", "string")
    kind = found.get("type") or ""
    if not isinstance(kind, str):
        raise SchemaError(f"{at}.type must be a string")
    return (kind,) if kind else ()


def known_format(kind: str, name: str) -> str:
    """Return the format where the type has it: others are taken as if they were not there.

    >>> known_format("string", "date-time"), known_format("integer", "date"), known_format("integer", "int32")
    ('datetime', '', 'int32')
    """
    if kind in ("", "string"):
        return name.replace("-", "") if name.replace("-", "") in FORMAT_NAMES else ""
    return name if name in _NUMERIC_FORMATS.get(kind, ()) else ""


def _several(found: Document, name: str, at: str) -> tuple[Schema, ...]:
    return tuple(read_schema(one, f"{at}.{name}[{i}]") for i, one in enumerate(found.get(name) or ()))
