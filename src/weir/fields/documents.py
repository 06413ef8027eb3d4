"""Checks of documents from files before their rules: JSON types, unknown fields and kinds, with suggestions.

Spec: apiserver.md 2 "Decoding". The API server decodes before it validates, so validators rely on types: each wrong
type is one FieldError, and no other rule runs. The server drops an unknown field or, under strict validation (kubectl's
default), rejects the object with `strict decoding error: unknown field "spec.tolerations[0].efect"`: here a FieldError
with the field that was probably meant. A kind that weir does not have may be a custom kind: only one close to a known
kind is an error.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

from weir.caches import bounded
from weir.fields.field import Errors, FieldError, invalid, type_invalid, unknown
from weir.objects import kinds, schema
from weir.values.quantity import QuantityError, parse_quantity

_BITS: Final = {"int": 64, "int64": 64, "int32": 32, "int16": 16, "int8": 8}
_UNSIGNED: Final = {"uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8}
_LONGEST_SHOWN: Final = 60


def validate_shape(document: Any) -> Errors:
    """Yield every value of *document* that has another JSON type than its field."""
    for count, error in enumerate(_validate_root(document)):
        if count >= _MOST_ERRORS:
            return
        yield error


def document_version(document: dict[str, Any]) -> str:
    """Return the apiVersion of a document; one that has none is read as the first version that serves its kind.

    >>> document_version({"kind": "Deployment"})
    'apps/v1'
    """
    version, kind = document.get("apiVersion"), document.get("kind")
    if version or not kind:
        return str(version or "")
    return next((row.api_version for row in kinds.KINDS if row.kind == kind), "")


def _validate_root(document: Any) -> Errors:
    if not isinstance(document, dict):
        yield _wrong("<root>", document, "an object")
        return
    for name in ("apiVersion", "kind"):
        if not isinstance(document.get(name), str | None):
            yield _wrong(name, document[name], "a string")
            return
    root = schema.find_root(document_version(document), document.get("kind") or "")
    if root is not None:
        yield from _validate_struct(document, root, "")
    elif (meta := document.get("metadata")) is not None:
        yield from _validate_value(
            meta, schema.Shape("struct", "", True, None, "meta.v1.ObjectMeta"), "metadata"
        )


def _validate_struct(value: dict[Any, Any], struct: schema.Struct, at: str) -> Errors:
    for name, item in value.items():
        if not isinstance(name, str):
            yield _wrong(at or "<root>", name, "an object whose keys are strings")
        elif item is not None and (field := struct.fields.get(name)) is not None:
            yield from _validate_value(item, field.shape, f"{at}.{name}" if at else name)


def _validate_value(value: Any, shape: schema.Shape, at: str) -> Errors:
    kind = shape.kind
    if kind == "struct":
        if isinstance(value, dict):
            yield from _validate_struct(value, schema.struct(shape.struct_name), at)
        else:
            yield _wrong(at, value, "an object")
    elif kind == "list":
        yield from _validate_list(value, shape, at)
    elif kind == "map":
        yield from _validate_map(value, shape, at)
    elif kind == "Quantity":
        yield from _validate_quantity(value, at)
    elif expected := _scalar_problem(value, kind):
        yield _wrong(at, value, expected)


def _validate_list(value: Any, shape: schema.Shape, at: str) -> Errors:
    if not isinstance(value, list):
        yield _wrong(at, value, "a list")
        return
    assert shape.item is not None
    for i, item in enumerate(value):
        if item is None:
            yield _wrong(f"{at}[{i}]", item, _article(shape.item))
        else:
            yield from _validate_value(item, shape.item, f"{at}[{i}]")


def _validate_map(value: Any, shape: schema.Shape, at: str) -> Errors:
    if not isinstance(value, dict):
        yield _wrong(at, value, "an object")
        return
    assert shape.item is not None
    for key, item in value.items():
        if not isinstance(key, str):
            yield _wrong(at, key, "an object whose keys are strings")
        elif item is None:
            yield _wrong(f"{at}[{key}]", item, _article(shape.item))
        else:
            yield from _validate_value(item, shape.item, f"{at}[{key}]")


def _validate_quantity(value: Any, at: str) -> Errors:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        yield _wrong(at, value, "a quantity")
        return
    try:
        # The sum of a quantity and its kin must stay printable: amounts beyond any machine are refused too.
        parse_quantity(value if isinstance(value, str) else str(value)).milli_value  # noqa: B018
    except QuantityError as error:
        yield type_invalid(at, _shown(value), str(error))


def _scalar_problem(value: Any, kind: str) -> str:
    """Return what *value* should have been, or "" when it is that."""
    if kind == "string":
        return "" if isinstance(value, str) else "a string"
    if kind == "bool":
        return "" if isinstance(value, bool) else "a boolean"
    if kind in _BITS or kind in _UNSIGNED:
        if isinstance(value, bool) or not isinstance(value, int):
            return "an integer"
        bits = _BITS.get(kind)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if bits else (0, (1 << _UNSIGNED[kind]) - 1)
        return "" if low <= value <= high else f"an integer between {low} and {high}"
    if kind == "float64":
        return "" if isinstance(value, int | float) and not isinstance(value, bool) else "a number"
    if kind == "IntOrString":
        fine = isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
        return "" if fine else "an integer or a string"
    if kind in ("Time", "MicroTime"):
        return "" if isinstance(value, str | datetime.date) else "a time"
    if kind in ("Duration", "bytes"):
        return "" if isinstance(value, str | bytes) else "a string"
    if kind == "FieldsV1":
        return "" if isinstance(value, dict) else "an object"
    return ""  # RawExtension and any: whatever is there


def _article(shape: schema.Shape) -> str:
    return {"struct": "an object", "list": "a list", "map": "an object", "bool": "a boolean"}.get(
        shape.kind, "a value" if shape.kind not in ("string",) else "a string"
    )


def _wrong(at: str, value: Any, expected: str) -> Any:
    return type_invalid(at, _shown(value), f"must be {expected}, not {_kind_of(value)}")


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list | tuple | set):
        return "a list"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def _shown(value: Any) -> Any:
    """Return *value* as a message can print it on one short line."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        text = str(value) if -(10**_LONGEST_SHOWN) < value < 10**_LONGEST_SHOWN else "a huge number"
        return value if len(text) <= _LONGEST_SHOWN and text not in ("nan", "inf", "-inf") else text
    if isinstance(value, list | tuple | set):
        return f"list of {len(value)}"
    if isinstance(value, dict):
        return f"object of {len(value)}"
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


