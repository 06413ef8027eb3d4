"""Subjects of an expression on the command line: taints as text or from nodes, devices of ResourceSlices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click


def _taint(text: str) -> dict[str, str]:
    """Return the taint *text* writes, the way kubectl does; without an effect it stands for any."""
    from weir.taints.notation import TaintNotationError, parse_taint

    try:
        taint = parse_taint(text, effect_required=False)
    except TaintNotationError as error:
        raise click.UsageError(str(error)) from None
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}


def taints_of(written: Iterable[str], files: Sequence[str]) -> list[dict[str, Any]]:
    """Return the distinct taints that were written or stand on the nodes of the files, with a count of nodes."""
    subjects: list[dict[str, Any]] = [{"taint": _taint(text)} for text in written]
    nodes: dict[tuple[str, str, str], int] = {}
    for document in _objects(files, "Node"):
        taints = _entries(document, "taints")
        distinct = {
            (str(t.get("key", "")), str(t.get("value") or ""), str(t.get("effect") or "")) for t in taints
        }
        for taint in sorted(distinct):
            nodes[taint] = nodes.get(taint, 0) + 1
    for (key, value, effect), count in nodes.items():
        subjects.append({"taint": {"key": key, "value": value, "effect": effect}, "nodes": count})
    return subjects


def devices_of(files: Sequence[str]) -> list[dict[str, Any]]:
    subjects = []
    for document in _objects(files, "ResourceSlice"):
        spec = document.get("spec") or {}
        pool = spec.get("pool")
        pool = pool.get("name", "") if isinstance(pool, Mapping) else ""
        for device in _entries(document, "devices"):
            content = device.get("basic") or device  # v1beta1 wraps them
            name = f"{spec.get('driver', '')}/{pool}/{device.get('name', '')}"
            subjects.append({"device": name, "driver": spec.get("driver", ""), "content": content})
    return subjects


def _entries(document: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list of the spec; raises UsageError when it is no such list."""
    entries = (document.get("spec") or {}).get(field) or []
    if not isinstance(entries, list) or not all(isinstance(each, Mapping) for each in entries):
        name = (document.get("metadata") or {}).get("name", "")
        raise click.UsageError(f"{document.get('kind', '')} {name}: spec.{field} must be a list of mappings")
    return entries


def _objects(files: Sequence[str], kind: str) -> list[Mapping[str, Any]]:
    from weir.cli.inputs import read_dump
    from weir.objects.envelope import envelope_problem

    found: list[Mapping[str, Any]] = []
    stack = list(reversed(read_dump(files)))
    while stack:
        value = stack.pop()
        if not isinstance(value, Mapping):
            continue
        if isinstance(value.get("items"), list):
            stack.extend(reversed(value["items"]))
        elif value.get("kind", kind) == kind:
            if problem := envelope_problem(value):
                raise click.UsageError(f"{', '.join(files)}: {problem}")
            found.append(value)
    return found
