"""RuntimeClass: applies the class's overhead, node selector and tolerations to a pod.

Spec: core.md 7 "RuntimeClass" (merge rule in weir.apiserver.admission.toleration_lists).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.apiserver.admission.attributes import CREATE, RUNTIME_CLASS, Attributes, Reader, is_pod
from weir.apiserver.admission.toleration_lists import merge
from weir.objects.kind import Kind
from weir.objects.pod_resources import read_amounts


class RuntimeClass:
    name = "RuntimeClass"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == CREATE and is_pod(kind, subresource)

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        spec = a.object.get("spec") or {}
        if spec.get("runtimeClassName") is None:
            return
        runtime_class = self._find(a, spec["runtimeClassName"])
        fixed = _fixed_overhead(runtime_class)
        if fixed is not None:
            if spec.get("overhead") and read_amounts(spec["overhead"]) != read_amounts(fixed):
                raise a.forbidden(
                    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
                )
            spec["overhead"] = dict(fixed)
        scheduling = runtime_class.get("scheduling")
        if scheduling is not None:
            self._schedule(a, spec, scheduling)

    def validate(self, a: Attributes) -> None:
        assert a.object is not None
        spec = a.object.get("spec") or {}
        name, overhead = spec.get("runtimeClassName"), spec.get("overhead")
        if name is None and overhead is None:
            return
        fixed = _fixed_overhead(self._find(a, name)) if name is not None else None
        if fixed is not None and read_amounts(fixed) != read_amounts(overhead):
            raise a.forbidden("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        if fixed is None and overhead is not None:
            raise a.forbidden(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )

    def _find(self, a: Attributes, name: str) -> Mapping[str, Any]:
        found = self._reader.get_now(RUNTIME_CLASS, "", name)
        if found is None:
            raise a.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
        return found

    @staticmethod
    def _schedule(a: Attributes, spec: dict[str, Any], scheduling: Mapping[str, Any]) -> None:
        wanted = scheduling.get("nodeSelector") or {}
        own = spec.get("nodeSelector") or {}
        for key, value in sorted(wanted.items()):
            if key in own and own[key] != value:
                raise a.forbidden(
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {own[key]}"
                )
        if wanted:
            spec["nodeSelector"] = {**own, **wanted}
        tolerations = merge(spec.get("tolerations") or (), scheduling.get("tolerations") or ())
        if tolerations:
            spec["tolerations"] = [dict(toleration) for toleration in tolerations]


def _fixed_overhead(runtime_class: Mapping[str, Any]) -> Mapping[str, Any] | None:
    overhead = runtime_class.get("overhead")
    return None if overhead is None else overhead.get("podFixed") or {}
