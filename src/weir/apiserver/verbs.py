"""Get, create, update and patch one object.

Spec: apiserver.md 2 "Decoding", 4 "Create and update", 6 "managedFields", 7 "Patch". The order of a write is
upstream's: decode, default, note who owns which field, mutating admission, the kind's own preparation,
validation, validating admission, compare-and-set. An update that changes nothing writes nothing.
A write that loses the race against another is tried again on the newer object unless the client named the
version it had read.
Not here: delete (weir.apiserver.deletion), list and watch (.lists, .watch), subresources that are not the
object itself (.subresources).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from weir import errors
from weir.apiserver import conversion, protobuf, stored
from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.authn import User
from weir.apiserver.http import Request
from weir.apiserver.options import WriteOptions
from weir.apiserver.patches import apply as server_side
from weir.apiserver.patches import converter
from weir.apiserver.patches import json as json_patch
from weir.apiserver.patches import merge as merge_patch
from weir.apiserver.patches import strategic as strategic_patch
from weir.apiserver.strategies import for_kind
from weir.gates import Gates
from weir.objects import defaults, device_dialect, document
from weir.objects.kinds import Kind, Subresource, find_kind, hub_of
from weir.objects.manifest import ManifestError, read_values
from weir.objects.zero import zero
from weir.store import KeyValue, Store, Write
from weir.store import backend as store_errors
from weir.validate import validate_served
from weir.validate.field import invalid
from weir.values.quoting import quote

__all__ = ["Outcome", "Parts", "Verbs"]

Document = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCHES = frozenset({JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH})
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_ATTEMPTS = 8
_SERVER_SET = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_encode = msgspec.json.Encoder().encode
UNKNOWN_BODY = (
    "the body of the request was in an unknown format - accepted media types include: "
    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)


class Clock(Protocol):
    """What the verbs need to know about time."""

    def time(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Return after *seconds*."""


class Admission(Protocol):
    """The chain of admission plugins. An awaitable comes back only when a webhook must be asked."""

    def mutate(self, attributes: Attributes) -> Awaitable[None] | None:
        """Edit the object, or raise why it is refused."""

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        """Raise why the object is refused."""


class Outcome(NamedTuple):
    """What a verb did: the HTTP code, and the object as JSON with kind and apiVersion."""

    code: int
    body: bytes


