"""JSON Patch: a list of operations, applied all or none.

Spec: RFC 6902; apiserver.md 7 "Patch" (a failed test, a missing path and an unknown operation are one 422 without
details, a body that is no list is a 400). As in the library the real server uses, `-1` counts from a list's end. A
webhook's patch fails with the library's own messages (`patch_of_webhook`).
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

import msgspec

from weir.errors import ApiError, BadRequest, InternalError, Invalid, RequestTooLarge
from weir.objects.document import copied
from weir.objects.jsontext import JsonError, Pairs, parse_json, plain
from weir.values.integer import IntegerError, parse_int64
from weir.values.quoting import quote

MOST_OPERATIONS: Final = 10_000
MOST_COPIED_BYTES: Final = 3 * 1024 * 1024
REJECTED: Final = "the server rejected our request due to an error in our request"
_GO_TYPE: Final = "[]handlers.jsonPatchOp"
_MISSING: Final = "missing value"
_INDEX: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class _Failed(Exception):
    """An operation that does not apply; the text is the library's."""


class _TestFailed(_Failed):
    """The value is another one."""


def patch(document: dict[str, Any], body: bytes) -> Any:
    """Return *document* after the operations of *body*; the argument stays as it is.

    >>> patch({"a": [1]}, b'[{"op": "add", "path": "/a/-", "value": 2}]')
    {'a': [1, 2]}
    """
    operations = _operations(body)
    try:
        return _applied(document, operations)
    except (_Failed, RecursionError):
        raise Invalid(REJECTED, details=ApiError.EMPTY) from None


def patch_of_webhook(document: dict[str, Any], body: bytes) -> Any:
    """Return *document* after a webhook's operations, a list of objects; raises InternalError with what went wrong."""
    try:
        return _applied(document, plain(parse_json(body)))
    except (_Failed, RecursionError) as error:
        raise InternalError(str(error)) from None


def patch_of_policy(document: dict[str, Any], operations: list[dict[str, Any]]) -> Any:
    """Return *document* after a policy's operations, as it was when a test fails; raises InternalError."""
    try:
        return _applied(document, operations)
    except _TestFailed:
        return document
    except (_Failed, RecursionError) as error:
        raise InternalError(str(error)) from None


def _applied(document: dict[str, Any], operations: list[dict[str, Any]]) -> Any:
    result: Any = copied(document)
    budget = _Budget()
    for operation in operations:
        result = _apply(result, operation, budget)
    return result


class _Budget:
    """What all copies of one patch may weigh: an object copied into itself doubles every time."""

    def __init__(self) -> None:
        self._left = MOST_COPIED_BYTES

    def copy(self, value: Any) -> Any:
        self._left -= len(msgspec.json.encode(value))
        if self._left < 0:
            weight = MOST_COPIED_BYTES - self._left
            raise _Failed(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{weight}, exceeding the limit {MOST_COPIED_BYTES}"
            )
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
    match operation.get("op"):
        case "add":
            path = _path(operation, "path", "add", _MISSING)
            missing = f"add operation does not apply: doc is missing path: {_quoted(path)}"
            _add(document, path, operation.get("value"), missing, f"error in add for path: '{path}'")
        case "remove":
            path = _path(operation, "path", "remove", _MISSING)
            container, token = _find(
                document, path, f"remove operation does not apply: doc is missing path: {_quoted(path)}"
            )
            _remove(container, token, f"error in remove for path: '{path}'")
        case "replace":
            return _replace(document, _path(operation, "path", "replace"), operation.get("value"))
        case "test":
            _test(document, _path(operation, "path", "test"), operation.get("value"))
        case "copy":
            source = _path(operation, "from", "copy")
            container, token = _find(
                document, source, f"copy operation does not apply: doc is missing from path: {source}"
            )
            value = _child(container, token, f"error in copy for from: '{source}'")
            path = _path(operation, "path", "copy", _MISSING)
            missing = f"copy operation does not apply: doc is missing destination path: {path}"
            _find(document, path, missing)
            _add(document, path, budget.copy(value), missing, "error while adding value during copy")
        case "move":
            source = _path(operation, "from", "move")
            container, token = _find(
                document, source, f"move operation does not apply: doc is missing from path: {source}"
            )
            problem = f"error in move for path: '{token}'"
            moved = _child(container, token, problem)
            _remove(container, token, problem)
            path = _path(operation, "path", "move")
            missing = f"move operation does not apply: doc is missing destination path: {path}"
            _add(document, path, moved, missing, f"error in move for path: '{path}'")
        case other:
            raise _Failed(f"Unexpected kind: {other if isinstance(other, str) else 'unknown'}")
    return document


