"""TaintNodesByCondition: taints a new node not-ready.

Spec: core.md 7. Also when it reports Ready: the node lifecycle controller removes the taint.
"""

from __future__ import annotations

from weir.apiserver.admission.attributes import CREATE, NODE, Attributes
from weir.objects.kind import Kind
from weir.taints.wellknown import NOT_READY


class TaintNodesByCondition:
    name = "TaintNodesByCondition"

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == CREATE and kind is NODE and not subresource

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        taints = a.object.setdefault("spec", {}).setdefault("taints", [])
        if not any(t.get("key") == NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
            taints.append({"key": NOT_READY, "effect": "NoSchedule"})
