"""Get, create and update one object.

Spec: apiserver.md 2 "Decoding", 4 "Create and update", 6 "managedFields". The order of a write is
upstream's: decode, default, note who owns which field, mutating admission, the kind's own preparation,
validation, validating admission, compare-and-set. An update that changes nothing writes nothing.
A write that loses the race against another is tried again on the newer object unless the client named the
version it had read.
Not here: the steps of a create that look at the object alone (weir.apiserver.registry.new_object), patches
(.patching), delete (.deletion), list and watch (.lists, .watch), subresources that are not the object itself
(.subresources).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from weir import errors
from weir.apiserver import documents
from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.off_loop import LARGE_BYTES, OffLoop
from weir.apiserver.patches import apply as server_side
from weir.apiserver.registry import codec, conversion
from weir.apiserver.registry.identity import (
    check_name,
    check_namespace,
    gone_with_this_update,
    keep_server_set,
    new_uid,
    parse_version,
    uid_text,
)
from weir.apiserver.registry.new_object import NewObject
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.strategies import for_kind
from weir.apiserver.transport.bodies import decode
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.options import WriteOptions
from weir.apiserver.transport.warnings import first_warnings
from weir.clock import Clock
from weir.customresources.served import CustomResourceKind
from weir.gates import Gates
from weir.objects import v1alpha4
from weir.objects.kind import Kind
from weir.objects.kinds import hub_of
from weir.objects.times import format_time
from weir.store import KeyValue, Store, Write
from weir.store import backend as store_errors
from weir.validate.field import Tolerated, invalid
from weir.values.entropy import system_bytes
from weir.values.names import generate_name

__all__ = ["Parts", "Verbs", "WriteResult"]

Document = dict[str, Any]


ATTEMPTS = 8
_encode = msgspec.json.Encoder().encode


class Admission(Protocol):
    """The chain of admission plugins. An awaitable comes back only when a webhook must be asked."""

    def mutate(self, attributes: Attributes) -> Awaitable[None] | None:
        """Edit the object, or raise why it is refused."""

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        """Raise why the object is refused."""


class WriteResult(NamedTuple):
    """What a verb did: the HTTP code, and the object as JSON with kind and apiVersion."""

    code: int
    body: bytes


class Parts(NamedTuple):
    """What the verbs are made of."""

    store: Store
    reader: codec.Reader
    admission: Admission
    gates: Gates
    clock: Clock
    #: for uids and generated names; a simulation seeds it
    random_bytes: Callable[[int], bytes] = system_bytes
    event_ttl_seconds: float | None = None  #: how long Events are kept; None: as the kind says
    off_loop: OffLoop | None = None  #: where large documents are worked on; None: one of its own
    conversion: conversion.Conversion | None = None  #: by webhooks; None: none is called


def body_of(document: Document) -> bytes:
    """Return a document that is not stored as the API shows it."""
    return _encode(document)


class Verbs:
    """The verbs on one object."""

    def __init__(self, parts: Parts) -> None:
        self.store, self.reader, self.admission = parts.store, parts.reader, parts.admission
        self.gates, self.clock, self.random_bytes = parts.gates, parts.clock, parts.random_bytes
        self._event_ttl = parts.event_ttl_seconds
        self.off_loop, self.conversion = parts.off_loop or OffLoop(), parts.conversion
        self._entropy = bytearray()
        self._second, self._now = -1, ""

    # ------------------------------------------------------------------------------------------ context

    @property
    def now(self) -> str:
        """The time, RFC 3339 with seconds."""
        second = int(self.clock.time())
        if second != self._second:
            self._second = second
            self._now = format_time(datetime.fromtimestamp(second, UTC))
        return self._now

    def ttl_seconds(self, kind: Kind) -> float:
        """Return after how long an object of *kind* is forgotten; 0 is never. Events alone are."""
        if not kind.ttl_seconds:
            return 0.0
        return float(kind.ttl_seconds) if self._event_ttl is None else self._event_ttl

    async def decode(self, request: Request, kind: Kind, field_validation: str) -> tuple[Document, list[str]]:
        """Return the body of *request* as a checked document with the warnings it earned."""
        if request.turn is None:
            return decode(request, kind, field_validation)
        return await self.off_loop.run(request.turn, decode, request, kind, field_validation)

    def _new_uid(self) -> str:
        return new_uid(self._entropy, self.random_bytes)

    def documents(self, kind: Kind) -> list[Document]:
        """Every stored object of *kind*, all namespaces."""
        return [codec.decode(kind, found.value) for found in self.store.range(kind.prefix).items]

    # ------------------------------------------------------------------------------------------- reading

    def find(self, kind: Kind, namespace: str, name: str) -> KeyValue:
        """Return the stored object; raises 404."""
        found = self.store.get(kind.key(namespace, name))
        if found is None:
            raise errors.NotFound.object(kind, name)
        return found

    async def in_version(self, kind: Kind, found: KeyValue) -> KeyValue:
        """Return a stored object as it can be read in the version of *kind*: a webhook may have to convert it."""
        if not conversion.asks_webhook(kind):
            return found
        return (await conversion.in_version(self.conversion, kind, (found,)))[0]

    async def read(self, kind: Kind, namespace: str, name: str) -> KeyValue:
        """Return the stored object in the version of *kind*; raises 404."""
        try:
            return await self.in_version(kind, self.find(kind, namespace, name))
        except conversion.Undecodable as error:
            raise error.of_read() from error

    async def to_store(self, kind: Kind, document: Document) -> Document:
        """Return what of *document* is encoded for the store: a webhook may have to convert it."""
        if self.conversion is None or not isinstance(kind, CustomResourceKind) or not kind.asks_webhook:
            return document
        return await self.conversion.write(kind, document)

    async def as_if_stored(self, kind: Kind, document: Document) -> Document:
        """Return what a dry run shows of *document*: as it would come back from the store."""
        if not conversion.asks_webhook(kind):
            return document
        metadata = document["metadata"]
        value = codec.encode(await self.to_store(kind, document), kind)
        found = codec.decode(kind, (await self.in_version(kind, KeyValue("", value, 0, 0))).value)
        version = {name: metadata[name] for name in ("resourceVersion",) if name in metadata}
        found["metadata"].pop("resourceVersion", None)
        return {**found, "metadata": {**version, **found["metadata"]}}

    async def get(self, kind: Kind, namespace: str, name: str) -> WriteResult:
        """Return one object."""
        found = await self.read(kind, namespace, name) if kind.converted else self.find(kind, namespace, name)
        return WriteResult(200, codec.served(kind, found.value))

    # ------------------------------------------------------------------------------------------- create

    async def create(self, request: Request, kind: Kind, namespace: str, warnings: list[str]) -> WriteResult:
        """Create the object the body describes."""
        options = WriteOptions.parse(request.params, "CreateOptions")
        write = WriteRequest.of(request, kind, namespace, "", "", options, warnings)
        document, found = await self.decode(request, kind, options.field_validation)
        warnings.extend(found)
        return await self.create_document(write, document)

    async def create_document(self, write: WriteRequest, document: Document) -> WriteResult:
        """Create a decoded object."""
        new = NewObject(document, write.kind)
        served, kind, namespace, metadata = new.served, new.kind, write.namespace, new.metadata
        check_namespace(served, metadata, namespace)
        if isinstance(kind, CustomResourceKind) and kind.terminating:
            reason = "create not allowed while custom resource definition is terminating"
            raise errors.Forbidden.admission(kind, metadata.get("name") or "", reason)
        if metadata.get("resourceVersion"):
            raise errors.InternalError("resourceVersion should not be set on objects to be created")
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(field, None)  # before they become owned
        if served.has_status and not served.status_on_create:
            new.document.pop("status", None)
        if write.turn is None:
            new.complete(self.now, None if write.owned else write.manager)
        else:
            manager = None if write.owned else write.manager
            await self.off_loop.run(write.turn, new.complete, self.now, manager)
        metadata = new.metadata
        attributes = write.attributes(CREATE, kind, metadata.get("name") or "", new.document)
        pending = self.admission.mutate(attributes)
        if pending is not None:
            await pending
            new.document = attributes.object or new.document
            metadata = new.metadata
            check_namespace(kind, metadata, namespace)  # a webhook moves nothing
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = generate_name(metadata["generateName"], self.random_bytes)
            attributes.name = metadata["name"]
        metadata["uid"] = self._new_uid()
        metadata["creationTimestamp"] = self.now
        for field in ("generation", "selfLink"):
            metadata.pop(field, None)
        for_kind(kind).asked_by(new.document, write.user.info())
        if write.turn is None:
            write.warnings.extend(new.check(self, dry_run=write.dry_run))
        else:
            write.warnings.extend(
                await new.check_beside(self, self.off_loop, write.turn, dry_run=write.dry_run)
            )
        pending = self.admission.validate(attributes)
        if pending is not None:
            await pending
        name = metadata["name"]
        if write.dry_run:
            if self.store.get(kind.key(namespace, name)) is not None:
                raise errors.AlreadyExists.object(kind, name)
            return WriteResult(201, body_of(await self.as_if_stored(served, new.shown())))
        if kind.converted:
            new.document = await self.to_store(kind, new.document)
        value = new.encode() if write.turn is None else await self.off_loop.run(write.turn, new.encode)
        return await self._insert(served, kind, namespace, name, value)

    async def _insert(self, served: Kind, kind: Kind, namespace: str, name: str, value: bytes) -> WriteResult:
        """Store a new object and return it as the client's version *served* shows it; raises AlreadyExists."""
        stored = Write(kind.key(namespace, name), value, 0, codec.STAMP, self.ttl_seconds(kind))
        (result,) = await self.store.commit((stored,))
        if result.error is not None:
            raise errors.AlreadyExists.object(kind, name)
        event = result.check()
        assert event.now is not None
        now = await self.in_version(served, event.now) if served.converted else event.now
        return WriteResult(201, codec.just_stored(served, now.value))

    # ------------------------------------------------------------------------------------------- update

    async def update(
        self, request: Request, kind: Kind, namespace: str, name: str, subresource: str, warnings: list[str]
    ) -> WriteResult:
        """Replace the object with the one in the body."""
        options = WriteOptions.parse(request.params, "UpdateOptions")
        write = WriteRequest.of(request, kind, namespace, name, subresource, options, warnings)
        new, found = await self.decode(request, kind, options.field_validation)
        warnings.extend(found)
        metadata = new.setdefault("metadata", {})
        check_namespace(kind, metadata, namespace)
        check_name(metadata, name)
        metadata["name"] = name
        sent_version = metadata.get("resourceVersion") or ""
        if sent_version == "0":  # any version
            sent_version = ""
            metadata.pop("resourceVersion")
        expected = parse_version(sent_version) if sent_version else 0
        live = self.store.get(kind.key(namespace, name))
        strategy = for_kind(kind)
        if live is not None and strategy.remembers:
            strategy.recall(new, codec.decode(kind, live.value))
        if write.turn is None:
            documents.default(new, kind, self.now)
        else:
            await self.off_loop.run(write.turn, documents.default, new, kind, self.now)

        if live is None:
            if not (kind.create_on_update and subresource == ""):
                raise errors.NotFound.object(kind, name)
            metadata.pop("resourceVersion", None)
            write.options = {"kind": "UpdateOptions", **options.document}
            return await self.create_document(write, new)
        if not expected and not kind.unconditional_update:
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            # upstream names the resource here
            raise errors.Invalid.of(kind.group, kind.plural, name, [problem])
        return await self.change(write, lambda old: msgspec_copy(new), expected=expected)

    async def change(
        self, write: WriteRequest, compute: Callable[[Document], Document], *, expected: int = 0
    ) -> WriteResult:
        """Replace the object by what *compute* makes of it; *expected* is the version the client read.

        When another write is faster, *compute* is called again with the newer object.
        """
        kind, namespace, name = write.kind, write.namespace, write.name
        for _ in range(ATTEMPTS):
            found = self.find(kind, namespace, name)
            if kind.converted:
                found = await self.in_version(kind, found)
            if expected and found.mod_revision != expected:
                await self.store.fresh()  # another server may have written what the client read
                found = await self.in_version(kind, self.find(kind, namespace, name))
                if found.mod_revision != expected:
                    raise errors.Conflict.object(kind, name)
            before = len(write.warnings)
            if write.turn is None and len(found.value) >= LARGE_BYTES:
                write.turn = self.off_loop.turn(write.user.name)
            if write.turn is None:
                old = codec.decode(kind, found.value)
                new = compute(old)
            else:
                old, new = await self.off_loop.run(write.turn, _computed, kind, found.value, compute)
            result = await self._replace(write, found, old, new)
            if result is not None:
                return result
            del write.warnings[before:]
        raise errors.Conflict.object(kind, name)

    async def _is_outdated(self, kind: Kind, key: str) -> bool:
        """Return whether a write that changes nothing is stored all the same: with another key, in another version."""
        stored = self.store.get(key)
        if stored is not None and codec.is_of_another_version(kind, stored.value):
            return True
        return await self.store.stale(key)

    async def _replace(
        self, write: WriteRequest, found: KeyValue, old: Document, new: Document
    ) -> WriteResult | None:
        """Store *new* in place of *old*; None when another write was faster and the client named no version."""
        kind, name, subresource = write.kind, write.name, write.subresource
        metadata = new["metadata"]
        named_version = _check_preconditions(write, found.key, metadata, old["metadata"])
        keep_server_set(metadata, old["metadata"])
        strategy = for_kind(kind)
        strategy.restrict(kind, new, old, subresource)
        if not write.owned:
            own = partial(
                server_side.update_managed_fields,
                *(new, old, kind),
                manager=write.manager,
                subresource=subresource,
                now=self.now,
            )
            await self.off_loop.run(write.turn, own) if write.turn else own()
        served, kind = kind, hub_of(kind)
        if served is not kind:
            new, old = conversion.to_storage(served, new), conversion.to_storage(served, old)
        attributes = write.attributes(UPDATE, kind, name, new, old)
        pending = self.admission.mutate(attributes)
        if pending is not None:
            await pending
            new = attributes.object or new
            metadata = new.setdefault("metadata", {})
            check_namespace(kind, metadata, write.namespace)
        strategy.prepare_update(kind, new, old, self)
        if write.subresource == "status" and "generation" in old["metadata"]:
            # A status is no change of what is wanted, even where annotations come along (a Deployment's revision).
            new["metadata"]["generation"] = old["metadata"]["generation"]
        relaxed = served.version == v1alpha4.VERSION or strategy.relaxes(kind, new, self)
        found_problems = strategy.problems(kind, new, old, self, dry_run=write.dry_run)

        def judge() -> Iterable[str]:
            """Return the warnings about the object; raises 422."""
            problems = [
                *found_problems,
                *documents.validate(new, old, kind, self.gates, subresource=subresource, relaxed=relaxed),
            ]
            tolerated = [str(one) for one in problems if isinstance(one, Tolerated)]
            if len(problems) > len(tolerated):
                wrong = [one for one in problems if not isinstance(one, Tolerated)]
                write.warnings.extend(tolerated)
                raise errors.Invalid.from_field_errors(kind, metadata.get("name") or name, wrong)
            return [*tolerated, *first_warnings(strategy.warnings(kind, new, old))]

        write.warnings.extend(await self.off_loop.run(write.turn, judge) if write.turn else judge())
        pending = self.admission.validate(attributes)
        if pending is not None:
            await pending
        if write.turn is None:
            documents.settle(new, kind)
        else:
            await self.off_loop.run(write.turn, documents.settle, new, kind)
        if new == old and (write.dry_run or not await self._is_outdated(kind, found.key)):
            return WriteResult(200, codec.served(served, found.value))
        shown = new if served is kind else conversion.from_storage(served, new)
        if write.dry_run:
            return WriteResult(200, body_of(await self.as_if_stored(served, shown)))
        if gone_with_this_update(kind, new):
            (result,) = await self.store.commit((Write(found.key, None, found.mod_revision),))
            return (
                None if isinstance(result.error, store_errors.Conflict) else WriteResult(200, body_of(shown))
            )
        if kind.converted:
            new = await self.to_store(kind, new)
        value = (
            await self.off_loop.run(write.turn, codec.encode, new, kind)
            if write.turn
            else codec.encode(new, kind)
        )
        stored = Write(found.key, value, found.mod_revision, codec.STAMP, self.ttl_seconds(kind))
        (result,) = await self.store.commit((stored,))
        if result.error is not None:
            if isinstance(result.error, store_errors.Missing):
                raise errors.NotFound.object(kind, name)
            if named_version:
                raise errors.Conflict.object(kind, name)
            await self.store.fresh()
            return None
        event = result.check()
        assert event.now is not None
        now = await self.in_version(served, event.now) if served.converted else event.now
        return WriteResult(200, codec.just_stored(served, now.value))


def _computed(kind: Kind, value: bytes, compute: Callable[[Document], Document]) -> tuple[Document, Document]:
    """Return the stored document, and what *compute* makes of it."""
    old = codec.decode(kind, value)
    return old, compute(old)


def _check_preconditions(write: WriteRequest, key: str, metadata: Document, was: Document) -> bool:
    """Hold version and uid of an update against those of the stored object; return whether a version was named."""
    sent = metadata.get("resourceVersion")
    if write.patched and sent == was["resourceVersion"]:
        sent = None  # the patch left the version alone
    if sent and sent not in ("0", was["resourceVersion"]):
        parse_version(sent)
        raise errors.Conflict.object(write.kind, write.name)
    if metadata.get("uid") and metadata["uid"] != was["uid"] and not write.patched:
        raise errors.Conflict.object(write.kind, write.name, uid_text(key, metadata["uid"], was["uid"]))
    metadata["resourceVersion"] = was["resourceVersion"]
    return bool(sent)


def msgspec_copy(value: Document) -> Document:
    """Return a deep copy of a JSON document."""
    copied: Document = msgspec.json.decode(_encode(value))
    return copied
