"""The one sequence of every write: identify, default, mutate, prepare, validate, admit, commit.

Spec: apiserver.md 4 "Create and update", 6 "managedFields". A verb decodes the request into an `ObjectWrite`;
creates, updates, patches, applies and subresource writes then take the same path. Differences between kinds are in
their strategies (weir.apiserver.strategies). Pure stages run off the loop for large objects.
"""

from __future__ import annotations

from typing import Any

import msgspec

from weir import errors
from weir.apiserver import documents
from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.patches import apply as server_side
from weir.apiserver.registry import codec, conversion
from weir.apiserver.registry.identity import (
    check_namespace,
    check_new,
    check_preconditions,
    gone_with_this_update,
    keep_server_set,
)
from weir.apiserver.registry.storage import Storage
from weir.apiserver.registry.write_request import ObjectWrite, WriteResult
from weir.apiserver.transport.warnings import first_warnings
from weir.objects import v1alpha4
from weir.store import Event, Write
from weir.store import backend as store_errors
from weir.validate.field import FieldError, Tolerated
from weir.values.names import generate_name

__all__ = ["WritePath", "body_of"]

Document = dict[str, Any]
_encode = msgspec.json.Encoder().encode


def body_of(document: Document) -> bytes:
    """Return a document that is not stored as the API shows it."""
    return _encode(document)


class WritePath:
    """The stages of a write, in their order."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._off_loop = storage, storage.off_loop

    async def run(self, write: ObjectWrite) -> WriteResult | None:
        """Take a decoded object to the store; None when another write was faster and the client named no version."""
        identify(write)
        await self._off_loop.run(write.request.turn, default, write, self._storage.now)
        await self._mutate(write)
        self._prepare(write)
        await self._validate(write)
        await self._admit(write)
        return await self._commit(write)

    async def admit(self, attributes: Attributes) -> None:
        """Ask admission about a request whose object is not stored: a binding, an eviction, a delete."""
        for step in (self._storage.admission.mutate, self._storage.admission.validate):
            pending = step(attributes)
            if pending is not None:
                await pending

    # --------------------------------------------------------------------------------- mutate and prepare

    async def _mutate(self, write: ObjectWrite) -> None:
        """Let mutating admission edit the object; a webhook or a policy may replace it."""
        attributes = write.begin_admission()
        pending = self._storage.admission.mutate(attributes)
        if pending is not None:
            await pending
            write.new = attributes.object or write.new
            check_namespace(write.kind, write.metadata, write.request.namespace)

    def _prepare(self, write: ObjectWrite) -> None:
        """Set what only the server sets, and what the kind's strategy does."""
        kind, new, old, strategy = write.kind, write.new, write.old, write.strategy
        if old is not None:
            strategy.prepare_update(kind, new, old, self._storage)
            if write.request.subresource == "status" and "generation" in old["metadata"]:
                # A status is no change of what is wanted, even where annotations come along (a Deployment's revision).
                new["metadata"]["generation"] = old["metadata"]["generation"]
            return
        metadata = write.metadata
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = generate_name(metadata["generateName"], self._storage.random_bytes)
            write.attributes.name = metadata["name"]
        metadata["uid"] = self._storage.new_uid()
        metadata["creationTimestamp"] = self._storage.now
        for field in ("generation", "selfLink"):
            metadata.pop(field, None)
        strategy.set_requester(new, write.request.user.info())
        strategy.prepare_create(kind, new, self._storage)
        if kind.has_status and "status" not in new and "status" in (empty := documents.zero_fields(kind)):
            new["status"] = dict(empty["status"])

    # --------------------------------------------------------------------------------- validate and admit

    async def _validate(self, write: ObjectWrite) -> None:
        """Validate the object, in view of others first, and collect the warnings about it; raises 422."""
        request, kind, strategy = write.request, write.kind, write.strategy
        relaxed = request.kind.version == v1alpha4.VERSION or strategy.relaxes(kind, write.new, self._storage)
        problems = [*strategy.problems(kind, write.new, write.old, self._storage, dry_run=request.dry_run)]
        await self._off_loop.run(request.turn, self._judge, write, problems, relaxed)

    def _judge(self, write: ObjectWrite, problems: list[FieldError], relaxed: bool) -> None:
        request, kind, new, old = write.request, write.kind, write.new, write.old
        gates = self._storage.gates
        problems += documents.validate(
            new, old, kind, gates, subresource=request.subresource, relaxed=relaxed
        )
        request.warnings.extend(str(problem) for problem in problems if isinstance(problem, Tolerated))
        errors_found = [problem for problem in problems if not isinstance(problem, Tolerated)]
        if errors_found:
            name = write.metadata.get("name") or request.name
            raise errors.Invalid.from_field_errors(kind, name, errors_found)
        request.warnings.extend(first_warnings(write.strategy.warnings(kind, new, old)))

    async def _admit(self, write: ObjectWrite) -> None:
        """Let validating admission refuse the object."""
        pending = self._storage.admission.validate(write.attributes)
        if pending is not None:
            await pending

    # --------------------------------------------------------------------------------------------- commit

    async def _commit(self, write: ObjectWrite) -> WriteResult | None:
        """Store the object, or remove one that only waited for this update; write nothing if nothing changed."""
        request, kind, storage, stored = write.request, write.kind, self._storage, write.stored
        await self._off_loop.run(request.turn, documents.settle, write.new, kind)
        if stored is None:
            code, key, revision = 201, kind.key(request.namespace, write.metadata["name"]), 0
        else:
            code, key, revision = 200, stored.key, stored.mod_revision
            if write.new == write.old and (request.dry_run or not await self._is_outdated(write)):
                return WriteResult(200, codec.served(request.kind, stored.value), stored)
        if request.dry_run:
            if stored is None and storage.store.get(key) is not None:
                raise errors.AlreadyExists.object(kind, write.metadata["name"])
            return WriteResult(code, body_of(await storage.as_if_stored(request.kind, _shown(write))))
        gone = stored is not None and gone_with_this_update(kind, write.new)
        value = None if gone else await storage.encode(kind, write.new, request.turn)
        ttl = 0.0 if gone else storage.ttl_seconds(kind)
        (result,) = await storage.store.commit((Write(key, value, revision, codec.STAMP, ttl),))
        if gone and not isinstance(result.error, store_errors.Conflict):
            return WriteResult(200, body_of(_shown(write)))
        if result.error is None:
            return await self._stored_now(write, result.check(), code)
        await self._lost(write, result.error)
        return None

    async def _lost(self, write: ObjectWrite, error: Exception) -> None:
        """Raise why the object could not be stored; return when the write may be tried on the newer one."""
        if write.stored is None:
            raise errors.AlreadyExists.object(write.kind, write.metadata["name"])
        if isinstance(error, store_errors.Missing):
            raise errors.NotFound.object(write.kind, write.request.name)
        if write.names_version:
            raise errors.Conflict.object(write.kind, write.request.name)
        await self._storage.store.fresh()

    async def _is_outdated(self, write: ObjectWrite) -> bool:
        """Return whether a write that changes nothing is stored all the same: with another key, in another version."""
        assert write.stored is not None
        stored = self._storage.store.get(write.stored.key)
        if stored is not None and codec.is_of_another_version(write.kind, stored.value):
            return True
        return await self._storage.store.stale(write.stored.key)

    async def _stored_now(self, write: ObjectWrite, event: Event, code: int) -> WriteResult:
        """Return what was stored a moment ago as the client's version shows it."""
        served, now = write.request.kind, event.now
        assert now is not None
        if served.converted:
            now = await self._storage.in_version(served, now)
        return WriteResult(code, codec.just_stored(served, now.value), now)


