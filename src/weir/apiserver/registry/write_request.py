"""Values of a write: its request and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.auth.authn import User
from weir.apiserver.transport.bodies import manager_of
from weir.apiserver.transport.http import Request, Turn
from weir.apiserver.transport.options import WriteOptions
from weir.objects.kind import Document, Kind
from weir.store import KeyValue


class WriteResult(NamedTuple):
    """The HTTP code of a verb, and the object as JSON with kind and apiVersion."""

    code: int
    body: bytes
    stored: KeyValue | None = None  #: where the body is what is stored


@dataclass(slots=True)
class WriteRequest:
    """One write, without the object that is written."""

    kind: Kind  #: the kind and version that the client speaks
    namespace: str
    name: str  #: "" when the object names itself (create)
    user: User
    manager: str  #: of fields
    subresource: str = ""
    dry_run: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)  #: as webhooks are shown them
    warnings: list[str] = field(default_factory=list)  #: for the client; stages add to them
    owned: bool = False  #: managedFields of the object are settled already (apply, scale)
    patched: bool = False  #: a patch made the object: a uid in it is a change like others, not a precondition
    turn: Turn | None = None  #: of a large document, which is worked on beside the loop

    @classmethod
    def of(
        cls,
        request: Request,
        kind: Kind,
        namespace: str,
        name: str,
        subresource: str,
        options: WriteOptions,
        warnings: list[str],
    ) -> WriteRequest:
        """Return the write that an HTTP request with these options asks for."""
        return cls(
            kind,
            namespace,
            name,
            request.user,
            options.field_manager or manager_of(request),
            subresource,
            options.dry_run,
            options.document,
            warnings,
            turn=request.turn,
        )

    def attributes(
        self,
        operation: str,
        *,
        object: Document | None = None,
        old: Document | None = None,
        kind: Kind | None = None,
        name: str | None = None,
    ) -> Attributes:
        """Return the write as admission sees it; *kind* is the version of the objects if not that of the client."""
        return Attributes(
            operation,
            kind or self.kind,
            subresource=self.subresource,
            namespace=self.namespace,
            name=self.name if name is None else name,
            object=object,
            old=old,
            options=self.options,
            dry_run=self.dry_run,
            user=self.user,
            warnings=self.warnings,
            requested=self.kind,
        )