class Parts(NamedTuple):
    """What the verbs are made of."""

    store: Store
    reader: stored.Reader
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
        self._entropy = bytearray()
        self._second, self._now = -1, ""

    # ------------------------------------------------------------------------------------------ context

    @property
    def now(self) -> str:
        """The time, RFC 3339 with seconds."""
        second = int(self.clock.time())
        if second != self._second:
            self._second = second
            self._now = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return self._now

    def documents(self, kind: Kind) -> list[Document]:
        """Every stored object of *kind*, all namespaces."""
        return [stored.decode(kind, found.value) for found in self.store.range(kind.prefix).items]

    # ------------------------------------------------------------------------------------------- reading

    def find(self, kind: Kind, namespace: str, name: str) -> KeyValue:
        """Return the stored object; raises 404."""
        found = self.store.get(kind.key(namespace, name))
        if found is None:
            raise errors.NotFound.object(kind, name)
        return found

    def get(self, kind: Kind, namespace: str, name: str) -> Outcome:
        """Return one object."""
        return Outcome(200, stored.served(kind, self.find(kind, namespace, name).value))

    # ------------------------------------------------------------------------------------------- create

    async def create(self, request: Request, kind: Kind, namespace: str, warnings: list[str]) -> Outcome:
        """Create the object the body describes."""
        options = WriteOptions.parse(request.params, "CreateOptions")
        new, found = self.decode(request, kind, options.field_validation)
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
    ) -> Outcome:
        """Create a decoded object; *owned* means that its managedFields are settled (apply)."""
        metadata = new.setdefault("metadata", {})
        check_namespace(kind, metadata, namespace)
        if metadata.get("resourceVersion"):
            raise errors.InternalError("resourceVersion should not be set on objects to be created")
        if kind.has_status and not kind.status_on_create:
            new.pop("status", None)
        defaults.default(new, kind, self.now)
        if not owned:
            server_side.update_managed_fields(new, None, kind, manager=manager, subresource="", now=self.now)
        served, kind = kind, hub_of(kind)
        if served is not kind:
            new = conversion.to_storage(served, new)
        attributes = Attributes(
            CREATE,
            kind,
            namespace=namespace,
            name=metadata.get("name") or "",
            object=new,
            dry_run=dry_run,
            user=user,
            warnings=warnings if warnings is not None else [],
        )
        pending = self.admission.mutate(attributes)
        if pending is not None:
            await pending
            new, metadata = attributes.object or new, (attributes.object or new)["metadata"]
        prefix = metadata.get("generateName")
        generated = bool(prefix) and not metadata.get("name")
        if generated:
            metadata["name"] = prefix[:58] + "".join(
                _SUFFIX[byte % len(_SUFFIX)] for byte in self.random_bytes(5)
            )
            attributes.name = metadata["name"]
        metadata["uid"] = new_uid(self._entropy, self.random_bytes)
        metadata["creationTimestamp"] = self.now
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"):
            metadata.pop(name, None)
        strategy = for_kind(kind)
        strategy.prepare_create(kind, new, self)
        if kind.has_status and "status" not in new and "status" in (empty := zero(kind)):
            new["status"] = dict(empty["status"])
        problems = [
            *strategy.problems(kind, new, None, self),
            *validate_served(new, None, kind, self.gates, relaxed=served.version == device_dialect.VERSION),
        ]
        if problems:
            raise errors.Invalid.from_field_errors(kind, metadata.get("name", ""), problems)
        attributes.warnings.extend(strategy.warnings(kind, new))
        pending = self.admission.validate(attributes)
        if pending is not None:
            await pending
        name = metadata["name"]
        key = kind.key(namespace, name)
        if dry_run:
            if self.store.get(key) is not None:
                raise errors.AlreadyExists.object(kind, name)
            return Outcome(201, body_of(conversion.from_storage(served, new) if served is not kind else new))
        defaults.settle(new, kind)
        write = Write(key, stored.encode(new, kind), 0, stored.STAMP, kind.ttl_seconds or 0.0)
        (result,) = await self.store.commit((write,))
        if result.error is not None:
            raise errors.AlreadyExists.object(kind, name)
        event = result.check()
        assert event.now is not None
        return Outcome(201, stored.served(served, event.now.value))

    # ------------------------------------------------------------------------------------------- update

    async def update(
        self, request: Request, kind: Kind, namespace: str, name: str, subresource: str, warnings: list[str]
    ) -> Outcome:
        """Replace the object with the one in the body."""
        options = WriteOptions.parse(request.params, "UpdateOptions")
        new, found = self.decode(request, kind, options.field_validation)
        warnings.extend(found)
        metadata = new.setdefault("metadata", {})
        check_namespace(kind, metadata, namespace)
        check_name(metadata, name)
        metadata["name"] = name
        manager = options.field_manager or manager_of(request)
        sent_version = metadata.get("resourceVersion") or ""
        expected = parse_version(sent_version) if sent_version else 0
        live = self.store.get(kind.key(namespace, name))
        strategy = for_kind(kind)
        if live is not None and strategy.remembers:
            strategy.recall(new, stored.decode(kind, live.value))
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
            )
        if not expected and not kind.unconditional_update:
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.Invalid.from_field_errors(kind, name, [problem])
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
    ) -> Outcome:
        """Replace the object by what *compute* makes of it; *expected* is the version the client read."""
        warned = warnings if warnings is not None else []
        for _ in range(_ATTEMPTS):
            found = self.find(kind, namespace, name)
            if expected and found.mod_revision != expected:
                await self.store.fresh()  # another server may have written what the client read
                found = self.find(kind, namespace, name)
                if found.mod_revision != expected:
                    raise errors.Conflict.object(kind, name)
            old = stored.decode(kind, found.value)
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
    ) -> Outcome | None:
        """Store *new* in place of *old*; None when somebody else was faster and the client did not mind."""
        metadata, was = new["metadata"], old["metadata"]
        name, namespace = was["name"], was.get("namespace", "")
        sent = metadata.get("resourceVersion")
        if sent and sent != was["resourceVersion"]:
            parse_version(sent)
            raise errors.Conflict.object(kind, name)
        if metadata.get("uid") and metadata["uid"] != was["uid"]:
            raise errors.Conflict.object(kind, name, uid_text(found.key, metadata["uid"], was["uid"]))
        metadata["resourceVersion"] = was["resourceVersion"]
        for field in _SERVER_SET:
            if field in was:
                metadata[field] = was[field]
            else:
                metadata.pop(field, None)
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
            dry_run=dry_run,
            user=user,
            warnings=warnings,
        )
        pending = self.admission.mutate(attributes)
        if pending is not None:
            await pending
            new = attributes.object or new
            metadata = new["metadata"]
        strategy.prepare_update(kind, new, old, self)
        problems = [
            *strategy.problems(kind, new, old, self),
            *validate_served(
                new,
                old,
                kind,
                self.gates,
                subresource=subresource,
                relaxed=served.version == device_dialect.VERSION,
            ),
        ]
        if problems:
            raise errors.Invalid.from_field_errors(kind, name, problems)
        warnings.extend(strategy.warnings(kind, new))
        pending = self.admission.validate(attributes)
        if pending is not None:
            await pending
        defaults.settle(new, kind)
        if new == old:
            return Outcome(code, stored.served(served, found.value))
        if gone_with_this_update(kind, new):
            if not dry_run:
                (result,) = await self.store.commit((Write(found.key, None, found.mod_revision),))
                if isinstance(result.error, store_errors.Conflict):
                    return None
            return Outcome(code, body_of(shown(new)))
        if dry_run:
            return Outcome(code, body_of(shown(new)))
        write = Write(
            found.key, stored.encode(new, kind), found.mod_revision, stored.STAMP, kind.ttl_seconds or 0.0
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
        return Outcome(code, stored.served(served, event.now.value))

    # -------------------------------------------------------------------------------------------- patch

    async def patch(
        self, request: Request, kind: Kind, namespace: str, name: str, subresource: str, warnings: list[str]
    ) -> Outcome:
        """Change the object as the patch in the body says."""
        media = media_type(request)
        if media not in PATCHES:
            raise errors.UnsupportedMediaType("415: Unsupported Media Type", details={})
        apply = media == APPLY_PATCH
        options = WriteOptions.parse(request.params, "PatchOptions", apply=apply)
        manager = options.field_manager or manager_of(request)
        if apply:
            return await self._apply(request, kind, namespace, name, subresource, options, warnings)
        body = request.body
        if kind.version == device_dialect.VERSION and media != JSON_PATCH:
            body = relaxed(body, kind, yaml=False, partial=True)

        def compute(old: Document) -> Document:
            if media == STRATEGIC_PATCH:
                new, found = converter.patch(old, body, kind, field_validation=options.field_validation)
            else:
                new = patched(media, old, body, kind)
                new, found = self.check_patched(new, kind, options.field_validation)
            warnings.extend(found)
            check_patched_identity(new, kind, namespace, name)
            for_kind(kind).recall(new, old)
            defaults.default(new, kind, self.now)
            return new

        for _ in range(_ATTEMPTS):
            found = self.find(kind, namespace, name)
            old = stored.decode(kind, found.value)
            before = len(warnings)
            new = compute(old)
            own_version = new["metadata"].get("resourceVersion") == old["metadata"]["resourceVersion"]
            if own_version:
                new["metadata"].pop("resourceVersion", None)
            outcome = await self.replace(
                kind,
                found,
                old,
                new,
                subresource,
                user=request.user,
                manager=manager,
                dry_run=options.dry_run,
                warnings=warnings,
            )
            if outcome is not None:
                return outcome
            del warnings[before:]
        raise errors.Conflict.object(kind, name)

    async def _apply(
        self,
        request: Request,
        kind: Kind,
        namespace: str,
        name: str,
        subresource: str,
        options: WriteOptions,
        warnings: list[str],
    ) -> Outcome:
        """Server-side apply."""

        def applied(live: Document | None) -> Document:
            new = server_side.apply(
                live,
                relaxed(request.body, kind, yaml=True)
                if kind.version == device_dialect.VERSION
                else request.body,
                kind,
                manager=options.field_manager,
                force=options.force,
                subresource=subresource,
                now=self.now,
                yaml=True,
            )
            metadata = new.setdefault("metadata", {})
            check_patched_identity(new, kind, namespace, name)
            metadata["name"] = name
            if kind.namespaced:
                metadata["namespace"] = namespace
            if live is not None:
                for_kind(kind).recall(new, live)
            defaults.default(new, kind, self.now)
            return new

        for _ in range(_ATTEMPTS):
            found = self.store.get(kind.key(namespace, name))
            if found is None:
                if subresource:
                    raise errors.NotFound.object(kind, name)
                new = applied(None)
                try:
                    return await self.create_document(
                        kind,
                        namespace,
                        new,
                        user=request.user,
                        manager=options.field_manager,
                        dry_run=options.dry_run,
                        warnings=warnings,
                        owned=True,
                    )
                except errors.AlreadyExists:
                    continue
            old = stored.decode(kind, found.value)
            new = applied(stored.decode(kind, found.value))
            if new["metadata"].get("resourceVersion") == old["metadata"]["resourceVersion"]:
                new["metadata"].pop("resourceVersion", None)
            outcome = await self.replace(
                kind,
                found,
                old,
                new,
                subresource,
                user=request.user,
                manager=options.field_manager,
                dry_run=options.dry_run,
                warnings=warnings,
                owned=True,
            )
            if outcome is not None:
                return outcome
        raise errors.Conflict.object(kind, name)

    # ------------------------------------------------------------------------------------------ decoding

    def decode(self, request: Request, kind: Kind, field_validation: str) -> tuple[Document, list[str]]:
        """Return the body as a checked document with the warnings it earned."""
        media = media_type(request)
        if media == protobuf.MEDIA_TYPE:
            body = _encode(protobuf.to_document(request.body))
            return document.decode(body, kind, field_validation=field_validation)
        yaml = media in YAML_TYPES
        if not yaml and media not in ("", "application/json", "*/*"):
            raise errors.UnsupportedMediaType(UNKNOWN_BODY)
        if kind.version == device_dialect.VERSION:
            body = relaxed(request.body, kind, yaml=yaml)
            return document.decode(body, kind, field_validation=field_validation)
        return document.decode(request.body, kind, yaml=yaml, field_validation=field_validation)

    def check_patched(self, new: Document, kind: Kind, field_validation: str) -> tuple[Document, list[str]]:
        """Return the result of a patch as a checked document; what is wrong with it is a 422 on `patch`."""
        try:
            return document.check(new, kind, field_validation=field_validation)
        except errors.DecodeError as error:
            shown = msgspec.json.encode(new, order="sorted").decode()
            problem = invalid("patch", shown, error.message)
            raise errors.Invalid.of("", "", "", [problem]) from None


# ------------------------------------------------------------------------------------------------- rules


def patched(media: str, old: Document, body: bytes, kind: Kind) -> Document:
    """Return what the patch of type *media* makes of *old*."""
    if media == JSON_PATCH:
        patched_document: Document = json_patch.patch(old, body)
        return patched_document
    if media == MERGE_PATCH:
        return merge_patch.patch(old, body)
    return strategic_patch.patch(old, body, kind)


def relaxed(body: bytes, kind: Kind, *, yaml: bool, partial: bool = False) -> bytes:
    """Return a body of the relaxed dialect in the layout of the hub; what cannot be read stays for the decoder."""
    try:
        written = read_values(body) if yaml else [msgspec.json.decode(body)]
    except (ManifestError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body
    return (
        _encode(device_dialect.relax(kind.kind, written[0], partial=partial)) if len(written) == 1 else body
    )


def media_type(request: Request) -> str:
    """Return the content type of the body without its parameters."""
    return request.header(b"content-type").partition(";")[0].strip().lower()


def manager_of(request: Request) -> str:
    """Return who owns what this request writes, when it does not say: the client program's name.

    >>> manager_of(Request("POST", "/", headers={b"user-agent": b"kubectl/v1.37.0 (linux/arm64)"}))
    'kubectl'
    """
    agent = request.header(b"user-agent").partition("/")[0]
    return "".join(char for char in agent if char.isprintable())[:128] or "unknown"


def parse_version(text: str) -> int:
    """Return a resourceVersion as a number; raises as upstream does, without a reason."""
    if text.isascii() and text.isdigit():
        return int(text)
    raise errors.InternalError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")


def uid_text(key: str, given: str, stored_uid: str) -> str:
    """Return what a write says when it was meant for an earlier object of this name."""
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {given}, UID in object meta: {stored_uid}"
    )


def check_namespace(kind: Kind, metadata: Document, namespace: str) -> None:
    """Hold the namespace in the body against the one in the URL, and fill it in."""
    given = metadata.get("namespace")
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if given and given != namespace:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def check_name(metadata: Document, name: str) -> None:
    """Hold the name in the body against the one in the URL."""
    given = metadata.get("name")
    if not given:
        raise errors.BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise errors.BadRequest(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


def check_patched_identity(new: Document, kind: Kind, namespace: str, name: str) -> None:
    """A patch may change neither name nor namespace."""
    metadata = new.setdefault("metadata", {})
    check_name(metadata, name)
    check_namespace(kind, metadata, namespace)


def gone_with_this_update(kind: Kind, new: Document) -> bool:
    """Return whether the object has only waited for this update to go: terminating, nothing holds it."""
    metadata = new["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if kind.kind == "Namespace" and kind.group == "":
        return not (new.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def msgspec_copy(value: Document) -> Document:
    """Return a deep copy of a JSON document."""
    copied: Document = msgspec.json.decode(_encode(value))
    return copied


def new_uid(entropy: bytearray, random_bytes: Callable[[int], bytes]) -> str:
    """Return a fresh random uid; randomness is asked for in larger pieces and kept in *entropy*."""
    if len(entropy) < 16:
        entropy.extend(random_bytes(4096))
    bits = int.from_bytes(entropy[-16:], "big")
    del entropy[-16:]
    text = f"{bits & _UID_MASK | _UID_VERSION:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_UID_MASK = ~(0xF << 76) & ~(0x3 << 62) & (1 << 128) - 1
_UID_VERSION = 0x4 << 76 | 0x2 << 62


def subresource_kind(kind: Kind, subresource: Subresource) -> Kind | None:
    """Return the row of the kind a subresource speaks, if it is not the object's own."""
    if not subresource.kind:
        return kind
    group, version = subresource.group, subresource.version or kind.version
    return find_kind(f"{group}/{version}" if group else version, subresource.kind)