def identify(write: ObjectWrite) -> None:
    """Check that the object is the one the client means, and keep what of its metadata only the server sets."""
    request = write.request
    if write.old is None:
        check_new(request.kind, write.new, request.namespace)
        return
    before = write.old["metadata"]
    write.names_version = check_preconditions(
        request.kind, request.namespace, request.name, write.metadata, before, patched=request.patched
    )
    keep_server_set(write.metadata, before)


def default(write: ObjectWrite, now: str) -> None:
    """Fill in the defaults, put back what the endpoint may not change, note who owns which field, convert."""
    request, served = write.request, write.request.kind
    if write.old is not None:
        write.strategy.recall(write.new, write.old)
    if request.subresource != "scale":  # whose change is made to the object as it is stored
        documents.default(write.new, served, now)
    if write.old is not None:
        write.strategy.restrict(served, write.new, write.old, request.subresource)
    if not request.owned:
        server_side.update_managed_fields(
            write.new,
            write.old,
            served,
            manager=request.manager,
            subresource=request.subresource if write.old is not None else "",
            now=now,
        )
    if served is not write.kind:
        write.new = conversion.to_storage(served, write.new)
        if write.old is not None:
            write.old = conversion.to_storage(served, write.old)


def _shown(write: ObjectWrite) -> Document:
    """Return the new object in the client's version."""
    served = write.request.kind
    return write.new if served is write.kind else conversion.from_storage(served, write.new)
