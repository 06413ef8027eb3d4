"""Admission plugins about tolerations: taints of new nodes, tolerations for them, a namespace's defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes, Reader, is_pod
from weir.errors import InternalError
from weir.objects.jsontext import JsonError, parse_json, plain
from weir.objects.kind import Kind
from weir.objects.kinds import NAMESPACES, NODES
from weir.objects.pod_resources import containers, is_best_effort, is_extended_resource
from weir.objects.strict_decoder import json_word
from weir.taints import wellknown
from weir.taints.wellknown import NOT_READY, UNREACHABLE

# ── podTolerationRestriction: adds a namespace's default tolerations to its pods and enforces its whitelist ──
# Spec: core.md 7 "PodTolerationRestriction". Off by default. An empty namespace annotation means "none" and overrides
# the cluster's setting; an absent one falls back to it. Pods that are not BestEffort also get a toleration of memory
# pressure. A rejection is a 500 without reason, because upstream returns it without a Status.


# ── merging and comparison of toleration lists ──
# Spec: core.md 7 "Superset" and "Merge", 1.2 (identity, add-or-update).
# For PodTolerationRestriction, ExtendedResourceToleration and RuntimeClass. Works on the wire form: an absent field
# equals an empty one, but an empty operator and `Equal` differ, as upstream compares them. `superset` compares what is
# written, not taints: `Gt 900` does not cover `Gt 950` [D-19], and `Equal` covers only a literal `Equal`.


Toleration = Mapping[str, Any]
Parts = tuple[str, str, str, str, int | None, str]


def parts(toleration: Toleration) -> Parts:
    """Return (key, operator, value, effect, tolerationSeconds, expression); absent members are empty.

    >>> parts({"key": "a", "value": ""})
    ('a', '', '', '', None, '')
    """
    get = toleration.get
    return (
        get("key") or "",
        get("operator") or "",
        get("value") or "",
        get("effect") or "",
        get("tolerationSeconds"),
        get("expression") or "",
    )


def superset(wider: Parts, narrower: Parts) -> bool:
    """Return whether *wider* permits everything *narrower* does, by the letter.

    >>> everything = parts({"operator": "Exists"})
    >>> superset(everything, parts({"key": "a", "effect": "NoSchedule"}))
    True
    """
    if wider == narrower:
        return True
    key, operator, value, effect, seconds, expression = wider
    if expression:
        return False
    if narrower[0] != key and (key or operator != "Exists"):
        return False
    if effect and narrower[3] != effect:
        return False
    if effect == "NoExecute" and seconds is not None and (narrower[4] is None or narrower[4] > seconds):
        return False
    if operator in ("", "Equal"):
        return narrower[1] == "Equal" and narrower[2] == value
    return operator == "Exists"


def merge(first: Sequence[Toleration], second: Sequence[Toleration]) -> list[Toleration]:
    """Return both lists as one without entries that another one covers; of equal ones the first stays."""
    everything = [*first, *second]
    as_parts = [parts(toleration) for toleration in everything]
    kept: list[int] = []
    for index, one in enumerate(as_parts):
        if any(superset(as_parts[other], one) for other in kept):
            continue
        if any(later != one and superset(later, one) for later in as_parts[index + 1 :]):
            continue
        kept.append(index)
    return [everything[index] for index in kept]


def permitted(tolerations: Sequence[Toleration], permit: Sequence[Toleration]) -> bool:
    """Return whether every toleration has a superset among *permit*."""
    wide = [parts(entry) for entry in permit]
    return all(any(superset(entry, parts(one)) for entry in wide) for one in tolerations)


def add_or_update(tolerations: list[Any], new: dict[str, Any]) -> bool:
    """Put *new* into the list, in place of the entry of the same identity; return whether it changed."""
    key, operator, value, effect, _, expression = wanted = parts(new)
    for index, toleration in enumerate(tolerations):
        found = parts(toleration)
        if (found[0], found[1], found[2], found[3], found[5]) == (key, operator, value, effect, expression):
            if found == wanted:
                return False
            tolerations[index] = new
            return True
    tolerations.append(new)
    return True


# ── podTolerationRestriction: adds a namespace's default tolerations to its pods and enforces its whitelist ──


DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
MEMORY_PRESSURE: Toleration = {
    "key": wellknown.MEMORY_PRESSURE,
    "operator": "Exists",
    "effect": "NoSchedule",
}


def of_annotation(namespace: Mapping[str, Any], annotation: str) -> list[Toleration] | None:
    """Return the tolerations an annotation lists, None when it is absent.

    >>> of_annotation({"metadata": {"annotations": {"x": ""}}}, "x"), of_annotation({}, "x")
    ([], None)
    """
    text = ((namespace.get("metadata") or {}).get("annotations") or {}).get(annotation)
    if text is None:
        return None
    if not text:
        return []
    try:
        found = plain(parse_json(text.encode()))
    except JsonError as error:
        raise InternalError(str(error)) from error
    if found is None:
        return []
    if not isinstance(found, list):
        raise InternalError(
            f"json: cannot unmarshal {json_word(found)} into Go value of type []v1.Toleration"
        )
    for entry in found:
        if not isinstance(entry, dict):
            raise InternalError(
                f"json: cannot unmarshal {json_word(entry)} into Go value of type v1.Toleration"
            )
    return found


class PodTolerationRestriction:
    name = "PodTolerationRestriction"

    def __init__(
        self, reader: Reader, default: Sequence[Toleration] = (), whitelist: Sequence[Toleration] = ()
    ) -> None:
        self._reader = reader
        self._default, self._whitelist = tuple(default), tuple(whitelist)

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return is_pod(kind, subresource) and operation in (CREATE, UPDATE)

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        spec = a.object.setdefault("spec", {})
        given: list[Toleration] = []
        if a.operation == CREATE:
            own = of_annotation(self._namespace(a), DEFAULTS)
            given += self._default if own is None else own
        if not is_best_effort(spec):
            given.append(MEMORY_PRESSURE)
        tolerations = merge(spec.get("tolerations") or (), given)
        if tolerations:
            spec["tolerations"] = [dict(toleration) for toleration in tolerations]
        self.validate(a)

    def validate(self, a: Attributes) -> None:
        assert a.object is not None
        tolerations = (a.object.get("spec") or {}).get("tolerations")
        if not tolerations:
            return
        own = of_annotation(self._namespace(a), WHITELIST)
        scope, whitelist = ("cluster", self._whitelist) if own is None else ("namespace", own)
        if whitelist and not permitted(tolerations, whitelist):
            raise InternalError(
                "pod tolerations (possibly merged with namespace default tolerations) "
                f"conflict with its {scope} whitelist"
            )

    def _namespace(self, a: Attributes) -> Mapping[str, Any]:
        return self._reader.get_now(NAMESPACES, "", a.namespace) or {}


# ── admission plugins that set taints of nodes and tolerations for them ──
# DefaultTolerationSeconds: tolerates not-ready and unreachable nodes for five minutes by default.
# Spec: core.md 4.7 "DefaultTolerationSeconds admission". Only key and effect of the pod's own tolerations are compared:
# an operator that can never match an empty value suppresses the default all the same. A toleration by `expression` has
# neither key nor effect and does not count [D-12].
#
# ExtendedResourceToleration: adds tolerations for the extended resources a pod requests. Spec: core.md 7. Off by
# default. Nodes with, say, GPUs are tainted with the resource's name as key; pods that request the resource get the
# matching toleration.
#
# TaintNodesByCondition: taints a new node not-ready. Spec: core.md 7. Also when it reports Ready: the node lifecycle
# controller removes the taint.


DEFAULT_SECONDS = 300


class TaintNodesByCondition:
    name = "TaintNodesByCondition"

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == CREATE and kind is NODES and not subresource

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        taints = a.object.setdefault("spec", {}).setdefault("taints", [])
        if not any(t.get("key") == NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
            taints.append({"key": NOT_READY, "effect": "NoSchedule"})


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


def missing_defaults(
    tolerations: Sequence[Mapping[str, Any]], not_ready_seconds: int, unreachable_seconds: int
) -> list[dict[str, Any]]:
    """Return the default tolerations that *tolerations* leaves room for, not-ready first.

    >>> [t["key"] for t in missing_defaults([{"key": "node.kubernetes.io/not-ready"}], 300, 300)]
    ['node.kubernetes.io/unreachable']
    """
    not_ready = unreachable = False
    for toleration in tolerations:
        if toleration.get("effect", "") in ("", "NoExecute") and not toleration.get("expression"):
            key = toleration.get("key", "")
            not_ready = not_ready or key in ("", NOT_READY)
            unreachable = unreachable or key in ("", UNREACHABLE)
    missing = []
    if not not_ready:
        missing.append(_toleration(NOT_READY, not_ready_seconds))
    if not unreachable:
        missing.append(_toleration(UNREACHABLE, unreachable_seconds))
    return missing


def _toleration(key: str, seconds: int) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


class DefaultTolerationSeconds:
    name = "DefaultTolerationSeconds"

    def __init__(self, not_ready: int = DEFAULT_SECONDS, unreachable: int = DEFAULT_SECONDS) -> None:
        self._not_ready, self._unreachable = not_ready, unreachable

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return is_pod(kind, subresource) and operation in (CREATE, UPDATE)

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        spec = a.object.setdefault("spec", {})
        own = spec.get("tolerations")
        missing = missing_defaults(own or (), self._not_ready, self._unreachable)
        if not missing:
            return
        if own is None:
            spec["tolerations"] = missing
        else:
            own.extend(missing)
