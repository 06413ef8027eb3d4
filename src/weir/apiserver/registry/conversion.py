"""How does an object look in a version it is not stored in?

Events are one resource served in two groups: stored as core/v1, shown in events.k8s.io/v1 with other names for
the same fields. The kinds of resource.k8s.io are stored as v1 and shown in older versions as well
(weir.objects.device_versions), HorizontalPodAutoscalers as autoscaling/v2 and shown in v1
(weir.objects.autoscaler_versions). Everything else is stored as it is served.
"""

from __future__ import annotations

from typing import Any

import msgspec

from weir.customresources.reading import from_stored, to_stored
from weir.customresources.served import CustomResourceKind
from weir.objects import versions
from weir.objects.kinds import Kind, hub_of

__all__ = ["convert_value", "from_storage", "to_storage"]

Document = dict[str, Any]

#: field of events.k8s.io/v1 → field of core/v1
_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_EVENT_BACK = {core: new for new, core in _EVENT_FIELDS.items()}
_encode = msgspec.json.Encoder().encode


def _is_event(kind: Kind) -> bool:
    return kind.group == "events.k8s.io"


def to_storage(kind: Kind, document: Document) -> Document:
    """Return the document in the version it is stored in."""
    if isinstance(kind, CustomResourceKind):
        return to_stored(kind, document)
    if kind.hub:
        return _named(hub_of(kind), versions.to_hub(kind.group, kind.version, kind.kind, document))
    if not _is_event(kind):
        return document
    return {_EVENT_FIELDS.get(name, name): value for name, value in document.items()}


def from_storage(kind: Kind, document: Document) -> Document:
    """Return a stored document in the version *kind* stands for."""
    if isinstance(kind, CustomResourceKind):
        return from_stored(kind, document)
    if kind.hub:
        return _named(kind, versions.from_hub(kind.group, kind.version, kind.kind, document))
    if not _is_event(kind):
        return document
    return {_EVENT_BACK.get(name, name): value for name, value in document.items()}


def _named(kind: Kind, document: Document) -> Document:
    """Return the document under the version of *kind*, if it names one at all."""
    return {**document, "apiVersion": kind.api_version} if "apiVersion" in document else document


def convert_value(kind: Kind, value: bytes) -> bytes:
    """Return stored bytes in the version *kind* stands for."""
    if not kind.converted:
        return value
    return _encode(from_storage(kind, msgspec.json.decode(value)))
