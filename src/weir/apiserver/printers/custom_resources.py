"""Table cells of CustomResourceDefinitions and custom resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from weir.apiserver.patches.strategic import go_text
from weir.apiserver.printers.values import since
from weir.customresources.served import CustomResourceKind
from weir.objects.kind import Kind
from weir.objects.times import TimeError, parse_time
from weir.values.json_path import JsonPath, JsonPathError, TooManyVisits, Visits
from weir.values.quoting import compact_json

Document = dict[str, Any]
#: What all cells of one object may take together: values looked at (an object has 150,000 at most), and characters of
#: text begun. Cells beyond are empty; no definition that people read comes near.
MOST_VISITS = 300_000
MOST_TEXT = 3_000_000
MOST_PATH_TEXT = 100_000  #: characters of the paths of a definition's columns that are read


def is_definition(kind: Kind) -> bool:
    """Return whether *kind* is that of custom resource definitions."""
    return kind.kind == "CustomResourceDefinition" and kind.group == "apiextensions.k8s.io"


def definition_cells(found: Document) -> list[Any]:
    """Return the cells of a definition."""
    spec, metadata = found.get("spec") or {}, found["metadata"]
    names = spec.get("names") or {}
    served = sorted(
        version["name"] + ("(storage)" if version.get("storage") else "")
        for version in spec.get("versions") or ()
        if version.get("served")
    )
    conditions = (found.get("status") or {}).get("conditions") or ()
    return [
        metadata.get("name", ""),
        spec.get("scope") or "",
        ",".join(served),
        metadata.get("creationTimestamp"),
        spec.get("group") or "",
        names.get("kind") or "",
        ",".join(names.get("shortNames") or ()),
        any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions),
    ]


# ── what a definition defines ────────────────────────────────────────────────────────────────────


def custom_columns(kind: CustomResourceKind) -> list[Document]:
    """Return the columns a definition adds to the name."""
    return [
        {
            "name": column["name"],
            "type": column["type"],
            "format": column.get("format") or "",
            "description": column.get("description")
            or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
            "priority": column.get("priority") or 0,
        }
        for column in kind.says.columns
    ]


def custom_cells(kind: CustomResourceKind, found: Document, now: float) -> list[Any]:
    """Return the cells of a custom resource."""
    kept = kind.says.kept
    if "cells" not in kept:
        kept["cells"] = list(_readers(kind.says.columns))
    cells: list[Any] = [found["metadata"].get("name", "")]
    visits, text_left = Visits(MOST_VISITS), MOST_TEXT
    for form, path in kept["cells"]:
        cell = None
        if path is not None and text_left > 0:
            with suppress(TooManyVisits):
                cell = _cell(form, next(path.find(found, visits), None), now)
        if isinstance(cell, str):
            text_left -= len(cell)
        cells.append(cell)
    return cells


def _readers(columns: Iterable[Document]) -> Iterator[tuple[str, JsonPath | None]]:
    """Yield the type and the path of each column; None for a path that cannot be read."""
    text_left = MOST_PATH_TEXT
    for column in columns:
        path = None
        text_left -= len(column["jsonPath"])
        if text_left >= 0:
            with suppress(JsonPathError):
                path = JsonPath(column["jsonPath"])
        yield column["type"], path


def _cell(form: str, value: Any, now: float) -> Any:
    """Return the cell for the first value at a column's path, the only one that Kubernetes shows."""
    if value is None:
        return None
    if form == "string":
        return compact_json(value) if isinstance(value, dict | list) else go_text(value)
    if form == "integer" and isinstance(value, int | float) and not isinstance(value, bool):
        return int(value)
    if form == "number" and isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if form == "boolean" and isinstance(value, bool):
        return value
    if form == "date" and isinstance(value, str):
        try:
            return since(parse_time(value), now)
        except TimeError:
            return "<invalid>"
    return None
