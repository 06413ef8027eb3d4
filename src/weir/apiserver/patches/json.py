"""JSON Patch: a list of operations, all of them or none.

Spec: RFC 6902; apiserver.md 7 "Patch" (a failed test, a missing path and an unknown operation are one 422 without
details, a body that is no list is a 400). As in the library the real server uses, `-1` counts from a list's end.
Not here: merge patches (weir.apiserver.patches.merge).
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

import msgspec

from weir.errors import ApiError, BadRequest, Invalid, RequestTooLarge
from weir.objects.document import copied
from weir.objects.jsontext import JsonError, Pairs, parse_json, plain

__all__ = ["patch"]

MOST_OPERATIONS: Final = 10_000
MOST_COPIED_BYTES: Final = 3 * 1024 * 1024
REJECTED: Final = "the server rejected our request due to an error in our request"
_GO_TYPE: Final = "[]handlers.jsonPatchOp"
_INDEX: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class _Failed(Exception):
    """An operation that does not apply."""


def patch(document: dict[str, Any], body: bytes) -> Any:
    """Return *document* after the operations of *body*; the argument stays as it is.

    >>> patch({"a": [1]}, b'[{"op": "add", "path": "/a/-", "value": 2}]')
    {'a': [1, 2]}
    """
    operations = _operations(body)
    result: Any = copied(document)
    budget = _Budget()
    try:
        for operation in operations:
            result = _apply(result, operation, budget)
    except (_Failed, RecursionError):
        raise Invalid(REJECTED, details=ApiError.EMPTY) from None
    return result


class _Budget:
    """What all copies of one patch may weigh: an object copied into itself doubles every time."""

    def __init__(self) -> None:
        self._left = MOST_COPIED_BYTES

    def copy(self, value: Any) -> Any:
        self._left -= len(msgspec.json.encode(value))
        if self._left < 0:
            raise _Failed("copies too much")
        return copied(value)


def _operations(body: bytes) -> list[dict[str, Any]]:
    try:
        value = parse_json(body)
    except JsonError:
        raise BadRequest("invalid JSON patch") from None
    if value is None:
        return []
    if type(value) is not list:
        _wrong_type(value, "Go value of type " + _GO_TYPE)
    for item in value:
        if item is not None and type(item) is not Pairs:
            _wrong_type(item, "Go value of type handlers.jsonPatchOp")
        for key, field in item or ():
            if key in ("op", "path", "from") and field is not None and type(field) is not str:
                _wrong_type(field, f"Go struct field jsonPatchOp.{key} of type string")
    if len(value) > MOST_OPERATIONS:
        raise RequestTooLarge(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MOST_OPERATIONS}, got {len(value)}"
        )
    operations: list[dict[str, Any]] = [plain(item) if item is not None else {} for item in value]
    return operations


def _wrong_type(value: Any, into: str) -> NoReturn:
    if isinstance(value, bool):
        word = "bool"
    elif isinstance(value, int | float):
        word = "number"
    elif isinstance(value, str):
        word = "string"
    else:
        word = "object" if type(value) is Pairs else "array"
    raise BadRequest(f"error decoding patch: json: cannot unmarshal {word} into {into}")


def _apply(document: Any, operation: dict[str, Any], budget: _Budget) -> Any:
    path = operation.get("path")
    if not isinstance(path, str):
        raise _Failed("no path")
    match operation.get("op"):
        case "add":
            _add(document, path, operation.get("value"))
        case "remove":
            _remove(document, path)
        case "replace":
            return _replace(document, path, operation.get("value"))
        case "test":
            _test(document, path, operation.get("value"))
        case "copy":
            _add(document, path, budget.copy(_get(document, _source(operation))))
        case "move":
            source = _source(operation)
            moved = _get(document, source)
            _remove(document, source)
            _add(document, path, moved)
        case _:
            raise _Failed("unknown operation")
    return document


def _source(operation: dict[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise _Failed("no from")
    return source


def _find(document: Any, path: str) -> tuple[Any, str]:
    """Return the container that *path* ends in and the last token."""
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]
    if not tokens:
        raise _Failed("the document as a whole")
    at = document
    for token in tokens[:-1]:
        at = _child(at, token)
        if not isinstance(at, dict | list):
            raise _Failed("missing path")
    return at, tokens[-1]


def _child(container: Any, token: str) -> Any:
    """Return the value at *token*; an absent key of an object reads as null."""
    if isinstance(container, dict):
        return container.get(token)
    return container[_index(token, len(container))]


def _index(token: str, length: int) -> int:
    if not _INDEX.fullmatch(token):
        raise _Failed("not an index")
    index = int(token)
    if not -length <= index < length:
        raise _Failed("index out of bounds")
    return index


def _get(document: Any, path: str) -> Any:
    container, token = _find(document, path)
    return _child(container, token)


def _add(document: Any, path: str, value: Any) -> None:
    container, token = _find(document, path)
    if isinstance(container, dict):
        container[token] = value
    elif token == "-":
        container.append(value)
    else:
        size = len(container) + 1
        index = _index(token, size)
        container.insert(index if index >= 0 else index + size, value)


def _replace(document: Any, path: str, value: Any) -> Any:
    """An absent key of an object is added, an absent item of a list is not."""
    if path == "":
        if not isinstance(value, dict | list):
            raise _Failed("not a document")
        return value
    container, token = _find(document, path)
    if isinstance(container, dict):
        container[token] = value
    else:
        container[_index(token, len(container))] = value
    return document


def _remove(document: Any, path: str) -> None:
    container, token = _find(document, path)
    if isinstance(container, dict):
        if token not in container:
            raise _Failed("missing key")
        del container[token]
    else:
        del container[_index(token, len(container))]


def _test(document: Any, path: str, expected: Any) -> None:
    found = document if path == "" else _get(document, path)
    if not _equal(found, expected):
        raise _Failed("test failed")


def _equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same; true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
