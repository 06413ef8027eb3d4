"""JSON Merge Patch: an object merged over the document; null removes.

Spec: RFC 7386; apiserver.md 7 "Patch" (`invalid JSON patch`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from weir.errors import BadRequest
from weir.objects.document import copied
from weir.objects.jsontext import may_be_too_deep, too_deep


def patch(document: dict[str, Any], body: bytes) -> dict[str, Any]:
    """Return *document* with the merge patch of *body* applied; the argument stays as it is.

    >>> patch({"a": {"b": 1, "c": 2}, "d": [1]}, b'{"a": {"b": null}, "d": [2]}')
    {'a': {'c': 2}, 'd': [2]}
    """
    try:
        overlay = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise BadRequest("invalid JSON patch") from None
    if overlay is None:
        raise BadRequest("Invalid JSON Patch")  # said by the merging library, which likes capitals
    if may_be_too_deep(body) and too_deep(overlay):
        raise BadRequest("invalid JSON patch")
    if not isinstance(overlay, dict):
        word = {list: "array", str: "string", bool: "bool"}.get(type(overlay), "number")
        go = "Go value of type map[string]interface {}"
        raise BadRequest(f"error decoding patch: json: cannot unmarshal {word} into {go}")
    merged: dict[str, Any] = merge(copied(document), overlay)
    return merged


def merge(target: Any, overlay: Any) -> Any:
    """Return *overlay* laid over *target*, which it may change."""
    if not isinstance(target, dict):
        return _without_nulls(overlay)
    if not isinstance(overlay, dict):
        return overlay
    for key, value in overlay.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict | list):
            target[key] = merge(target.get(key), value)
        else:
            target[key] = value
    return target


def _without_nulls(value: Any) -> Any:
    """Return what a new value leaves behind: no null fields, also not in objects inside lists."""
    if isinstance(value, dict):
        return {
            key: _without_nulls(item) if isinstance(item, dict | list) else item
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
