"""Simple JSON paths to schema fields, such as `.spec.replicas` or `.data['a.b']`.

Spec: the simple JSON paths of `selectableFields` and of a rule's `fieldPath`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from weir.fields.field import Document

Step = tuple[str, bool]  #: a name, and whether it is a declared property (else a key of a map)

_TOKENS: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|(?:(?!^')[^.\[\]])+", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


class FieldPathError(ValueError):
    """A path that cannot be read, or that names no field of the schema."""


def find_field(schema: Document, path: str, *, arrays: bool = True) -> tuple[list[Step], Document | None]:
    """Return the steps of *path* and the schema it leads to; with *arrays* keys may stand in brackets.

    >>> find_field({"properties": {"spec": {"properties": {"n": {"type": "integer"}}}}}, ".spec.n")
    ([('spec', True), ('n', True)], {'type': 'integer'})
    """
    steps: list[Step] = []
    found: Document | None = schema
    tokens = iter(_TOKENS.findall(path))
    for token in tokens:
        if token == "[":
            if not arrays:
                raise FieldPathError("array notation is not allowed")
            key = _next(tokens)
            if len(key) < 2 or key[0] != "'" or key[-1] != "'":
                raise FieldPathError(f"expected single quoted string but got {key}")
            found = _step(found, _unescape(key[1:-1]), steps)
            if (end := _next(tokens)) != "]":
                raise FieldPathError(f"expected ] but got {end}")
        elif token == ".":
            found = _step(found, _next(tokens), steps)
        else:
            raise FieldPathError(f"expected [ or . but got: {token}")
    return steps, found


def _next(tokens: object) -> str:
    try:
        token: str = next(tokens)  # type: ignore[call-overload]
    except StopIteration:
        raise FieldPathError("unexpected end of JSON path") from None
    return token


def _unescape(text: str) -> str:
    for found in _ESCAPE.finditer(text):
        if found[1] not in "'\\":
            raise FieldPathError("invalid string literal: invalid escape sequence")
    return _ESCAPE.sub(r"\1", text)


def _step(schema: Document | None, name: str, steps: list[Step]) -> Document | None:
    if schema is None:
        raise FieldPathError("does not refer to a valid field")
    if schema.get("properties") is not None:
        child: Document | None = schema["properties"].get(name)
        if child is None:
            raise FieldPathError("does not refer to a valid field")
        steps.append((name, True))
        return child
    additional = schema.get("additionalProperties")
    if additional is None:
        raise FieldPathError("does not refer to a valid field")
    steps.append((name, False))
    return additional if isinstance(additional, dict) else None


def show_steps(steps: list[Step]) -> str:
    """Return steps as a field path prints.

    >>> show_steps([("spec", True), ("data", True), ("a.b", False)])
    'spec.data[a.b]'
    """
    text = ""
    for name, named in steps:
        text += (f".{name}" if text else name) if named else f"[{name}]"
    return text


def find_at(document: Any, path: str) -> Any:
    """Return what lies at a dotted path, None when nothing does.

    >>> find_at({"spec": {"replicas": 3}}, ".spec.replicas")
    3
    """
    for name in path.removeprefix(".").split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document
