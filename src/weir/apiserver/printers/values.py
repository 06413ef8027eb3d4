"""Formatting of table cells: ages, labels, selectors, containers, counts.

Spec: apiserver.md 11 "Tables", "Cells". An absent value prints as `<none>`, `<unset>`, `<unknown>` or nothing,
depending on the column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from weir.selectors import labels

Document = Mapping[str, Any]
Cells = list[Any]
NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"


def human_duration(seconds: float) -> str:
    """Return a duration as short as kubectl prints it.

    >>> [human_duration(s) for s in (0, 119, 300, 11_520, 183_600, 40_000_000)]
    ['0s', '119s', '5m', '3h12m', '2d3h', '462d']
    """
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    if total < 120:
        return f"{total}s"
    minutes = total // 60
    if minutes < 10:
        return f"{minutes}m{total % 60}s" if total % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if hours < 24 * 365 * 2:
        return f"{days}d"
    years = days // 365
    if years < 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"


def since(text: str | None, now: float) -> str:
    if not text:
        return UNKNOWN
    try:
        return human_duration(now - datetime.fromisoformat(text).timestamp())
    except ValueError:
        return UNKNOWN


def at(document: Any, *path: str) -> Any:
    for name in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(name)
    return document


def age(document: Document, now: float) -> str:
    return since(at(document, "metadata", "creationTimestamp"), now)


def name_of(document: Document) -> str:
    return str(at(document, "metadata", "name") or "")


def selector_text(selector: Document | None) -> str:
    """A LabelSelector as text."""
    try:
        found = labels.from_object(selector)
    except labels.SelectorError:
        return "<error>"
    if found is None:
        return NONE
    return str(found) or NONE


def label_text(found: Document | None) -> str:
    """A plain map of labels as text."""
    return ",".join(f"{key}={value}" for key, value in sorted((found or {}).items())) or NONE


def containers_of(spec: Any) -> tuple[str, str]:
    found = at(spec, "containers") or ()
    return (
        ",".join(str(container.get("name", "")) for container in found),
        ",".join(str(container.get("image", "")) for container in found),
    )


def template_of(document: Document) -> tuple[str, str]:
    return containers_of(at(document, "spec", "template", "spec"))


def count(document: Document, *path: str) -> int:
    return int(at(document, *path) or 0)


def condition_of(document: Document, kind: str) -> Document | None:
    found = at(document, "status", "conditions") or ()
    return next((condition for condition in found if condition.get("type") == kind), None)


def is_true(condition: Document | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def plain(*paths: str) -> Callable[[Document, float], Cells]:
    """Name, then the values at *paths* (empty text when absent), then the age."""

    def cells(found: Document, now: float) -> Cells:
        values = [at(found, *path.split(".")) for path in paths]
        return [name_of(found), *("" if value is None else value for value in values), age(found, now)]

    return cells
