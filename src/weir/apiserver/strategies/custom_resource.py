"""Strategy of custom resources: generation, and the fields each endpoint may change."""

from __future__ import annotations

from collections.abc import Iterable

from weir.apiserver.strategies.strategy import Context, Document, Strategy, keep
from weir.objects.kind import Kind
from weir.validate.meta import STANDARD_FINALIZERS
from weir.values.names import check_label_key
from weir.values.quoting import quote

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
