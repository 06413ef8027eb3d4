"""Strategy of CustomResourceDefinition: records stored versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weir.apiserver.strategies.strategy import Context, Document, Strategy, keep
from weir.customresources.schema import known_format
from weir.customresources.structural import children
from weir.objects.kind import Kind
from weir.objects.zero_value import zero
from weir.values.quoting import quote


class CustomResourceDefinitionStrategy(Strategy):
    """Custom resource definitions."""

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
