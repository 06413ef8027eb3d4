"""Admission attributes of one request, and the plugin interface.

Spec: core.md 7; apiserver.md 5.1 (refusals).
One `Attributes` per write; mutating plugins edit `object` in place. `Reader` gives plugins other objects (the
namespace, a priority class) from memory; they must not be modified. A plugin has a name and, for the writes it
handles, `admit` (may edit) and/or `validate` (may only reject).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from weir.apiserver.auth.authn import User
from weir.apiserver.transport.bodies import WarningRecorder
from weir.errors import Forbidden
from weir.objects.kind import Document, Kind
from weir.objects.kinds import (
    PODS,
    by_kind,
)

if TYPE_CHECKING:
    from weir.compat.policies.dispatch import Rounds

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"

LIMIT_RANGE = by_kind("v1", "LimitRange")
RUNTIME_CLASS = by_kind("node.k8s.io/v1", "RuntimeClass")

_NOTHING: Mapping[str, Any] = {}


class Attributes:
    """One write on its way to the store."""

    __slots__ = (
        "conversions",
        "dry_run",
        "kind",
        "name",
        "namespace",
        "object",
        "old",
        "operation",
        "options",
        "requested",
        "rounds",
        "subresource",
        "user",
        "warnings",
    )

    def __init__(
        self,
        operation: str,
        kind: Kind,
        *,
        namespace: str = "",
        name: str = "",
        object: Document | None = None,
        old: Document | None = None,
        user: User,
        subresource: str = "",
        options: Mapping[str, Any] = _NOTHING,
        dry_run: bool = False,
        warnings: list[str] | None = None,
        requested: Kind | None = None,
    ) -> None:
        """*kind* is the version that `object` and `old` are in, *requested* the one that the client speaks."""
        self.operation = operation
        self.kind = kind
        self.requested = requested or kind
        self.namespace = namespace
        self.name = name
        self.object = object
        self.old = old
        self.user = user
        self.subresource = subresource
        self.options = options
        self.dry_run = dry_run
        self.warnings: list[str] = [] if warnings is None else warnings
        #: what mutating policies remember of their first round
        self.rounds: Rounds | None = None
        #: what webhooks converted (weir.apiserver.admission.versions)
        self.conversions: dict[tuple[str, str, bytes], bytes] = {}

    def shown_name(self) -> str:
        """Return what a refusal calls the object: a name yet to be generated shows as its prefix."""
        if self.name:
            return self.name
        metadata = (self.object or {}).get("metadata") or _NOTHING
        return str(metadata.get("name") or metadata.get("generateName") or "Unknown")

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Have *annotations* written to the audit log with the request."""
        if annotations and isinstance(self.warnings, WarningRecorder):
            self.warnings.annotations.update(annotations)

    def forbidden(self, text: str) -> Forbidden:
        """Return the refusal `<plural> "<name>" is forbidden: <text>`."""
        return Forbidden.admission(self.kind, self.shown_name(), text)


class Following(Protocol):
    """Changes that are delivered as they happen; false once there was a gap and everything has to be read again."""

    def __bool__(self) -> bool: ...

    def stop(self) -> None:
        """Deliver nothing more."""


class Reader(Protocol):
    """Other objects, from memory. `namespace` is "" for kinds without one. What it returns is shared."""

    def get_now(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None: ...

    def list_now(self, kind: Kind, namespace: str | None) -> list[Mapping[str, Any]]: ...

    def version(self, kind: Kind) -> int:
        """Return a number that changes whenever an object of *kind* does."""
        ...

    def follow(
        self, kind: Kind, namespace: str, changed: Callable[[str, Mapping[str, Any] | None], None]
    ) -> Following:
        """Call *changed* with the name and document of every object that is there, and again whenever one changes
        (None: it is gone)."""
        ...


class Plugin(Protocol):
    """One admission plugin; `admit` and `validate` are optional (see `chain`)."""

    @property
    def name(self) -> str: ...

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        """Return whether this plugin handles such writes; called once per (operation, kind, subresource)."""
        ...


def is_pod(kind: Kind, subresource: str) -> bool:
    """Return whether a write is to pods themselves."""
    return kind is PODS and not subresource
