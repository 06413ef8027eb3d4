"""ExtendedResourceToleration: adds tolerations for the extended resources a pod requests.

Spec: core.md 7. Off by default. Nodes with, say, GPUs are tainted with the resource's name as key; pods that request
the resource get the matching toleration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes, is_pod
from weir.apiserver.admission.toleration_lists import add_or_update
from weir.objects.kind import Kind
from weir.objects.resource_kinds import containers, is_extended_resource


def requested_extended_resources(spec: Mapping[str, Any]) -> list[str]:
    """Return the extended resources that containers request, sorted."""
    names: set[str] = set()
    for container in containers(spec):
        requests = (container.get("resources") or {}).get("requests")
        if requests:
            names.update(name for name in requests if is_extended_resource(name))
    return sorted(names)


class ExtendedResourceToleration:
    name = "ExtendedResourceToleration"

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return is_pod(kind, subresource) and operation in (CREATE, UPDATE)

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        spec = a.object.setdefault("spec", {})
        for resource in requested_extended_resources(spec):
            toleration = {"key": resource, "operator": "Exists", "effect": "NoSchedule"}
            add_or_update(spec.setdefault("tolerations", []), toleration)
