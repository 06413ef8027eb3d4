"""Get, create and update one object.

Spec: apiserver.md 2 "Decoding", 4 "Create and update", 6 "managedFields". The order of a write is
upstream's: decode, default, note who owns which field, mutating admission, the kind's own preparation,
validation, validating admission, compare-and-set. An update that changes nothing writes nothing.
A write that loses the race against another is tried again on the newer object unless the client named the
version it had read.
Not here: patches (weir.apiserver.registry.patching), delete (.deletion), list and watch (.lists, .watch),
subresources that are not the object itself (.subresources).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from weir import errors
from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.auth.authn import User
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
from weir.apiserver.registry.pod_spec_cache import POD, PodSpecCache, Read
from weir.apiserver.strategies import for_kind
from weir.apiserver.strategies.pod_warnings import HOSTNAME_OF_POD, name_warnings
from weir.apiserver.transport.bodies import JSON_TYPES, decode, manager_of, media_type
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.options import WriteOptions
from weir.clock import Clock
from weir.gates import Gates
from weir.objects import defaults, v1alpha4
from weir.objects.document import copied
from weir.objects.kinds import Kind, hub_of
from weir.objects.times import format_time
from weir.objects.zero_value import zero
from weir.store import KeyValue, Store, Write
from weir.store import backend as store_errors
from weir.validate import validate_served
from weir.validate.context import context_for
from weir.validate.field import invalid
from weir.validate.meta import validate_object_meta
from weir.validate.ratchet import options_for
from weir.values.names import generate_name

__all__ = ["Parts", "Verbs", "WriteResult"]

Document = dict[str, Any]


ATTEMPTS = 8
_NOTHING: Mapping[str, Any] = {}
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
    random_bytes: Callable[[int], bytes] = os.urandom  #: for uids and generated names; a simulation seeds it


def body_of(document: Document) -> bytes:
    """Return a document that is not stored as the API shows it."""
    return _encode(document)


class Verbs:
    """The verbs on one object."""

    def __init__(self, parts: Parts) -> None:
        self.store, self.reader, self.admission, self.gates, self.clock, self.random_bytes = parts
        self.pod_specs = PodSpecCache()
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

    def get(self, kind: Kind, namespace: str, name: str) -> WriteResult:
        """Return one object."""
        return WriteResult(200, codec.served(kind, self.find(kind, namespace, name).value))

    # ------------------------------------------------------------------------------------------- create

    async def create(self, request: Request, kind: Kind, namespace: str, warnings: list[str]) -> WriteResult:
        """Create the object the body describes."""
        options = WriteOptions.parse(request.params, "CreateOptions")
        known = (
            self.pod_specs.read(request.body) if kind is POD and media_type(request) in JSON_TYPES else None
        )
        if known is not None:
            new = known.document
        else:
            new, found = decode(request, kind, options.field_validation)
            if found:
                warnings.extend(found)
        return await self.create_document(
            kind,
            namespace,
            new,
            user=request.user,
            manager=options.field_manager or manager_of(request),
            dry_run=options.dry_run,
            warnings=warnings,
            known=known,
            options=options.document,
        )

    async def create_document(
        self,
        kind: Kind,
        namespace: str,
        new: Document,
        *,
        user: User,
        manager: str,
        dry_run: bool = False,
        warnings: list[str] | None = None,
        owned: bool = False,
        known: Read | None = None,
        options: Mapping[str, Any] = _NOTHING,
    ) -> WriteResult:
        """Create a decoded object; *owned* means that its managedFields are settled (apply), *known* that it is a
        pod whose spec was read, and given its defaults, before."""
        metadata = new.setdefault("metadata", {})
        check_namespace(kind, metadata, namespace)
        if metadata.get("resourceVersion"):
            raise errors.InternalError("resourceVersion should not be set on objects to be created")
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(field, None)  # before anybody is said to own them
        if kind.has_status and not kind.status_on_create:
            new.pop("status", None)
        if known is not None:
            self.pod_specs.own(known, manager, self.now)
        else:
            defaults.default(new, kind, self.now)
            if not owned:
                server_side.update_managed_fields(
                    new, None, kind, manager=manager, subresource="", now=self.now
                )
        served, kind = kind, hub_of(kind)
        if served is not kind:
            new = conversion.to_storage(served, new)
        attributes = Attributes(
            CREATE,
            kind,
            namespace=namespace,
            name=metadata.get("name") or "",
            object=new,
            options=options,
            dry_run=dry_run,
            user=user,
            warnings=warnings if warnings is not None else [],
        )
        pending = self.admission.mutate(attributes)
        if pending is not None:
            if known is not None and "managedFields" in metadata:  # shared: not a webhook's to change
                metadata["managedFields"] = copied(metadata["managedFields"])
            await pending
            new = attributes.object or new
            metadata = new.setdefault("metadata", {})
            check_namespace(kind, metadata, namespace)  # a webhook moves nothing
        prefix = metadata.get("generateName")
        generated = bool(prefix) and not metadata.get("name")
        if generated:
            metadata["name"] = generate_name(prefix, self.random_bytes)
            attributes.name = metadata["name"]
        metadata["uid"] = new_uid(self._entropy, self.random_bytes)
        metadata["creationTimestamp"] = self.now
        for name in ("generation", "selfLink"):
            metadata.pop(name, None)
        strategy = for_kind(kind)
        look = self.pod_specs.look(new["spec"], options_for(self.gates)) if kind is POD else None
        judged = look.judged if look is not None else None
        if judged is not None:
            metadata["generation"] = 1
            new["status"] = dict(judged.status)
            problems = list(validate_object_meta(metadata, context_for(self.gates, "", True, False)))
        else:
            strategy.prepare_create(kind, new, self)
            if kind.has_status and "status" not in new and "status" in (empty := zero(kind)):
                new["status"] = dict(empty["status"])
            relaxed = served.version == v1alpha4.VERSION or strategy.relaxes(kind, new, self)
            problems = [
                *strategy.problems(kind, new, None, self),
                *validate_served(new, None, kind, self.gates, relaxed=relaxed),
            ]
        if problems:
            raise errors.Invalid.from_field_errors(kind, metadata.get("name", ""), problems)
        if judged is not None and judged.quiet and "annotations" not in metadata:
            attributes.warnings.extend(name_warnings(metadata["name"], HOSTNAME_OF_POD))
        else:
            attributes.warnings.extend(strategy.warnings(kind, new))
        pending = self.admission.validate(attributes)
        if pending is not None:
            await pending
        name = metadata["name"]
        key = kind.key(namespace, name)
        if dry_run:
            if self.store.get(key) is not None:
                raise errors.AlreadyExists.object(kind, name)
            return WriteResult(
                201, body_of(conversion.from_storage(served, new) if served is not kind else new)
            )
        if judged is not None:
            new = {**new, "spec": msgspec.Raw(judged.stored)}
        else:
            defaults.settle(new, kind)
            if look is not None:
                self.pod_specs.passed(look, new)
        write = Write(key, codec.encode(new, kind), 0, codec.STAMP, kind.ttl_seconds or 0.0)
        (result,) = await self.store.commit((write,))
        if result.error is not None:
            raise errors.AlreadyExists.object(kind, name)
        event = result.check()
        assert event.now is not None
        return WriteResult(201, codec.served(served, event.now.value))

    # ------------------------------------------------------------------------------------------- update

    async def update(
        self, request: Request, kind: Kind, namespace: str, name: str, subresource: str, warnings: list[str]
    ) -> WriteResult:
        """Replace the object with the one in the body."""
        options = WriteOptions.parse(request.params, "UpdateOptions")
        new, found = decode(request, kind, options.field_validation)
        warnings.extend(found)
        metadata = new.setdefault("metadata", {})
        check_namespace(kind, metadata, namespace)
        check_name(metadata, name)
        metadata["name"] = name
        manager = options.field_manager or manager_of(request)
        sent_version = metadata.get("resourceVersion") or ""
        if sent_version == "0":  # any version
            sent_version = ""
            metadata.pop("resourceVersion")
        expected = parse_version(sent_version) if sent_version else 0
        live = self.store.get(kind.key(namespace, name))
        strategy = for_kind(kind)
        if live is not None and strategy.remembers:
            strategy.recall(new, codec.decode(kind, live.value))
        defaults.default(new, kind, self.now)

        if live is None:
            if not (kind.create_on_update and subresource == ""):
                raise errors.NotFound.object(kind, name)
            metadata.pop("resourceVersion", None)
            return await self.create_document(
                kind,
                namespace,
                new,
                user=request.user,
                manager=manager,
                dry_run=options.dry_run,
                warnings=warnings,
                options={"kind": "UpdateOptions", **options.document},
            )
        if not expected and not kind.unconditional_update:
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.Invalid.of(
                kind.group, kind.plural, name, [problem]
            )  # upstream names the resource here
        return await self.change(
            kind,
            namespace,
            name,
            subresource,
            lambda old: msgspec_copy(new),
            expected=expected,
            user=request.user,
            manager=manager,
            dry_run=options.dry_run,
            warnings=warnings,
            options=options.document,
        )

    async def change(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        subresource: str,
        compute: Callable[[Document], Document],
        *,
        expected: int = 0,
        user: User,
        manager: str,
        dry_run: bool = False,
        warnings: list[str] | None = None,
        owned: bool = False,
        code: int = 200,
        options: Mapping[str, Any] = _NOTHING,
    ) -> WriteResult:
        """Replace the object by what *compute* makes of it; *expected* is the version the client read."""
        warned = warnings if warnings is not None else []
        for _ in range(ATTEMPTS):
            found = self.find(kind, namespace, name)
            if expected and found.mod_revision != expected:
                await self.store.fresh()  # another server may have written what the client read
                found = self.find(kind, namespace, name)
                if found.mod_revision != expected:
                    raise errors.Conflict.object(kind, name)
            old = codec.decode(kind, found.value)
            before = len(warned)
            new = compute(old)
            outcome = await self.replace(
                kind,
                found,
                old,
                new,
                subresource,
                user=user,
                manager=manager,
                dry_run=dry_run,
                warnings=warned,
                owned=owned,
                code=code,
                options=options,
            )
            if outcome is not None:
                return outcome
            del warned[before:]
        raise errors.Conflict.object(kind, name)

    async def replace(
        self,
        kind: Kind,
        found: KeyValue,
        old: Document,
        new: Document,
        subresource: str,
        *,
        user: User,
        manager: str,
        dry_run: bool = False,
        warnings: list[str],
        owned: bool = False,
        code: int = 200,
        patched: bool = False,
        options: Mapping[str, Any] = _NOTHING,
    ) -> WriteResult | None:
        """Store *new* in place of *old*; None when somebody else was faster and the client did not mind.

        A uid in a whole object says which object is meant; in what a patch made (*patched*) it is a change like others.
        """
        metadata, was = new["metadata"], old["metadata"]
        name, namespace = was["name"], was.get("namespace", "")
        sent = metadata.get("resourceVersion")
        if sent and sent not in ("0", was["resourceVersion"]):
            parse_version(sent)
            raise errors.Conflict.object(kind, name)
        if metadata.get("uid") and metadata["uid"] != was["uid"] and not patched:
            raise errors.Conflict.object(kind, name, uid_text(found.key, metadata["uid"], was["uid"]))
        metadata["resourceVersion"] = was["resourceVersion"]
        keep_server_set(metadata, was)
        strategy = for_kind(kind)
        strategy.restrict(kind, new, old, subresource)
        if not owned:
            server_side.update_managed_fields(
                new, old, kind, manager=manager, subresource=subresource, now=self.now
            )
        served, kind = kind, hub_of(kind)
        if served is not kind:
            new, old = conversion.to_storage(served, new), conversion.to_storage(served, old)

        def shown(written: Document) -> Document:
            return written if served is kind else conversion.from_storage(served, written)

        attributes = Attributes(
            UPDATE,
            kind,
            subresource=subresource,
            namespace=namespace,
            name=name,
            object=new,
            old=old,
            options=options,
            dry_run=dry_run,
            user=user,
            warnings=warnings,
        )
        pending = self.admission.mutate(attributes)
        if pending is not None:
            await pending
            new = attributes.object or new
            metadata = new.setdefault("metadata", {})
            check_namespace(kind, metadata, namespace)
        strategy.prepare_update(kind, new, old, self)
        relaxed = served.version == v1alpha4.VERSION or strategy.relaxes(kind, new, self)
        problems = [
            *strategy.problems(kind, new, old, self),
            *validate_served(new, old, kind, self.gates, subresource=subresource, relaxed=relaxed),
        ]
        if problems:
            raise errors.Invalid.from_field_errors(kind, metadata.get("name") or name, problems)
        warnings.extend(strategy.warnings(kind, new, old))
        pending = self.admission.validate(attributes)
        if pending is not None:
            await pending
        defaults.settle(new, kind)
        if new == old:
            return WriteResult(code, codec.served(served, found.value))
        if gone_with_this_update(kind, new):
            if not dry_run:
                (result,) = await self.store.commit((Write(found.key, None, found.mod_revision),))
                if isinstance(result.error, store_errors.Conflict):
                    return None
            return WriteResult(code, body_of(shown(new)))
        if dry_run:
            return WriteResult(code, body_of(shown(new)))
        write = Write(
            found.key, codec.encode(new, kind), found.mod_revision, codec.STAMP, kind.ttl_seconds or 0.0
        )
        (result,) = await self.store.commit((write,))
        if result.error is not None:
            if isinstance(result.error, store_errors.Missing):
                raise errors.NotFound.object(kind, name)
            if sent:
                raise errors.Conflict.object(kind, name)
            await self.store.fresh()
            return None
        event = result.check()
        assert event.now is not None
        return WriteResult(code, codec.served(served, event.now.value))


def msgspec_copy(value: Document) -> Document:
    """Return a deep copy of a JSON document."""
    copied: Document = msgspec.json.decode(_encode(value))
    return copied
