"""The default class among several marked by annotation, for storage and ingress classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def newest_marked(classes: Iterable[Mapping[str, Any]], *annotations: str) -> Mapping[str, Any] | None:
    """Return, of the classes with one of *annotations* set to "true", the newest, then the first by name.

    >>> newest_marked([{"metadata": {"name": "a", "annotations": {"x": "true"}}}], "x")["metadata"]["name"]
    'a'
    """
    marked = [
        one
        for one in classes
        if any((one["metadata"].get("annotations") or {}).get(name) == "true" for name in annotations)
    ]
    marked.sort(key=lambda one: one["metadata"]["name"])
    marked.sort(key=lambda one: one["metadata"].get("creationTimestamp") or "", reverse=True)
    return marked[0] if marked else None
