"""Admission plugins that resolve the classes a pod names: PriorityClass and RuntimeClass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.apiserver.admission.attributes import CREATE, RUNTIME_CLASS, UPDATE, Attributes, Reader, is_pod
from weir.apiserver.admission.tolerations import merge
from weir.objects.kind import Kind
from weir.objects.kinds import PRIORITY_CLASSES
from weir.objects.pod_resources import read_amounts

# ── priority: resolves a pod's priority class to its priority ──
# Spec: core.md 7 "Priority"; apiserver.md 5.1 (refusals). On update the value set at creation is kept when a client
# omits it. Among several default classes the lowest value wins; marking a second one is rejected.


PREEMPT_LOWER = "PreemptLowerPriority"

_NO_CLASS: Mapping[str, Any] = {"value": 0, "preemptionPolicy": PREEMPT_LOWER}


class Priority:
    name = "Priority"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._default: tuple[int, Mapping[str, Any] | None] | None = None

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation in (CREATE, UPDATE) and (
            is_pod(kind, subresource) or (kind is PRIORITY_CLASSES and not subresource)
        )

    def admit(self, a: Attributes) -> None:
        if a.kind is PRIORITY_CLASSES:
            return
        assert a.object is not None
        spec = a.object.setdefault("spec", {})
        if a.operation == UPDATE:
            stored = (a.old or {}).get("spec") or {}
            for kept in ("priority", "preemptionPolicy"):
                if spec.get(kept) is None and stored.get(kept) is not None:
                    spec[kept] = stored[kept]
            return
        name = spec.get("priorityClassName")
        if name:
            chosen = self._reader.get_now(PRIORITY_CLASSES, "", name)
            if chosen is None:
                raise a.forbidden(f"no PriorityClass with name {name} was found")
        else:
            default = self._default_class()
            if default is not None:
                spec["priorityClassName"] = default["metadata"]["name"]
            chosen = default or _NO_CLASS
        self._set(a, spec, chosen)

    def validate(self, a: Attributes) -> None:
        """Refuse a second default class."""
        if a.kind is not PRIORITY_CLASSES or not (a.object or {}).get("globalDefault"):
            return
        default = self._default_class()
        if default is not None and (a.operation == CREATE or default["metadata"]["name"] != a.name):
            name = default["metadata"]["name"]
            raise a.forbidden(
                f"PriorityClass {name} is already marked as default. Only one default can exist"
            )

    @staticmethod
    def _set(a: Attributes, spec: dict[str, Any], chosen: Mapping[str, Any]) -> None:
        computed, given = chosen.get("value", 0), spec.get("priority")
        if given is not None and given != computed:
            raise a.forbidden(
                f"the integer value of priority ({given}) must not be provided in pod spec; priority "
                f"admission controller computed {computed} from the given PriorityClass name"
            )
        spec["priority"] = computed
        policy, given_policy = chosen.get("preemptionPolicy"), spec.get("preemptionPolicy")
        if policy is None:
            return
        if given_policy is not None and given_policy != policy:
            raise a.forbidden(
                f"the string value of PreemptionPolicy ({given_policy}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
        spec["preemptionPolicy"] = policy

    def _default_class(self) -> Mapping[str, Any] | None:
        version = self._reader.version(PRIORITY_CLASSES)
        known = self._default
        if known is not None and known[0] == version:
            return known[1]
        marked = [c for c in self._reader.list_now(PRIORITY_CLASSES, None) if c.get("globalDefault")]
        lowest = min(marked, key=lambda one: one.get("value", 0), default=None)
        self._default = (version, lowest)
        return lowest


# ── runtimeClass: applies the class's overhead, node selector and tolerations to a pod ──
# Spec: core.md 7 "RuntimeClass" (merge rule in weir.apiserver.admission.tolerations).


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
