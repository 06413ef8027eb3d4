"""PodTolerationRestriction: adds a namespace's default tolerations to its pods and enforces its whitelist.

Spec: core.md 7 "PodTolerationRestriction". Off by default. An empty namespace annotation means "none" and overrides
the cluster's setting; an absent one falls back to it. Pods that are not BestEffort also get a toleration of memory
pressure. A rejection is a 500 without reason, because upstream returns it without a Status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weir.apiserver.admission.attributes import CREATE, NAMESPACE, UPDATE, Attributes, Reader, is_pod
from weir.apiserver.admission.toleration_lists import Toleration, merge, permitted
from weir.errors import InternalError
from weir.objects.jsontext import JsonError, parse_json, plain
from weir.objects.kind import Kind
from weir.objects.resource_kinds import is_best_effort
from weir.objects.strict_decoder import json_word
from weir.taints import wellknown

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
        return self._reader.get_now(NAMESPACE, "", a.namespace) or {}
