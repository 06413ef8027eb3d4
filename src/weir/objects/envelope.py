"""Shape of what every object has: kind, apiVersion, metadata, spec and status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_TEXTS: Final = ("name", "generateName", "namespace", "uid", "resourceVersion")
_MAPPINGS: Final = ("labels", "annotations")


def mapping(value: Any) -> dict[str, Any]:
    """Return *value* if it is a mapping, else an empty one: for reading documents that may be malformed."""
    return value if isinstance(value, dict) else {}


def envelope_problem(document: Any) -> str | None:
    """Return what is wrong in the envelope of an object, or of an item of a List; None when all can be read.

    >>> envelope_problem({"kind": "Pod", "metadata": {"name": 5}})
    'Pod: metadata.name must be text'
    """
    return next(_problems(document), None)


def _problems(document: Any) -> Iterator[str]:
    if not isinstance(document, dict):
        yield "an object must be a mapping"
        return
    kind = document.get("kind")
    name = kind if isinstance(kind, str) else "object"
    for field in ("kind", "apiVersion"):
        if not isinstance(document.get(field), str | None):
            yield f"{name}: {field} must be text"
    items = document.get("items")
    if name.endswith("List") and isinstance(items, list):
        for item in items:
            yield from _problems(item)
        return
    yield from (f"{name}: {problem}" for problem in _parts(document))


def _parts(document: dict[str, Any]) -> Iterator[str]:
    for field in ("spec", "status", "metadata"):
        if not isinstance(document.get(field), dict | None):
            yield f"{field} must be a mapping"
            return
    metadata = document.get("metadata") or {}
    for field in _TEXTS:
        if not isinstance(metadata.get(field), str | None):
            yield f"metadata.{field} must be text"
    for field in _MAPPINGS:
        entries = metadata.get(field)
        if not isinstance(entries, dict | None):
            yield f"metadata.{field} must be a mapping"
        elif entries and not all(isinstance(value, str) for value in entries.values()):
            yield f"metadata.{field}: values must be text"
    owners = metadata.get("ownerReferences")
    if owners is not None and not (
        isinstance(owners, list) and all(isinstance(each, dict) for each in owners)
    ):
        yield "metadata.ownerReferences must be a list of mappings"
