"""The Table representation for `kubectl get`.

Spec: apiserver.md 11 "Tables". Column names, types and priorities are data (`columns.json`), as are descriptions in
weir's own words (`descriptions.json`, docs/decisions/0042); cells are computed in weir.apiserver.printers. A kind
without columns gets Name and Created At.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from weir import errors
from weir.apiserver.patches.strategic import go_text
from weir.apiserver.printers import cells_of, in_order
from weir.apiserver.printers.cells import age, at, condition_of, name_of, since
from weir.apiserver.registry.conversion import to_storage
from weir.compat.customresources.served import CustomResourceKind
from weir.objects.autoscaler_versions import without_carried
from weir.objects.defaults.apps import TEMPLATE_GENERATION
from weir.objects.kind import Document, Kind
from weir.objects.times import TimeError, parse_time
from weir.values.json_path import JsonPath, JsonPathError, TooManyVisits, Visits
from weir.values.quoting import compact_json, quote

# ── table cells of CustomResourceDefinitions and custom resources ──


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


def api_service_cells(registered: Document, now: float) -> list[Any]:
    """Return the cells of an APIService."""
    service, available = at(registered, "spec", "service"), condition_of(registered, "Available")
    status = "Unknown" if available is None else available.get("status") or ""
    if available is not None and status != "True" and available.get("reason"):
        status = f"{status} ({available['reason']})"
    server = "Local" if service is None else f"{service.get('namespace') or ''}/{service.get('name') or ''}"
    return [name_of(registered), server, status, age(registered, now)]


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


META = "meta.k8s.io/v1"
API_SERVICE = "APIService"
INCLUDES = ("", "Metadata", "Object", "None")


@cache
def _columns() -> dict[str, list[Document]]:
    names = ("name", "type", "format", "priority")
    descriptions = _data("descriptions.json")  # the same name means the same for every kind that has it
    return {
        kind: [
            {**dict(zip(names, column, strict=True)), "description": descriptions[column[0]]}
            for column in found
        ]
        for kind, found in _data("columns.json").items()
    }


def _data(name: str) -> Any:
    return msgspec.json.decode(resources.files("weir.apiserver.printers").joinpath(name).read_bytes())


@cache
def _fallback() -> list[Document]:
    name, age = _columns()["ServiceAccount"]
    return [name, {**age, "name": "Created At", "type": "date"}]


@cache
def _of_definitions() -> list[Document]:
    """Return the columns of custom resource definitions, which are printed by the server that serves them."""
    name, created = _fallback()
    rest = {"format": "", "priority": 0}
    wide = {"type": "string", "format": "", "priority": 1}
    return [
        name,
        {"name": "Scope", "type": "string", **rest, "description": "Cluster/Namespaced"},
        {"name": "Versions", "type": "string", **rest, "description": "Served versions"},
        created,
        {"name": "Group", **wide, "description": "API group"},
        {"name": "Kind", **wide, "description": "CustomResource kind"},
        {"name": "ShortNames", **wide, "description": "Short names"},
        {"name": "Established", **wide, "type": "boolean", "description": "Established status"},
    ]


@cache
def _of_api_services() -> list[Document]:
    """Return the columns of registered groups, which the aggregator prints."""
    name, age = _columns()["ServiceAccount"]
    rest = {"type": "string", "format": "", "priority": 0}
    return [
        name,
        {"name": "Service", **rest, "description": "Who serves the group: this server, or a service."},
        {"name": "Available", **rest, "description": "Whether the group is served."},
        age,
    ]


def columns(kind: Kind) -> list[Document]:
    """Return the column definitions of *kind*."""
    if isinstance(kind, CustomResourceKind):
        return [_fallback()[0], *custom_columns(kind)]
    if is_definition(kind):
        return _of_definitions()
    if kind.kind == API_SERVICE:
        return _of_api_services()
    return _columns().get(kind.kind) or _fallback()


def check_include(value: str) -> str:
    """Return the includeObject parameter; raises 400 for one that is not offered."""
    if value not in INCLUDES:
        raise errors.BadRequest(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {quote(value)}: "
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return value


def partial(document: Document, kind: Kind | None = None, version: str = META) -> Document:
    """Return only the metadata of an object, without what only its own version shows (*kind*)."""
    metadata = document["metadata"]
    if (
        kind is not None
        and kind.kind == "DaemonSet"
        and TEMPLATE_GENERATION in metadata.get("annotations", ())
    ):
        metadata = dict(metadata)
        kept = {
            name: text for name, text in metadata.pop("annotations").items() if name != TEMPLATE_GENERATION
        }
        if kept:
            metadata["annotations"] = kept
    if kind is not None and kind.kind == "HorizontalPodAutoscaler":
        metadata = without_carried(metadata)
    return {"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata}


def row(kind: Kind, document: Document, include: str, now: float, version: str = META) -> Document:
    """Return one object as a row; *now* is what ages are counted to."""
    if isinstance(kind, CustomResourceKind):
        cells = custom_cells(kind, document, now)
    elif is_definition(kind):
        cells = definition_cells(document)
    elif kind.kind == API_SERVICE:
        cells = api_service_cells(document, now)
    elif kind.kind in _columns():
        cells = cells_of(kind, to_storage(kind, document), now)
    else:
        metadata = document["metadata"]
        cells = [metadata.get("name", ""), metadata.get("creationTimestamp")]
    shown: Document | None
    if include == "None":
        shown = None
    elif include == "Object":
        shown = {"kind": kind.kind, "apiVersion": kind.api_version, **document}
    else:
        shown = partial(document, kind, version)
    return {"cells": cells, "object": shown}


def table(
    kind: Kind,
    documents: Iterable[Document],
    metadata: Document,
    *,
    include: str,
    now: float,
    with_columns: bool = True,
    version: str = META,
) -> Document:
    """Return the objects as a Table."""
    return {
        "kind": "Table",
        "apiVersion": version,
        "metadata": metadata,
        "columnDefinitions": columns(kind) if with_columns else None,
        "rows": [row(kind, document, include, now, version) for document in in_order(kind, documents)],
    }
