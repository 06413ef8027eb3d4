"""The default strategy: generation, and the fields each endpoint may change.

Spec: apiserver.md 4 "Create and update". The main endpoint never changes status; `/status` changes only status,
labels and annotations. Generation counts changes of everything except metadata and status.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from weir.fields.field import FieldError
from weir.gates import Gates
from weir.objects.kind import Document, Kind

_NOT_SPEC = frozenset({"kind", "apiVersion", "metadata", "status"})


class Context(Protocol):
    """What a strategy may ask while it prepares an object."""

    @property
    def now(self) -> str:
        """The time of the request, RFC 3339 with seconds."""

    @property
    def gates(self) -> Gates:
        """Which features are on."""

    def documents(self, kind: Kind) -> list[Document]:
        """Every stored object of *kind*, all namespaces."""


class Strategy:
    """How objects without rules of their own are prepared."""

    is_emptied_first = False  #: a controller empties an object before it can go (`hand_over`)
    starts_without_status = False  #: the status of a new object is the controllers' to write
    status_keeps_metadata = (
        False  #: a write to status takes nothing from metadata, not even labels and annotations
    )

    def recall(self, new: Document, old: Document) -> None:
        """Fill in from the stored object what would otherwise be defaulted."""

    def set_requester(self, new: Document, user: Document) -> None:
        """Record the requesting user in a new object, for kinds that have it (*user*: UserInfo)."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Set what the server sets on a new object."""
        if kind.generation:
            new["metadata"]["generation"] = 1
        if self.starts_without_status:
            new["status"] = {}

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Keep what an update of the main resource may not touch and count the change."""
        if kind.generation:
            generation = old["metadata"].get("generation", 0)
            if self.counts(new, old):
                generation += 1
            if generation:
                new["metadata"]["generation"] = generation

    def counts(self, new: Document, old: Document) -> bool:
        """Return whether the difference between the two is a new generation."""
        return any(
            new.get(name) != old.get(name) for name in new.keys() | old.keys() if name not in _NOT_SPEC
        )

    def restrict(self, kind: Kind, new: Document, old: Document, subresource: str) -> None:
        """Put back everything that a request to *subresource* may not change.

        Runs before ownership of fields is computed, so what was put back is not owned either.
        """
        if subresource == "":
            if kind.has_status:
                keep(new, old, "status")
        elif subresource == "status":
            for name in new.keys() | old.keys():
                if name not in _NOT_SPEC:
                    keep(new, old, name)
            keep(new["metadata"], old["metadata"], "ownerReferences")
            if "finalizers" in new["metadata"] or "finalizers" in old["metadata"]:
                keep(new["metadata"], old["metadata"], "finalizers")
            if self.status_keeps_metadata:
                for name in ("labels", "annotations"):
                    keep(new["metadata"], old["metadata"], name)

    def problems(
        self, kind: Kind, new: Document, old: Document | None, context: Context, *, dry_run: bool = False
    ) -> Iterable[FieldError]:
        """Return what is wrong in view of other objects; reported before what validation finds.

        With *dry_run* nothing is taken from others, so what they have is no obstacle.
        """
        return ()

    def relaxes(self, kind: Kind, new: Document, context: Context) -> bool:
        """Return whether *new* may use names that only resource.k8s.io/v1alpha4 takes, in any version."""
        return False

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterable[str]:
        """Return what the client should know about an object that is accepted; *old* is None when it is new."""
        return ()

    def delete_grace(self, document: Document, asked: int | None) -> int | None:
        """Return the grace period in seconds, None when this kind is not deleted gracefully."""
        return None

    def hand_over(self, document: Document, now: str) -> Document | None:
        """Return an object as a delete leaves it to the controller that empties it; None once it goes like others."""
        return None


def keep(new: Document, old: Document, name: str) -> None:
    """Give *new* the value *old* has under *name*."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)
