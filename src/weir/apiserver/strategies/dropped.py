"""Fields that the server accepts but drops: disabled or removed features.

Spec: Kubernetes 1.37 with its default gates, none of which weir has a switch for. The sender still owns such a field
in managedFields, since ownership is computed before.
"""

from __future__ import annotations

from weir.apiserver.strategies.strategy import Context, Document, Strategy
from weir.objects.kind import Kind

__all__ = ["WithoutFields", "drop_from_pod"]


def drop_from_pod(spec: Document) -> None:
    """Take what no server of this release keeps out of a pod's spec.

    >>> spec = {"schedulingGroup": {}, "containers": [{"name": "c", "lifecycle": {"stopSignal": "SIGTERM"}}]}
    >>> drop_from_pod(spec)
    >>> spec
    {'containers': [{'name': 'c'}]}
    """
    spec.pop("schedulingGroup", None)
    for part in ("containers", "initContainers"):
        for container in spec.get(part) or ():
            lifecycle = container.get("lifecycle")
            if lifecycle and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
                container.pop("lifecycle")


class WithoutFields(Strategy):
    """The strategy of a kind some fields of whose spec are not kept."""

    def __init__(self, *fields: str) -> None:
        self._fields = fields

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Drop the fields."""
        super().prepare_create(kind, new, context)
        for field in self._fields:
            (new.get("spec") or {}).pop(field, None)

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Drop the fields unless they are stored already."""
        super().prepare_update(kind, new, old, context)
        for field in self._fields:
            if field not in (old.get("spec") or {}):
                (new.get("spec") or {}).pop(field, None)
