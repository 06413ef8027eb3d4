"""Conversion of a write to the version that a matched rule names.

Spec: admissionregistration.k8s.io/v1 `matchPolicy: Equivalent`. Webhooks and policies see the objects in the rule's
version, and their changes are converted back. Where a definition has a conversion webhook, `as_kind` raises
`Unconverted`, the caller awaits `fetch`, and admission resumes; conversions are cached per write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from weir.apiserver.admission.attributes import Attributes, Reader
from weir.apiserver.registry.conversion import from_storage, to_storage
from weir.apiserver.registry.scale import SCALE, scale_of, scaled
from weir.compat.customresources.pruning import fill_defaults
from weir.compat.customresources.reading import settle_fields
from weir.compat.customresources.served import CustomResourceKind, in_storage_version
from weir.errors import ApiError, InternalError
from weir.objects.document import copied
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind, hub_of

Document = Mapping[str, Any]


class Conversion(Protocol):
    """How webhooks convert custom resources (weir.apiserver.compat.customresources.webhook_conversion)."""

    async def convert(self, kind: CustomResourceKind, document: dict[str, Any], to: str) -> dict[str, Any]:
        """Return an object of *kind*'s version in the version *to*, as `group/version`."""


class Unconverted(Exception):
    """A webhook has to convert an object before admission can go on."""

    def __init__(self, kind: CustomResourceKind, document: Document, to: Kind) -> None:
        super().__init__(f"{kind.api_version} to {to.api_version}")
        self.kind, self.to = kind, to
        self.key = _key(kind, document, to)  #: a copy: the object may change before the webhook is called


def seen_as(a: Attributes, kind: Kind, document: Document | None) -> Document | None:
    """Return an object of the write in the version of *kind*, or what its subresource speaks (Scale, Binding)."""
    spoken = spoken_kind(a, kind)
    if spoken is kind or document is None:
        return as_kind(a, kind, a.kind, document)
    return scale_of(a.kind, dict(document)) if spoken is SCALE else document


def spoken_kind(a: Attributes, kind: Kind) -> Kind:
    """Return the kind of what is sent: *kind*, or another that the write's subresource speaks."""
    row = kind.subresource(a.subresource) if a.subresource else None
    if row is None or not row.kind:
        return kind
    group, version = row.group or kind.group, row.version or kind.version
    return by_kind(f"{group}/{version}" if group else version, row.kind)


def taken_from(a: Attributes, kind: Kind, document: Document) -> Document | None:
    """Return the write's object as it was left in the version of *kind*, in its own version again.

    What a custom resource lacks now is filled in by the version in which it was changed.
    """
    spoken = spoken_kind(a, kind)
    if spoken is not kind:
        replicas = (document.get("spec") or {}).get("replicas") or 0
        return scaled(a.kind, a.object or {}, replicas) if spoken is SCALE else document
    if isinstance(kind, CustomResourceKind) and kind is not a.kind:
        document = copied(document)
        fill_defaults(document, kind.schema)
    return as_kind(a, a.kind, kind, document)


def as_kind(a: Attributes, kind: Kind, own: Kind, document: Document | None) -> Document | None:
    """Return a document of *own* in the version of *kind*; raises Unconverted when a webhook must be called."""
    if document is None or kind is own:
        return document
    if isinstance(own, CustomResourceKind):
        if own.version == kind.version:
            return document
        if not own.asks_webhook:
            return {**document, "apiVersion": kind.api_version}
        found = a.conversions.get(_key(own, document, kind))
        if found is None:
            raise Unconverted(own, document, kind)
        return msgspec.json.decode(found)  # type: ignore[no-any-return]
    shown = from_storage(kind, to_storage(own, dict(document)))
    return {**shown, "apiVersion": kind.api_version, "kind": kind.kind}


def _key(own: Kind, document: Document, kind: Kind) -> tuple[str, str, bytes]:
    return own.api_version, kind.api_version, msgspec.json.encode(document)


async def fetch(conversion: Conversion | None, a: Attributes, wanted: Unconverted) -> None:
    """Have a webhook convert what is wanted; raises InternalError when it does not."""
    if conversion is None:
        raise InternalError(f"nothing converts {wanted}")
    try:
        document = msgspec.json.decode(wanted.key[2])
        found = await conversion.convert(wanted.kind, document, wanted.to.api_version)
    except ApiError as error:
        raise InternalError(
            f"Internal error occurred: {error.message}",
            reason="InternalError",
            details={"causes": [{"message": error.message}]},
        ) from error
    a.conversions[wanted.key] = msgspec.json.encode(found)


class InVersion:
    """Other objects as policies see them (weir.compat.policies.dispatch.Reader): in the version of the paramKind."""

    def __init__(self, reader: Reader, a: Attributes) -> None:
        self._reader, self._a = reader, a

    def get_now(self, kind: Kind, namespace: str, name: str) -> Document | None:
        stored = _stored(kind)
        return self._shown(kind, stored, self._reader.get_now(stored, namespace, name))

    def list_now(self, kind: Kind, namespace: str | None) -> Sequence[Document]:
        stored = _stored(kind)
        found = (self._shown(kind, stored, one) for one in self._reader.list_now(stored, namespace))
        return [one for one in found if one is not None]

    def _shown(self, kind: Kind, stored: Kind, document: Document | None) -> Document | None:
        if stored is kind or document is None:
            return document
        shown = as_kind(self._a, kind, stored, document)
        if isinstance(kind, CustomResourceKind) and shown is not None:
            shown = copied(shown)
            settle_fields(shown, kind.schema)  # as a client of this version reads it
        return shown


def _stored(kind: Kind) -> Kind:
    return in_storage_version(kind) if isinstance(kind, CustomResourceKind) else hub_of(kind)
