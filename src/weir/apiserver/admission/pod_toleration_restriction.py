"""PodTolerationRestriction: a namespace gives its pods tolerations, and says which ones they may have.

Spec: core.md 7 "PodTolerationRestriction". Off by default. A namespace annotation that is present but empty
means "none" and overrides the cluster's setting; an absent one means "as the cluster says". Pods that are not
BestEffort also get a toleration of memory pressure.
Surprise: a refusal is a 500 without reason, because upstream returns it without a Status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from weir.apiserver.admission.attributes import CREATE, NAMESPACE, UPDATE, Attributes, Reader, is_pod
from weir.apiserver.admission.pod_resources import is_best_effort
from weir.apiserver.admission.toleration_lists import Toleration, merge, permitted
from weir.errors import InternalError
from weir.objects.kinds import Kind

DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
MEMORY_PRESSURE: Toleration = {
    "key": "node.kubernetes.io/memory-pressure",
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
        return msgspec.json.decode(text.encode(), type=list[dict[str, Any]])  # type: ignore[return-value]
    except msgspec.DecodeError as error:
        raise InternalError(
            f"annotation {annotation} of the namespace is not a toleration list: {error}"
        ) from error


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
        tolerations = merge(given, spec.get("tolerations") or ())
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
