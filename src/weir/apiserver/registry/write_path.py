"""The one sequence of every write: identify, complete, mutate, prepare, validate, admit, commit.

Spec: apiserver.md 4 "Create and update". Creates, updates, patches, applies and subresource writes differ in how they
come to a document (.verbs, .patching, .scale); then all take this path. What a stage does is in .object_write. Pure
stages run off the loop for large objects. A change that loses a race is made again to the newer object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from weir import errors
from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.registry import codec
from weir.apiserver.registry.object_write import Creation, ObjectWrite, Replacement
from weir.apiserver.registry.storage import Storage, retried
from weir.apiserver.registry.write_request import WriteRequest, WriteResult
from weir.store import KeyValue, Write
from weir.store import backend as store_errors

Document = dict[str, Any]
_encode = msgspec.json.Encoder().encode


def body_of(document: Document) -> bytes:
    """Return a document that is not stored as the API shows it."""
    return _encode(document)


class WritePath(Storage):
    """Stored objects, and the way of a decoded object among them."""

    async def create_document(self, request: WriteRequest, document: Document) -> WriteResult:
        """Create a decoded object."""
        result = await self._run(Creation(request, document))
        assert result is not None  # only a change can lose a race
        return result

    async def change(
        self, request: WriteRequest, compute: Callable[[Document], Document], *, expected: int = 0
    ) -> WriteResult:
        """Replace the object by what *compute* makes of it; *expected* is the version the client read.

        When another write is faster, *compute* is called again with the newer object.
        """
        kind, warnings = request.kind, len(request.warnings)

        def computed(value: bytes) -> tuple[Document, Document]:
            old = codec.decode(kind, value)
            return compute(old), old

        async def attempt() -> WriteResult | None:
            stored = await self._current(request, expected)
            request.turn = request.turn or self.turn_for(stored.value, request.user.name)
            new, old = await self.off_loop.run(request.turn, computed, stored.value)
            result = await self._run(Replacement(request, new, old, stored))
            if result is None:
                del request.warnings[warnings:]
            return result

        return await retried(attempt, kind, request.name)

    async def admit(self, attributes: Attributes) -> None:
        """Ask admission about a request whose object is not stored: a binding, an eviction, a delete."""
        for step in (self.admission.mutate, self.admission.validate):
            pending = step(attributes)
            if pending is not None:
                await pending

    async def _current(self, request: WriteRequest, expected: int) -> KeyValue:
        """Return the object to change; raises Conflict for another version than *expected* (0: any)."""
        kind = request.kind
        stored = await self.in_version(kind, self.find(kind, request.namespace, request.name))
        if expected and stored.mod_revision != expected:
            await self.store.fresh()  # another server may have written what the client read
            stored = await self.in_version(kind, self.find(kind, request.namespace, request.name))
            if stored.mod_revision != expected:
                raise errors.Conflict.object(kind, request.name)
        return stored

    async def _run(self, write: ObjectWrite) -> WriteResult | None:
        """Take a decoded object to the store; None when another write was faster and the client named no version."""
        turn = write.request.turn
        write.identify()
        await self.off_loop.run(turn, write.complete, self.now)
        pending = self.admission.mutate(write.begin_admission())
        if pending is not None:
            await pending
            write.take_mutated()
        write.prepare(self)
        write.hold_against_others(self)
        await self.off_loop.run(turn, write.validate, self.gates)
        pending = self.admission.validate(write.attributes)
        if pending is not None:
            await pending
        await self.off_loop.run(turn, write.settle)
        return await self._commit(write)

    async def _commit(self, write: ObjectWrite) -> WriteResult | None:
        """Store the object, or remove one that only waited for this update; write nothing if nothing changed."""
        request, kind, served, stored = write.request, write.kind, write.request.kind, write.stored
        if stored is not None and write.new == write.old and await self._is_current(write, stored):
            return WriteResult(200, codec.served(served, stored.value), stored)
        if request.dry_run:
            if not write.revision and self.store.get(write.key) is not None:
                raise errors.AlreadyExists.object(kind, write.name)
            return WriteResult(write.code, body_of(await self.as_if_stored(served, write.shown())))
        if write.is_last:
            change = Write(write.key, None, write.revision)
        else:
            value = await self.encode(kind, write.new, request.turn)
            change = Write(write.key, value, write.revision, codec.STAMP, self.ttl_seconds(kind))
        (result,) = await self.store.commit((change,))
        if change.value is None and not isinstance(result.error, store_errors.Conflict):
            return WriteResult(write.code, body_of(write.shown()))
        if result.error is not None:
            write.lost(result.error)
            await self.store.fresh()
            return None
        now = result.check().now
        assert now is not None
        now = await self.in_version(served, now)
        return WriteResult(write.code, codec.just_stored(served, now.value), now)

    async def _is_current(self, write: ObjectWrite, stored: KeyValue) -> bool:
        """Return whether a write that changes nothing needs no storing: it has the newest key and version."""
        if write.request.dry_run:
            return True
        latest = self.store.get(stored.key)
        if latest is not None and codec.is_of_another_version(write.kind, latest.value):
            return False
        return not await self.store.stale(stored.key)
