"""DefaultIngressClass: sets the default class of an Ingress without one.

The deprecated annotation counts as a class, too.
"""

from __future__ import annotations

from typing import Final

from weir.apiserver.admission.attributes import CREATE, Attributes, Reader
from weir.apiserver.admission.storage import newest_marked
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.validate.networking import CLASS_ANNOTATION

INGRESS: Final = by_kind("networking.k8s.io/v1", "Ingress")
INGRESS_CLASS: Final = by_kind("networking.k8s.io/v1", "IngressClass")
IS_DEFAULT: Final = "ingressclass.kubernetes.io/is-default-class"


class DefaultIngressClass:
    name = "DefaultIngressClass"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == CREATE and kind is INGRESS and not subresource

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        spec = a.object.setdefault("spec", {})
        annotations = a.object["metadata"].get("annotations") or {}
        if spec.get("ingressClassName") is not None or CLASS_ANNOTATION in annotations:
            return
        default = newest_marked(self._reader.list_now(INGRESS_CLASS, None), IS_DEFAULT)
        if default is not None:
            spec["ingressClassName"] = default["metadata"]["name"]
