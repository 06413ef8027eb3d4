"""Declared table cells, and what computed ones are made of: ages, labels, selectors, conditions.

Spec: apiserver.md 11 "Tables", "Cells". An absent value prints as `<none>`, `<unset>`, `<unknown>` or nothing,
depending on the column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from weir.selectors import labels

Document = Mapping[str, Any]
Cells = list[Any]
Cell = Callable[[Document, float], Any]
Row = Callable[[Document, float], Cells]
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
        return str(labels.from_object(selector) or "") or NONE
    except labels.SelectorError:
        return "<error>"


def label_text(labels: Document | None) -> str:
    """A plain map of labels as text."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def condition_of(document: Document, kind: str) -> Document | None:
    conditions = at(document, "status", "conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def is_true(condition: Document | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def first_of(texts: list[str], most: int, separator: str = ",") -> str:
    """Return at most *most* of *texts*, and how many more there are.

    >>> first_of(["a", "b", "c"], 2)
    'a,b + 1 more...'
    """
    return separator.join(texts[:most]) + (f" + {len(texts) - most} more..." if len(texts) > most else "")


# ── declared cells ───────────────────────────────────────────────────────────────────────────────


def row(*cells: Cell | str) -> Row:
    """Return the row of these cells; a path stands for the text at it.

    >>> row(NAME, "spec.driver", count("spec.devices"))({"metadata": {"name": "a"}, "spec": {"devices": 2}}, 0.0)
    ['a', '', 2]
    """
    declared = [text(cell) if isinstance(cell, str) else cell for cell in cells]
    return lambda document, now: [cell(document, now) for cell in declared]


def text(path: str, default: str = "") -> Cell:
    """Return the cell of the text at *path*."""
    names = path.split(".")
    return lambda document, now: at(document, *names) or default


def shown(path: str, default: str) -> Cell:
    """Return the cell of a number, or of what is written as one, at *path*."""
    names = path.split(".")

    def cell(document: Document, now: float) -> str:
        value = at(document, *names)
        return default if value is None else str(value)

    return cell


def count(path: str) -> Cell:
    """Return the cell of the number at *path*."""
    names = path.split(".")
    return lambda document, now: int(at(document, *names) or 0)


def size(path: str) -> Cell:
    """Return the cell of the length of the list or map at *path*."""
    names = path.split(".")
    return lambda document, now: len(at(document, *names) or ())


def flag(path: str, default: bool = False) -> Cell:
    """Return the cell of the truth value at *path*."""
    names = path.split(".")

    def cell(document: Document, now: float) -> bool:
        value = at(document, *names)
        return default if value is None else bool(value)

    return cell


def joined(path: str, default: str = "") -> Cell:
    """Return the cell of the list of texts at *path*."""
    names = path.split(".")
    return lambda document, now: ",".join(at(document, *names) or ()) or default


def part_of(part: str, whole: str) -> Cell:
    """Return the cell of two numbers, as `1/2`."""
    parts, wholes = part.split("."), whole.split(".")
    return lambda document, now: f"{at(document, *parts) or 0}/{at(document, *wholes) or 0}"


def selector(path: str) -> Cell:
    """Return the cell of the LabelSelector at *path*."""
    names = path.split(".")
    return lambda document, now: selector_text(at(document, *names))


def labels_at(path: str) -> Cell:
    """Return the cell of the plain map of labels at *path*."""
    names = path.split(".")
    return lambda document, now: label_text(at(document, *names))


def time_since(path: str, default: str = UNKNOWN) -> Cell:
    """Return the cell of the time since the one at *path*."""
    names = path.split(".")

    def cell(document: Document, now: float) -> str:
        moment = at(document, *names)
        return since(moment, now) if moment else default

    return cell


def container_names(path: str) -> Cell:
    """Return the cell of the names of the containers of the pod spec at *path*."""
    return _of_containers(path, "name")


def container_images(path: str) -> Cell:
    """Return the cell of the images of the containers of the pod spec at *path*."""
    return _of_containers(path, "image")


def _of_containers(path: str, field: str) -> Cell:
    names = (*path.split("."), "containers")
    return lambda document, now: ",".join(str(one.get(field, "")) for one in at(document, *names) or ())


def controller(document: Document, now: float) -> str:
    """Return the controller that owns the object, as `kind.group/name`."""
    owners = at(document, "metadata", "ownerReferences") or ()
    owner = next((each for each in owners if each.get("controller")), None)
    if owner is None:
        return NONE
    group = str(owner.get("apiVersion", "")).rpartition("/")[0]
    return f"{str(owner.get('kind', '')).lower()}{'.' + group if group else ''}/{owner.get('name')}"


NAME: Final = text("metadata.name")
AGE: Final[Cell] = age
