"""Conversion to and from the hub version, per group.

A kind whose row names a hub (weir.objects.kinds) is stored, validated and reasoned about in the hub's layout.
"""

from __future__ import annotations

from typing import Any

from weir.objects import autoscaler_versions, device_versions

Document = dict[str, Any]


def to_hub(group: str, version: str, kind: str, document: Document) -> Document:
    """Return a document written in *version* in the layout it is stored in; parts that do not change are shared."""
    if group == "autoscaling":
        return autoscaler_versions.to_v2(version, document)
    return device_versions.to_v1(version, kind, document)


def from_hub(group: str, version: str, kind: str, document: Document) -> Document:
    """Return a stored document as *version* shows it."""
    if group == "autoscaling":
        return autoscaler_versions.from_v2(version, document)
    return device_versions.from_v1(version, kind, document)
