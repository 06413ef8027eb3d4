"""Ensures that every namespace has the service account `default` and the ConfigMap with the root CA.

The API server creates both with the namespace; this controller restores them when they are deleted or changed. The CA
comes from kube-system's ConfigMap, which the API server writes at startup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Action, ActionContext, Controller, Document, Steps, WakeAt
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.errors import AlreadyExists, Forbidden, NotFound
from weir.objects.kind import Kind
from weir.objects.kinds import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS

ACCOUNT: Final = "default"
BUNDLE: Final = "kube-root-ca.crt"
SOURCE: Final = "kube-system"
DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class ServiceAccounts(Controller):
    """The service account controller."""

    name = "serviceaccount-controller"
    kinds: Sequence[Kind] = (NAMESPACES, SERVICE_ACCOUNTS)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield namespaces that are there and may lack their account."""
        if kind is NAMESPACES:
            if new is not None and old is None:
                yield key_of(new)
        elif new is None and old["metadata"]["name"] == ACCOUNT:
            yield ObjectKey("", old["metadata"]["namespace"])

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the making of an account that is missing."""
        if (
            _is_active(listers.get(NAMESPACES, key.name))
            and listers.get(SERVICE_ACCOUNTS, ACCOUNT, key.name) is None
        ):
            yield EnsureNamespaceObjects(
                SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT, "namespace": key.name}}, key.name
            )


class RootCertificates(Controller):
    """The root CA certificate publisher."""

    name = "root-ca-certificate-publisher-controller"
    kinds: Sequence[Kind] = (NAMESPACES, CONFIG_MAPS)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield namespaces that may lack the CA, or hold another; all of them when the CA itself changed."""
        if kind is NAMESPACES:
            if new is not None and old is None:
                yield key_of(new)
            return
        metadata = (new or old)["metadata"]
        if metadata["name"] == BUNDLE:
            yield ObjectKey("", metadata["namespace"])

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what puts the CA back."""
        source = listers.get(CONFIG_MAPS, BUNDLE, SOURCE)
        if source is None:
            return
        if (
            key.name == SOURCE
        ):  # it changed, or is seen for the first time: every namespace is compared with it
            for namespace in listers.all(NAMESPACES):
                name = namespace["metadata"]["name"]
                if name != SOURCE and _differs(listers.get(CONFIG_MAPS, BUNDLE, name), source):
                    yield WakeAt(ObjectKey("", name), now)
            return
        present = listers.get(CONFIG_MAPS, BUNDLE, key.name)
        if not _is_active(listers.get(NAMESPACES, key.name)) or not _differs(present, source):
            return
        metadata = {
            "name": BUNDLE,
            "namespace": key.name,
            "annotations": {"kubernetes.io/description": DESCRIPTION},
        }
        yield EnsureNamespaceObjects(
            CONFIG_MAPS, {"metadata": metadata, "data": source.get("data") or {}}, key.name
        )


@dataclass(frozen=True)
class EnsureNamespaceObjects(Steps):
    """Make an object of a namespace, or make it say the same again."""

    kind: Kind
    document: Document
    namespace: str

    async def carry_out(self, context: ActionContext) -> None:
        try:
            await context.client.create(self.kind, dict(self.document), self.namespace)
        except AlreadyExists:
            if "data" in self.document:
                patch = {"data": self.document["data"]}
                await context.client.patch(
                    self.kind, self.document["metadata"]["name"], patch, self.namespace
                )
        except (Forbidden, NotFound):
            return  # the namespace is going


def _is_active(namespace: Document | None) -> bool:
    return namespace is not None and not namespace["metadata"].get("deletionTimestamp")


def _differs(present: Document | None, source: Document) -> bool:
    return present is None or (present.get("data") or {}) != (source.get("data") or {})
