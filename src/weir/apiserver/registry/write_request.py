"""Who writes which object, and how: what create, update, patch and apply have in common.

Not here: the object itself, which each verb makes in its own way (weir.apiserver.registry.verbs, .patching, .scale).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.auth.authn import User
from weir.apiserver.off_loop import Turn
from weir.apiserver.transport.bodies import manager_of
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.options import WriteOptions
from weir.objects.kind import Kind

__all__ = ["WriteRequest"]

Document = dict[str, Any]


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
    warnings: list[str] = field(default_factory=list)  #: for the client; verbs add to them
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
        manager = options.field_manager or manager_of(request)
        return cls(
            kind,
            namespace,
            name,
            request.user,
            manager,
            subresource,
            options.dry_run,
            options.document,
            warnings,
            turn=request.turn,
        )

    def attributes(
        self, operation: str, kind: Kind, name: str, new: Document, old: Document | None = None
    ) -> Attributes:
        """Return the write as admission sees it, the objects in the version of *kind*."""
        return Attributes(
            operation,
            kind,
            subresource=self.subresource,
            namespace=self.namespace,
            name=name,
            object=new,
            old=old,
            options=self.options,
            dry_run=self.dry_run,
            user=self.user,
            warnings=self.warnings,
            requested=self.kind,
        )
