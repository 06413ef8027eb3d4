"""Errors without an order: what a real server finds in the entries of one map, it reports in any order.

Kubernetes ranges over Go maps (labels, annotations, resource amounts, data keys) when it validates them. The causes of
a refusal that belong to one map are therefore compared as a set; all others in the order they are written.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

#: `spec.hard[requests.cpu]` is an entry of the map `spec.hard`; `spec.containers[0]` is an element of a list.
_ENTRY = re.compile(r"\[(?!\d+\])[^\]]*\].*")


def map_of(field: str) -> str:
    """Return the map that a field is in an entry of, or the field.

    >>> map_of("spec.hard[requests.cpu]"), map_of("spec.containers[0].name"), map_of("metadata.labels")
    ('spec.hard', 'spec.containers[0].name', 'metadata.labels')
    """
    return _ENTRY.sub("", field, count=1)


def settled(status: dict[str, Any]) -> dict[str, Any]:
    """Return a Status whose causes in one map are sorted, in its list and in its message.

    >>> causes = [{"field": f"spec.hard[{name}]", "message": "Invalid"} for name in "ba"]
    >>> message = "no: [spec.hard[b]: Invalid, spec.hard[a]: Invalid]"
    >>> found = settled({"message": message, "details": {"causes": causes}})
    >>> found["message"], [cause["field"] for cause in found["details"]["causes"]]
    ('no: [spec.hard[a]: Invalid, spec.hard[b]: Invalid]', ['spec.hard[a]', 'spec.hard[b]'])
    """
    details = status.get("details")
    causes = (details or {}).get("causes")
    if not isinstance(details, dict) or not causes:
        return status
    in_order = [
        cause
        for _, entries in groupby(causes, key=lambda cause: map_of(cause.get("field", "")))
        for cause in sorted(entries, key=str)
    ]
    message = str(status.get("message", "")).replace(_aggregate(causes), _aggregate(in_order))
    return {**status, "message": message, "details": {**details, "causes": in_order}}


def _aggregate(causes: list[dict[str, Any]]) -> str:
    return ", ".join(dict.fromkeys(f"{cause.get('field')}: {cause.get('message')}" for cause in causes))