def _quoted(path: str) -> str:
    return f'"{path}"'


def _path(operation: dict[str, Any], field: str, kind: str, problem: str = "") -> str:
    """Return where the operation points, or from where it takes."""
    path = operation.get(field)
    if isinstance(path, str):
        return path
    absent = f"operation missing {field} field: {_MISSING}"
    raise _Failed(f"{kind} operation failed to decode {field}: {problem or absent}")


def _find(document: Any, path: str, problem: str) -> tuple[Any, str]:
    """Return the container that *path* ends in and the last token; *problem* says that there is none."""
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]
    if not tokens:
        raise _Failed(f"{problem}: {_MISSING}")
    at = document
    for token in tokens[:-1]:
        at = _child(at, token, problem, _MISSING)
        if not isinstance(at, dict | list):
            raise _Failed(f"{problem}: {_MISSING}")
    return at, tokens[-1]


def _child(container: Any, token: str, problem: str, instead: str = "") -> Any:
    """Return the value at *token*; an absent key of an object reads as null."""
    if isinstance(container, dict):
        return container.get(token)
    return container[_index(token, len(container), problem, instead)]


def _index(token: str, length: int, problem: str, instead: str = "") -> int:
    if not _INDEX.fullmatch(token):
        raise _Failed(f"{problem}: {instead or f'strconv.Atoi: parsing {quote(token)}: invalid syntax'}")
    try:
        index = parse_int64(token)
    except IntegerError:
        raise _Failed(
            f"{problem}: {instead or f'strconv.Atoi: parsing {quote(token)}: value out of range'}"
        ) from None
    if not -length <= index < length:
        raise _Failed(
            f"{problem}: {instead or f'Unable to access invalid index: {index}: invalid index referenced'}"
        )
    return index


def _add(document: Any, path: str, value: Any, missing: str, problem: str) -> None:
    container, token = _find(document, path, missing)
    if isinstance(container, dict):
        container[token] = value
    elif token == "-":
        container.append(value)
    else:
        size = len(container) + 1
        if not _INDEX.fullmatch(token):
            problem = f"{problem}: value was not a proper array index: '{token}'"
        index = _index(token, size, problem)
        container.insert(index if index >= 0 else index + size, value)


def _replace(document: Any, path: str, value: Any) -> Any:
    """An absent key of an object is added, an absent item of a list is not."""
    if path == "":
        if not isinstance(value, dict | list):
            # the library formats an error that is not there
            raise _Failed("replace operation value must be object or array: %!w(<nil>)")
        return value
    container, token = _find(document, path, f"replace operation does not apply: doc is missing path: {path}")
    if isinstance(container, dict):
        container[token] = value
    else:
        problem = f"replace operation does not apply: doc is missing key: {path}"
        container[_index(token, len(container), problem, _MISSING)] = value
    return document


def _remove(container: Any, token: str, problem: str) -> None:
    if isinstance(container, dict):
        if token not in container:
            raise _Failed(f"{problem}: Unable to remove nonexistent key: {token}: {_MISSING}")
        del container[token]
    else:
        del container[_index(token, len(container), problem)]


def _test(document: Any, path: str, expected: Any) -> None:
    found = document
    if path != "":
        missing = f"test operation does not apply: is missing path: {path}"
        container, token = _find(document, path, missing)
        found = _child(container, token, f"error in test for path: '{path}'")
    if not _equal(found, expected):
        raise _TestFailed(f"testing value {path} failed: test failed")


def _equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same; true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
