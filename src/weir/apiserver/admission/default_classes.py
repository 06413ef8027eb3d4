"""DefaultStorageClass and DefaultIngressClass: set the default class of a claim or an Ingress without one.

Spec: apiserver.md 5.2. The default is the class that an annotation marks, the newest when several are marked. The
deprecated annotation of an Ingress counts as a class, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weir.apiserver.admission.attributes import CREATE, Attributes, Reader
from weir.objects.kind import Document, Kind
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES, by_kind
from weir.objects.quota_usage import class_of_claim
from weir.validate.networking import CLASS_ANNOTATION

STORAGE_MARKS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
INGRESS_MARK: Final = "ingressclass.kubernetes.io/is-default-class"


def default_class(classes: Iterable[Mapping[str, Any]], *marks: str) -> Mapping[str, Any] | None:
    """Return, of the classes with an annotation of *marks* set to "true", the newest, then the first by name.

    >>> default_class([{"metadata": {"name": "a", "annotations": {"x": "true"}}}], "x")["metadata"]["name"]
    'a'
    """
    marked = [
        one
        for one in classes
        if any((one["metadata"].get("annotations") or {}).get(mark) == "true" for mark in marks)
    ]
    marked.sort(key=lambda one: one["metadata"]["name"])
    marked.sort(key=lambda one: one["metadata"].get("creationTimestamp") or "", reverse=True)
    return marked[0] if marked else None


def default_storage_class(classes: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the class that claims get by default."""
    return default_class(classes, *STORAGE_MARKS)


class _DefaultClass:
    """Sets a field of the spec to the name of the default class."""

    kind: Kind
    classes: Kind
    marks: tuple[str, ...]
    field: str

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def has_class(self, document: Document) -> bool:
        raise NotImplementedError

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == CREATE and kind is self.kind and not subresource

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        if not self.has_class(a.object):
            default = default_class(self._reader.list_now(self.classes, None), *self.marks)
            if default is not None:
                a.object.setdefault("spec", {})[self.field] = default["metadata"]["name"]


class DefaultStorageClass(_DefaultClass):
    name = "DefaultStorageClass"
    kind, classes = PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
    marks, field = STORAGE_MARKS, "storageClassName"

    def has_class(self, document: Document) -> bool:
        return class_of_claim(document) is not None


class DefaultIngressClass(_DefaultClass):
    name = "DefaultIngressClass"
    kind = by_kind("networking.k8s.io/v1", "Ingress")
    classes = by_kind("networking.k8s.io/v1", "IngressClass")
    marks, field = (INGRESS_MARK,), "ingressClassName"

    def has_class(self, document: Document) -> bool:
        annotations = document["metadata"].get("annotations") or {}
        return (document.get("spec") or {}).get(self.field) is not None or CLASS_ANNOTATION in annotations
