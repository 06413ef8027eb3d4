"""Strategies of CustomResourceDefinition and of custom resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weir.apiserver.strategies.strategy import Context, Strategy, keep
from weir.compat.customresources.schema import known_format
from weir.compat.customresources.served import with_condition
from weir.compat.customresources.structural import children
from weir.fields.meta import STANDARD_FINALIZERS
from weir.objects.document import zero
from weir.objects.kind import Document, Kind
from weir.values.names import check_label_key
from weir.values.quoting import quote

#: keeps a definition until its objects are gone
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_IDENTITY = frozenset({"kind", "apiVersion", "metadata"})


class CustomResourceStrategy(Strategy):
    """Custom resources of every kind."""

    def counts(self, new: Document, old: Document) -> bool:
        """Everything but metadata is a new generation; a status written by itself is put back before."""
        return any(
            new.get(name) != old.get(name) for name in new.keys() | old.keys() if name not in _IDENTITY
        )

    def restrict(self, kind: Kind, new: Document, old: Document, subresource: str) -> None:
        """The status is written by itself where it is a subresource, and then nothing else is."""
        if subresource == "status":
            for name in new.keys() | old.keys():
                if name not in ("kind", "apiVersion", "metadata", "status"):
                    keep(new, old, name)
            managed = new["metadata"].get("managedFields")
            version = new["metadata"].get("resourceVersion")
            new["metadata"] = dict(old["metadata"])
            new["metadata"].pop("managedFields", None)
            if managed is not None:
                new["metadata"]["managedFields"] = managed
            if version is not None:
                new["metadata"]["resourceVersion"] = version
        elif kind.has_status and not subresource:
            keep(new, old, "status")

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Count the change."""
        if self.counts(new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterable[str]:
        """Return warnings about new finalizers without a domain."""
        known = set() if old is None else set(old["metadata"].get("finalizers") or ())
        found: list[str] = []
        for name in sorted({*(new["metadata"].get("finalizers") or ())} - known):
            found += [f"metadata.finalizers: {quote(name)}: {text}" for text in check_label_key(name)]
            if "/" not in name and name not in STANDARD_FINALIZERS:
                path = " including a path (/)" if "." in name else ""
                found.append(
                    f"metadata.finalizers: {quote(name)}: prefer a domain-qualified finalizer name{path} to "
                    "avoid accidental conflicts with other finalizer writers"
                )
        return found


class CustomResourceDefinitionStrategy(Strategy):
    """Custom resource definitions."""

    is_emptied_first = True

    def hand_over(self, document: Document, now: str) -> Document | None:
        """Hold the definition by a finalizer until its objects are gone; from then on it goes like others."""
        metadata = document["metadata"]
        if metadata.get("deletionTimestamp"):
            return None
        finalizers = metadata.get("finalizers") or []
        if CLEANUP not in finalizers:
            finalizers = [*finalizers, CLEANUP]
        held = {**document, "metadata": {**metadata, "deletionTimestamp": now, "finalizers": finalizers}}
        text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        return with_condition(held, "Terminating", "True", "InstanceDeletionPending", text, now)

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Begin with an empty status but for the version that is stored first."""
        super().prepare_create(kind, new, context)
        new["status"] = dict(zero(kind)["status"])
        _note_stored(new)

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Note a version that objects are stored in from now on."""
        super().prepare_update(kind, new, old, context)
        _note_stored(new)

    def restrict(self, kind: Kind, new: Document, old: Document, subresource: str) -> None:
        """Keep the status, or the spec; finalizers change with either."""
        keep(new, old, "spec" if subresource == "status" else "status")

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterable[str]:
        """Return warnings about unknown formats, and sets that server-side apply cannot merge."""
        if old is not None and new.get("spec") == old.get("spec"):
            return ()
        before = set() if old is None else set(_warnings(old))
        return [text for text in _warnings(new) if text not in before]


def _note_stored(new: Document) -> None:
    status = new.setdefault("status", {})
    stored = [one["name"] for one in (new.get("spec") or {}).get("versions") or () if one.get("storage")][:1]
    known = status.get("storedVersions") or []
    if stored and stored[0] not in known:
        status["storedVersions"] = [*known, *stored]


def _warnings(definition: Document) -> Iterator[str]:
    sets: set[str] = set()
    for version in (definition.get("spec") or {}).get("versions") or ():
        root = (version.get("schema") or {}).get("openAPIV3Schema")
        waiting = [] if root is None else [root]
        while waiting:
            schema = waiting.pop()
            waiting += reversed(list(children(schema)))
            if (name := schema.get("format")) and not known_format(schema.get("type") or "", name):
                yield f"unrecognized format {quote(name)}"
            items = schema.get("items")
            inner = items.get("type") if isinstance(items, dict) else None
            if schema.get("x-kubernetes-list-type") == "set" and inner in ("object", "array"):
                sets.add(inner)
    for inner in sorted(sets):
        yield (
            f"x-kubernetes-list-type: set for items of type {quote(inner)} is not supported by server-side "
            "apply or CEL validation rules"
        )
