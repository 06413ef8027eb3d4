"""The steps of a create that look at the new object alone: defaults, ownership, validation, the stored value.

Spec: apiserver.md 4 "Create and update", 6 "managedFields".
Not here: the order of steps, and those that ask others: admission, names, the store (weir.apiserver.registry.verbs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from weir import errors
from weir.apiserver import documents
from weir.apiserver.off_loop import OffLoop, Turn
from weir.apiserver.patches import apply as server_side
from weir.apiserver.registry import codec, conversion
from weir.apiserver.strategies import for_kind
from weir.apiserver.strategies.strategy import Context
from weir.apiserver.transport.warnings import first_warnings
from weir.objects import v1alpha4
from weir.objects.kind import Kind
from weir.objects.kinds import hub_of
from weir.validate.field import FieldError

__all__ = ["NewObject"]

Document = dict[str, Any]


class NewObject:
    """An object on its way from the client's document to its first stored value."""

    def __init__(self, document: Document, served: Kind) -> None:
        """*served* is the version the client speaks; from `convert` on the document is of the stored one."""
        self.document, self.served, self.kind = document, served, hub_of(served)

    @property
    def metadata(self) -> Document:
        found: Document = self.document.setdefault("metadata", {})
        return found

    def complete(self, now: str, manager: str | None) -> None:
        """Fill in the defaults, note *manager* as owner (None: owners are settled), turn it into the stored version."""
        documents.default(self.document, self.served, now)
        if manager is not None:
            server_side.update_managed_fields(
                self.document, None, self.served, manager=manager, subresource="", now=now
            )
        if self.served is not self.kind:
            self.document = conversion.to_storage(self.served, self.document)

    def check(self, context: Context, *, dry_run: bool = False) -> Iterable[str]:
        """Prepare the object as its kind does and return the warnings about it; raises 422."""
        problems, validate = self._prepare(context, dry_run)
        return self._judge([*problems, *validate()])

    async def check_beside(
        self, context: Context, off_loop: OffLoop, turn: Turn, *, dry_run: bool = False
    ) -> Iterable[str]:
        """Do as `check` for a large object: what looks at it alone is done beside the loop."""
        problems, validate = self._prepare(context, dry_run)
        return await off_loop.run(turn, lambda: self._judge([*problems, *validate()]))

    def _prepare(
        self, context: Context, dry_run: bool
    ) -> tuple[list[FieldError], Callable[[], list[FieldError]]]:
        """Prepare the object; return what its strategy finds wrong, and how to find the rest."""
        kind, new, strategy = self.kind, self.document, for_kind(self.kind)
        strategy.prepare_create(kind, new, context)
        if kind.has_status and "status" not in new and "status" in (empty := documents.zero_fields(kind)):
            new["status"] = dict(empty["status"])
        relaxed = self.served.version == v1alpha4.VERSION or strategy.relaxes(kind, new, context)
        validate = partial(documents.validate, new, None, kind, context.gates, relaxed=relaxed)
        return [*strategy.problems(kind, new, None, context, dry_run=dry_run)], validate

    def _judge(self, problems: list[FieldError]) -> Iterable[str]:
        if problems:
            raise errors.Invalid.from_field_errors(self.kind, self.metadata.get("name", ""), problems)
        return first_warnings(for_kind(self.kind).warnings(self.kind, self.document))

    def shown(self) -> Document:
        """Return the document in the client's version."""
        if self.served is self.kind:
            return self.document
        return conversion.from_storage(self.served, self.document)

    def encode(self) -> bytes:
        """Return the value to store."""
        documents.settle(self.document, self.kind)
        return codec.encode(self.document, self.kind)
