"""A few stored objects for admission tests, and how to send a write past a plugin or the whole chain."""

from __future__ import annotations

from typing import Any

from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.admission.chain import Chain, Settings
from weir.apiserver.auth.authn import User
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind

JANE = User("jane", groups=("system:authenticated",))


class Followed:
    """Somebody who is told what changes."""

    def __init__(self, kind: Kind, namespace: str, changed: Any) -> None:
        self.kind, self.namespace, self.changed = kind, namespace, changed
        self.alive = True

    def __bool__(self) -> bool:
        return self.alive

    def stop(self) -> None:
        self.alive = False


class Objects:
    """A Reader over a plain list of documents."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.documents = list(documents)
        self.changes = 0
        self.followers: list[Followed] = []

    def add(self, document: dict[str, Any]) -> None:
        self.documents.append(document)
        self.changes += 1
        self._tell(document, document)

    def get_now(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        for document in self.list_now(kind, namespace if kind.namespaced else None):
            if document["metadata"]["name"] == name:
                return document
        return None

    def list_now(self, kind: Kind, namespace: str | None) -> list[dict[str, Any]]:
        return [
            document
            for document in self.documents
            if (document["apiVersion"], document["kind"]) == (kind.api_version, kind.kind)
            and (namespace is None or document["metadata"].get("namespace", "") == namespace)
        ]

    def follow(self, kind: Kind, namespace: str, changed: Any) -> Followed:
        followed = Followed(kind, namespace, changed)
        self.followers.append(followed)
        for document in self.list_now(kind, namespace):
            changed(document["metadata"]["name"], document)
        return followed

    def remove(self, document: dict[str, Any]) -> None:
        self.documents.remove(document)
        self.changes += 1
        self._tell(document, None)

    def _tell(self, document: dict[str, Any], now: dict[str, Any] | None) -> None:
        for each in self.followers:
            metadata = document["metadata"]
            if (each.kind.api_version, each.kind.kind) == (document["apiVersion"], document["kind"]) and (
                each.namespace == metadata.get("namespace", "") and each
            ):
                each.changed(metadata["name"], now)

    def version(self, kind: Kind) -> int:
        return self.changes


def stored(api_version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def namespace(name: str = "ns", **rest: Any) -> dict[str, Any]:
    return stored("v1", "Namespace", name, **rest)


def ordinary() -> Objects:
    """A namespace with its default service account, as controllers leave it."""
    return Objects(namespace(), stored("v1", "ServiceAccount", "default", "ns"))


def pod(**spec: Any) -> dict[str, Any]:
    containers = spec.pop("containers", [{"name": "c", "image": "i"}])
    return stored("v1", "Pod", "p", "ns", spec={"containers": containers, **spec})


def write(
    operation: str, document: dict[str, Any], old: dict[str, Any] | None = None, **rest: Any
) -> Attributes:
    kind = by_kind(document["apiVersion"], document["kind"])
    metadata = document["metadata"]
    return Attributes(
        operation,
        kind,
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        object=document,
        old=old,
        **{"user": JANE, **rest},
    )


def create(document: dict[str, Any], **rest: Any) -> Attributes:
    return write("CREATE", document, **rest)


def update(document: dict[str, Any], old: dict[str, Any], **rest: Any) -> Attributes:
    return write("UPDATE", document, old, **rest)


def chain(objects: Objects, **settings: Any) -> Chain:
    return Chain.build(objects, Settings(**settings), new_suffix=lambda: "abcde")
