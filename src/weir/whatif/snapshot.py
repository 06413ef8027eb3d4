"""The objects of a snapshot that have a part in a copy, read as their kinds and held by kind and name.

Objects that an API server wrote are kept as they are; only what is missing is filled in (weir.whatif.completion).
Objects added because another one needs them are annotated, and do not count as collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from weir.errors import DecodeError
from weir.objects.core import ViewError
from weir.objects.defaults import default
from weir.objects.document import check
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS, by_kind, find_kind
from weir.objects.times import format_time

Document = dict[str, Any]
#: Objects that say something about the moment, about rights or about the network, or that call out: no part of a copy.
LEFT_OUT: Final = frozenset(
    {
        "Event",
        "Lease",
        "Endpoints",
        "EndpointSlice",
        "Secret",
        "ConfigMap",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
#: On what was put in because something names it.
_MADE_UP: Final = "weir.dev/not-collected"


def owner_of(document: Document) -> Document | None:
    """Return the entry of the object's controller, if it has one."""
    owners = document["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def read_object(document: Document) -> Document | None:
    """Return *document* read as its kind, defaults filled in; None for a kind that has no part in a copy."""
    name, version = document.get("kind"), document.get("apiVersion")
    if not isinstance(name, str) or name in LEFT_OUT:
        return None
    kind = _kind_of(name, version if isinstance(version, str) else "")
    if kind is None:
        return None
    named = {**document, "apiVersion": kind.api_version, "kind": kind.kind}
    try:
        found, _ = check(named, kind, field_validation="Ignore")
        metadata = found.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("name"):
            raise ViewError(f"{name}: metadata.name is missing")
        default(found, kind)
    except (DecodeError, AttributeError, TypeError, KeyError, ValueError) as error:
        if isinstance(error, ViewError):
            raise
        where = (
            (document.get("metadata") or {}).get("name") if isinstance(document.get("metadata"), dict) else ""
        )
        raise ViewError(f"{name} {where}: {error}") from None
    if kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or "default"
    return found


def _kind_of(name: str, version: str) -> Kind | None:
    kind = find_kind(version, name) if version else None
    if kind is None and not version:
        kind = next((each for each in KINDS if each.stored and each.kind == name and not each.hub), None)
    return kind if kind is not None and kind.stored else None


class Snapshot:
    """The objects of a snapshot, by kind, while they are completed; and notes on what was made up."""

    def __init__(self, now: datetime) -> None:
        self._now = format_time(now)
        self.held: dict[str, dict[tuple[str, str], Document]] = {}
        self.notes: list[str] = []
        self._specs: dict[bytes, Document] = {}

    def add(self, document: Document) -> None:
        """Hold *document*, if it has a part in a copy. Raises ViewError."""
        found = self._read_pod(document) if document.get("kind") == "Pod" else read_object(document)
        if found is not None:
            self.put(found)

    def _read_pod(self, document: Document) -> Document | None:
        """Return a pod read as its kind; pods of one template have all parts of their spec but the node in common."""
        spec = document.get("spec")
        if not isinstance(spec, dict) or not isinstance(node := spec.get("nodeName", ""), str):
            return read_object(document)
        try:
            key = msgspec.json.encode({name: value for name, value in spec.items() if name != "nodeName"})
        except (TypeError, ValueError, RecursionError):
            return read_object(document)
        shared = self._specs.get(key)
        found = read_object(document if shared is None else {**document, "spec": {}})
        if found is None:
            return None
        if shared is None:
            self._specs[key] = {name: value for name, value in found["spec"].items() if name != "nodeName"}
        else:
            found["spec"] = {**shared, "nodeName": node} if node else dict(shared)
        return found

    def put(self, document: Document) -> None:
        """Hold an object that was read, with a uid and a time of its creation."""
        metadata = document["metadata"]
        kind, key = document["kind"], (metadata.get("namespace", ""), metadata["name"])
        metadata["uid"] = metadata.get("uid") or "/".join(filter(None, (kind.lower(), *key)))
        metadata["creationTimestamp"] = metadata.get("creationTimestamp") or self._now
        self.held.setdefault(kind, {})[key] = document

    def of(self, kind: str) -> dict[tuple[str, str], Document]:
        """Return the objects of *kind* by namespace and name."""
        return self.held.setdefault(kind, {})

    def objects(self) -> Iterator[Document]:
        """Yield every object that is held."""
        for held in self.held.values():
            for _, document in sorted(held.items()):
                yield document

    def collected(self, kind: str) -> bool:
        """Return whether the snapshot itself had objects of *kind*."""
        return any(not _is_made_up(each) for each in self.of(kind).values())

    def ensure(
        self,
        version: str,
        kind: str,
        namespace: str,
        name: str,
        rest: Mapping[str, Any],
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Put an object in unless it is there."""
        if (namespace, name) in self.of(kind):
            return
        metadata: Document = {"name": name, "annotations": {**(annotations or {}), _MADE_UP: "true"}}
        if namespace:
            metadata["namespace"] = namespace
        document = {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}
        default(document, by_kind(version, kind))
        self.put(document)


def _is_made_up(document: Document) -> bool:
    return _MADE_UP in (document["metadata"].get("annotations") or {})