#: A document of nonsense says no more in a thousand errors than in the first few.
_MOST_ERRORS: Final = 50
#: Closer than this, a kind of the same version is taken for the one that was meant.
_SURE: Final = 0.8
_NESTED: Final = frozenset({"struct", "list", "map"})

Path = tuple[str | int, ...]  #: keys and positions that lead to a field


def validate_fields(document: Any) -> Errors:
    """Yield every field of *document* that its kind does not have.

    >>> [str(error) for error in validate_fields({"kind": "Pod", "spec": {"tolerations": [{"efect": "NoExecute"}]}})]
    ['spec.tolerations[0].efect: strict decoding error: unknown field: did you mean "effect"?']
    """
    for path, meant in find_unknown_fields(document):
        yield unknown(show_path(path), f'did you mean "{meant}"?' if meant else "")


def find_unknown_fields(document: Any) -> Iterator[tuple[Path, str]]:
    """Yield the path of every field that the kind does not have, and the field that was probably meant or ""."""
    kind = document.get("kind") if isinstance(document, dict) else None
    version = document.get("apiVersion") if isinstance(document, dict) else None
    if not isinstance(kind, str) or not isinstance(version, str | None):
        return
    root = schema.find_root(document_version(document), kind)
    if root is not None:
        yield from islice(_struct(document, root, ()), _MOST_ERRORS)


def _struct(value: dict[Any, Any], struct: schema.Struct, at: Path) -> Iterator[tuple[Path, str]]:
    fields = struct.fields
    for name, item in value.items():
        field = fields.get(name)
        if field is None:
            if isinstance(name, str):
                yield (*at, name), closest(name, fields)
        elif item.__class__ in (dict, list) and field.shape.kind in _NESTED:
            yield from _value(item, field.shape, (*at, name))


def _value(value: Any, shape: schema.Shape, at: Path) -> Iterator[tuple[Path, str]]:
    if shape.kind == "struct":
        if isinstance(value, dict):
            yield from _struct(value, schema.struct(shape.struct_name), at)
        return
    assert shape.item is not None
    if shape.item.kind not in _NESTED:
        return
    if shape.kind == "list" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _value(item, shape.item, (*at, index))
    elif shape.kind == "map" and isinstance(value, dict):
        for key, item in value.items():
            yield from _value(item, shape.item, (*at, str(key)))


def show_path(path: Path) -> str:
    """Return *path* as the API server writes it.

    >>> show_path(("spec", "tolerations", 0, "value"))
    'spec.tolerations[0].value'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the word of *known* that was probably meant, or "".

    >>> closest("gt", ["Equal", "Exists", "Lt", "Gt"])
    'Gt'
    """
    words = list(known)
    for each in words:
        if each.casefold() == word.casefold():
            return each
    return next(iter(get_close_matches(word[:200], words, n=1, cutoff=cutoff)), "")


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────


def is_known_kind(api_version: str, kind: str) -> bool:
    """Return whether weir can check objects of this kind."""
    return schema.find_root(api_version, kind) is not None


@bounded(256)
def find_kind_problem(api_version: str, kind: str) -> FieldError | None:
    """Return the error of an unknown kind: a misspelling, or a version that does not have it; else None.

    >>> print(find_kind_problem("apps/v1", "Deploymnet"))
    kind: Invalid value: "Deploymnet": no matches for kind "Deploymnet" in version "apps/v1": did you mean Deployment?
    """
    if is_known_kind(api_version, kind):
        return None
    no_match = f'no matches for kind "{kind}" in version "{api_version}"'
    of_version = [row.kind for row in kinds.KINDS if row.api_version == api_version]
    if meant := closest(kind, of_version, _SURE):
        return invalid("kind", kind, f"{no_match}: did you mean {meant}?")
    versions = list(dict.fromkeys(row.api_version for row in kinds.KINDS if row.kind == kind))
    group = api_version.rpartition("/")[0]
    same_group = [version for version in versions if version.rpartition("/")[0] == group]
    if same_group or (versions and ("." not in group or group.endswith(".k8s.io"))):
        meant = closest(api_version, same_group or versions, 0.0) or versions[0]
        return invalid("apiVersion", api_version, f"{no_match}: did you mean {meant}?")
    known = {row.api_version for row in kinds.KINDS}
    if versions and api_version not in known and (meant := closest(api_version, known, _SURE)):
        return invalid("apiVersion", api_version, f"{no_match}: did you mean {meant}?")
    return None
