"""DefaultTolerationSeconds: tolerates not-ready and unreachable nodes for five minutes by default.

Spec: core.md 4.7 "DefaultTolerationSeconds admission". Only key and effect of the pod's own tolerations are compared:
an operator that can never match an empty value suppresses the default all the same. A toleration by `expression` has
neither key nor effect and does not count [D-12].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes, is_pod
from weir.objects.kind import Kind
from weir.taints.wellknown import NOT_READY, UNREACHABLE

DEFAULT_SECONDS = 300


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
