"""Conversion of custom resources by webhook.

As upstream: a read object is pruned and defaulted in its storage version, converted, and pruned in the requested
version; a written object is validated in the request's version and converted last. Objects already in the version are
not sent. Lists are converted in batches of some hundreds.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from weir.apiserver.admission.attributes import Reader
from weir.apiserver.off_loop import LARGE_BYTES
from weir.apiserver.registry.conversion import Undecodable
from weir.apiserver.webhooks.client import endpoint_of
from weir.apiserver.webhooks.conversion_review import (
    ConversionFailed,
    batches,
    converted_objects,
    encoded,
    failed,
    kind_of,
    review_version,
)
from weir.apiserver.webhooks.dispatch import Client
from weir.apiserver.webhooks.review import CallFailed
from weir.customresources.reading import CONVERTED, stored_object
from weir.customresources.served import CustomResourceKind
from weir.errors import InternalError
from weir.store import KeyValue

__all__ = ["WebhookConversion"]

Document = dict[str, Any]
#: Called with the definition's name, the versions of the objects, the wanted one, what failed ("" nothing), seconds.
Note = Callable[[str, Iterable[str], str, str, float], None]
SECONDS: Final = 30.0
MOST_OBJECTS: Final = 500
MOST_BYTES: Final = 4 * 1024 * 1024  # an answer may be several times as large


class WebhookConversion:
    """Asks the conversion webhooks of definitions."""

    def __init__(self, reader: Reader, client: Client, note: Note | None = None) -> None:
        """Set the client; *note* counts conversions."""
        self._reader, self._client, self._note = reader, client, note or _no_metrics

    async def read(self, kind: CustomResourceKind, items: Sequence[KeyValue]) -> Sequence[KeyValue]:
        """Return stored objects in the version of *kind*, marked as such (weir.customresources.reading)."""
        own = f',"apiVersion":"{kind.api_version}"}}'.encode()
        others = [at for at, item in enumerate(items) if not item.value.endswith(own)]
        if not others:
            return items
        result = list(items)
        for batch in batches([len(items[at].value) for at in others], MOST_OBJECTS, MOST_BYTES):
            try:
                sent = [_sent(kind, items[others[at]].value) for at in batch]
                found = await self._ask(kind, sent, kind.api_version)
            except InternalError as error:
                raise Undecodable(error.message, [items[others[at]] for at in batch]) from error
            for at, now in zip(batch, found, strict=True):
                item = items[others[at]]
                result[others[at]] = msgspec.structs.replace(item, value=_value(now, item.mod_revision))
        return result

    async def write(self, kind: CustomResourceKind, document: Document) -> Document:
        """Return an object of *kind*'s version in the version it is stored in."""
        return await self.convert(kind, document, f"{kind.group}/{kind.storage}")

    async def convert(self, kind: CustomResourceKind, document: Document, to: str) -> Document:
        """Return an object of *kind*'s version in the version *to*, as `group/version`."""
        if kind.api_version == to:
            return document
        metadata = {name: value for name, value in document["metadata"].items() if name != "resourceVersion"}
        sent = {**document, "kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        (found,) = await self._ask(kind, [sent], to)
        if "resourceVersion" in document["metadata"]:
            found["metadata"]["resourceVersion"] = document["metadata"]["resourceVersion"]
        return found

    async def _ask(self, kind: CustomResourceKind, sent: list[Document], desired: str) -> list[Document]:
        """Return the objects in the wanted version, and note how long it took; raises InternalError."""
        began, failure = time.perf_counter(), ""
        try:
            return await self._asked(kind, sent, desired)
        except ConversionFailed as error:
            failure = error.failure
            raise
        finally:
            versions = {one["apiVersion"].rpartition("/")[2] for one in sent}
            to = desired.rpartition("/")[2]
            self._note(kind.definition, versions, to, failure, time.perf_counter() - began)

    async def _asked(self, kind: CustomResourceKind, sent: list[Document], desired: str) -> list[Document]:
        webhook = kind.conversion.get("webhook") or {}
        version, uid = review_version(webhook), str(uuid.uuid4())
        try:
            endpoint = endpoint_of(webhook.get("clientConfig") or {}, self._reader, SECONDS)
            body = await self._client.post(endpoint, encoded(sent, uid, desired, version), SECONDS)
        except CallFailed as failure:
            raise failed(kind_of(sent[0]), failure) from failure
        if len(body) < LARGE_BYTES:
            return converted_objects(body, uid, version, desired, sent)
        return await asyncio.to_thread(converted_objects, body, uid, version, desired, sent)


def _no_metrics(definition: str, versions: Iterable[str], to: str, failure: str, seconds: float) -> None:
    """No metrics."""


def _sent(kind: CustomResourceKind, value: bytes) -> Document:
    """Return a stored object as a webhook is shown it: whole in its own version, of no revision yet."""
    found = stored_object(kind, msgspec.json.decode(value))
    if found is None:
        version = msgspec.json.decode(value).get("apiVersion")
        raise InternalError(
            f"request to convert CR from an invalid group/version: {version}, Kind={kind.kind}"
        )
    found["metadata"].pop("resourceVersion", None)
    return found


def _value(document: Document, revision: int) -> bytes:
    """Return a converted object as it would lie in the store."""
    rest = {name: value for name, value in document.items() if name not in ("kind", "apiVersion", "metadata")}
    metadata = {"resourceVersion": str(revision), **document["metadata"]}
    return msgspec.json.encode({"metadata": metadata, **rest, "apiVersion": CONVERTED})
