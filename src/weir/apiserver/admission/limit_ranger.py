"""LimitRanger: applies default requests and limits, and enforces LimitRange bounds.

Spec: upstream's LimitRanger. Pods are checked on creation and resize, claims on creation and growth. All violations
are reported at once; as upstream, a missing amount violates a bound too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weir.apiserver.admission.attributes import CREATE, LIMIT_RANGE, UPDATE, Attributes, Reader, is_pod
from weir.objects.kind import Kind
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS
from weir.objects.pod_resources import Amounts, pod_total, read_amounts

ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger:
    name = "LimitRanger"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._seen: tuple[int, dict[str, list[Mapping[str, Any]]]] = (-1, {})

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        if is_pod(kind, subresource):
            return operation == CREATE
        if is_pod(kind, "") and subresource == "resize":
            return operation == UPDATE
        return kind is PERSISTENT_VOLUME_CLAIMS and not subresource and operation in (CREATE, UPDATE)

    def admit(self, a: Attributes) -> None:
        ranges = self._ranges(a.namespace)
        if ranges and a.kind is not PERSISTENT_VOLUME_CLAIMS and a.operation == CREATE:
            assert a.object is not None
            for limit_range in ranges:
                set_defaults(a.object, limit_range)

    def validate(self, a: Attributes) -> None:
        ranges = self._ranges(a.namespace)
        if not ranges:
            return
        assert a.object is not None
        if ((a.old or {}).get("metadata") or {}).get("deletionTimestamp"):
            return
        broken_bounds = claim_problems if a.kind is PERSISTENT_VOLUME_CLAIMS else pod_problems
        for limit_range in ranges:
            problems = list(dict.fromkeys(broken_bounds(a.object.get("spec") or {}, limit_range)))
            if problems:
                raise a.forbidden(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    def _ranges(self, namespace: str) -> list[Mapping[str, Any]]:
        """Return the namespace's ranges; remembered until one changes, since most namespaces have none."""
        version = self._reader.version(LIMIT_RANGE)
        if self._seen[0] != version:
            self._seen = (version, {})
        by_namespace = self._seen[1]
        found = by_namespace.get(namespace)
        if found is None:
            found = by_namespace[namespace] = self._reader.list_now(LIMIT_RANGE, namespace)
        return found


def set_defaults(pod: dict[str, Any], limit_range: Mapping[str, Any]) -> None:
    """Fill in the amounts containers leave out, and note on the pod which ones."""
    default_limits: dict[str, Any] = {}
    default_requests: dict[str, Any] = {}
    for limit in _limits(limit_range, "Container"):
        default_limits.update(limit.get("default") or {})
        default_requests.update(limit.get("defaultRequest") or {})
    if not default_limits and not default_requests:
        return
    notes: list[str] = []
    spec = pod.setdefault("spec", {})
    for part, called in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(part) or ():
            resources = container.setdefault("resources", {})
            set_limits = _fill(resources, "limits", default_limits)
            set_requests = _fill(resources, "requests", default_requests)
            name = container.get("name", "")
            if set_requests:
                notes.append(f"{', '.join(set_requests)} request for {called} {name}")
            if set_limits:
                notes.append(f"{', '.join(set_limits)} limit for {called} {name}")
    if notes:
        annotations = pod.setdefault("metadata", {}).setdefault("annotations", {})
        annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)


def _fill(resources: dict[str, Any], part: str, defaults: Mapping[str, Any]) -> list[str]:
    have = resources.get(part) or {}
    missing = sorted(name for name in defaults if name not in have)
    if missing:
        resources[part] = {**have, **{name: defaults[name] for name in missing}}
    return missing


def pod_problems(spec: Mapping[str, Any], limit_range: Mapping[str, Any]) -> Iterator[str]:
    """Yield every bound of *limit_range* that a container, or the pod as a whole, breaks."""
    for limit in _limits(limit_range, "Container"):
        for part in ("containers", "initContainers"):
            for container in spec.get(part) or ():
                resources = container.get("resources") or {}
                requests, limits = (
                    read_amounts(resources.get("requests")),
                    read_amounts(resources.get("limits")),
                )
                yield from _problems(limit, requests, limits)
    for limit in _limits(limit_range, "Pod"):
        yield from _problems(limit, pod_total(spec, "requests"), pod_total(spec, "limits"))


def claim_problems(spec: Mapping[str, Any], limit_range: Mapping[str, Any]) -> Iterator[str]:
    """Yield every bound of *limit_range* that a claim's request breaks."""
    requests = read_amounts((spec.get("resources") or {}).get("requests"))
    for limit in _limits(limit_range, "PersistentVolumeClaim"):
        yield from _too_little(limit, requests, {})
        for name, most in sorted(read_amounts(limit.get("max")).items()):
            said = f"maximum {name} usage per PersistentVolumeClaim is {most}"
            if name not in requests:
                yield f"{said}.  No request is specified"
            elif most < requests[name]:
                yield f"{said}, but request is {requests[name]}"


def _problems(limit: Mapping[str, Any], requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _too_little(limit, requests, limits)
    yield from _too_much(limit, requests, limits)
    yield from _too_spread(limit, requests, limits)


def _too_little(limit: Mapping[str, Any], requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in sorted(read_amounts(limit.get("min")).items()):
        said = f"minimum {name} usage per {limit.get('type')} is {least}"
        if name not in requests:
            yield f"{said}.  No request is specified"
        elif requests[name] < least:
            yield f"{said}, but request is {requests[name]}"
        elif name in limits and limits[name] < least:
            yield f"{said}, but limit is {limits[name]}"


def _too_much(limit: Mapping[str, Any], requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, most in sorted(read_amounts(limit.get("max")).items()):
        said = f"maximum {name} usage per {limit.get('type')} is {most}"
        if name not in limits:
            yield f"{said}.  No limit is specified"
        elif most < limits[name]:
            yield f"{said}, but limit is {limits[name]}"
        elif name in requests and most < requests[name]:
            yield f"{said}, but request is {requests[name]}"


def _too_spread(limit: Mapping[str, Any], requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, most in sorted(read_amounts(limit.get("maxLimitRequestRatio")).items()):
        said = f"{name} max limit to request ratio per {limit.get('type')} is {most}"
        if name not in requests or requests[name].sign == 0:
            yield f"{said}, but no request is specified or request is 0"
        elif name not in limits or limits[name].sign == 0:
            yield f"{said}, but no limit is specified or limit is 0"
        else:
            ratio = limits[name].as_float() / requests[name].as_float()
            if ratio > most.as_float():
                yield f"{said}, but provided ratio is {ratio:f}"


def _limits(limit_range: Mapping[str, Any], of_type: str) -> Iterator[Mapping[str, Any]]:
    for limit in (limit_range.get("spec") or {}).get("limits") or ():
        if limit.get("type") == of_type:
            yield limit
