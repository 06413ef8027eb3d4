"""Conversion of custom resources by webhook.

As upstream: a read object is pruned and defaulted in its storage version, converted, and pruned in the requested
version; a written object is validated in the request's version and converted last. Objects already in the version are
not sent. Lists are converted in batches of some hundreds.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from weir.apiserver.admission.attributes import Reader
from weir.apiserver.compat.webhooks.client import endpoint_of
from weir.apiserver.compat.webhooks.dispatch import Client
from weir.apiserver.compat.webhooks.review import VERSIONS, CallFailed, check_kind, mistyped, read_review
from weir.apiserver.off_loop import LARGE_BYTES
from weir.apiserver.registry.conversion import Undecodable
from weir.compat.customresources.reading import CONVERTED, quick_json, stored_object
from weir.compat.customresources.served import CustomResourceKind
from weir.errors import InternalError
from weir.fields.meta import validate_annotations, validate_labels
from weir.store import KeyValue
from weir.values.quoting import quote

# ── conversionReview requests and responses ──
# Spec: apiextensions.k8s.io/v1 ConversionReview. Pure. Of the metadata only labels and annotations are taken from the
# response. A v1beta1 review is accepted without uid, kind and apiVersion, as by the real server.


Document = dict[str, Any]
GROUP: Final = "apiextensions.k8s.io"
KIND: Final = "ConversionReview"
_RESPONSE: Final[Mapping[str, tuple[str, type[Any]]]] = {
    "uid": ("types.UID", str),
    "convertedObjects": ("[]runtime.RawExtension", list),
    "result": ("v1.Status", dict),
}


#: Failure label of the metrics.
CALL, MALFORMED, PARTIAL, INVALID = (
    f"conversion_webhook_{what}_failure"
    for what in ("call", "malformed_response", "partial_response", "invalid_converted_object")
)


class ConversionFailed(InternalError):
    """A webhook could not be called, or its response is unusable; *failure* says which."""

    def __init__(self, message: str, failure: str) -> None:
        super().__init__(message)
        self.failure = failure


def review_version(webhook: Mapping[str, Any]) -> str:
    """Return the first version of ConversionReview that the webhook accepts and we can send."""
    for version in webhook.get("conversionReviewVersions") or ():
        if version in VERSIONS:
            return str(version)
    raise InternalError(
        "no supported conversion review versions"
    )  # such a definition is refused when it is written


def encoded(objects: Sequence[Document], uid: str, desired: str, version: str) -> bytes:
    """Return the ConversionReview that asks for *objects* in the apiVersion *desired*."""
    request = {"uid": uid, "desiredAPIVersion": desired, "objects": objects}
    review = {"kind": KIND, "apiVersion": f"{GROUP}/{version}", "request": request}
    return msgspec.json.encode(review, order="sorted")


def failed(kind: str, failure: CallFailed, what: str = CALL) -> ConversionFailed:
    """Return the error for the client when the webhook of *kind* could not be called."""
    reason = failure.reason.removeprefix("failed to call webhook: ")
    return ConversionFailed(f"conversion webhook for {kind} failed: {reason}", what)


def converted_objects(
    body: bytes, uid: str, version: str, desired: str, sent: Sequence[Document]
) -> list[Document]:
    """Return the objects of an answer, each with its metadata restored; raises InternalError."""
    kind = kind_of(sent[0])
    try:
        found = _objects(body, uid, version)
    except CallFailed as failure:
        raise failed(kind, failure, MALFORMED) from failure
    if len(found) != len(sent):
        text = f"conversion webhook for {kind} returned {len(found)} objects, expected {len(sent)}"
        raise ConversionFailed(text, PARTIAL)
    for at, one in enumerate(found):
        if not isinstance(one, dict) or not one.get("kind"):
            raise ConversionFailed(f"Object 'Kind' is missing in '{_text(body, at)}'", INVALID)
    return [_checked(was, now, desired) for was, now in zip(sent, found, strict=True)]


class _Response(msgspec.Struct):
    objects: list[msgspec.Raw] = msgspec.field(name="convertedObjects")


class _Texts(msgspec.Struct):
    response: _Response


def _text(body: bytes, at: int) -> str:
    """Return the converted object at a place as the webhook wrote it."""
    return bytes(msgspec.json.decode(body, type=_Texts).response.objects[at]).decode()


def kind_of(document: Mapping[str, Any]) -> str:
    """Return group, version and kind of an object as errors name them.

    >>> kind_of({"apiVersion": "example.com/v1", "kind": "Widget"})
    'example.com/v1, Kind=Widget'
    """
    return f"{document.get('apiVersion')}, Kind={document.get('kind')}"


def _objects(body: bytes, uid: str, version: str) -> list[Any]:
    """Return what a review says it converted; raises CallFailed."""
    review = _review(body)
    check_kind(review, KIND, GROUP, version)
    response = review.get("response")
    if response is not None and not isinstance(response, dict):
        raise mistyped(response, f"{KIND}.response", f"{version}.ConversionResponse")
    for name, (into, of) in _RESPONSE.items():
        value = (response or {}).get(name)
        if value is not None and not isinstance(value, of):
            raise mistyped(value, f"ConversionResponse.response.{name}", into)
    if version == "v1":
        _check_version(review)
    if response is None:
        raise CallFailed("no response provided")
    answered = str(response.get("uid") or "")
    if version == "v1" and answered != uid:
        raise CallFailed(f"expected response.uid={quote(uid)}, got {quote(answered)}")
    result = response.get("result") or {}
    status = result.get("status") or ""
    if status != "Success":
        raise CallFailed(
            str(result.get("message") or f"response.result.status was '{status}', not 'Success'")
        )
    return list(response.get("convertedObjects") or ())


def _review(body: bytes) -> Mapping[str, Any]:
    """Return the document of an answer, which may hold hundreds of objects; raises CallFailed."""
    try:
        review = quick_json(body)
    except (ValueError, RecursionError):
        review = None
    return review if isinstance(review, dict) else read_review(body)


def _check_version(review: Mapping[str, Any]) -> None:
    group, _, version = str(review.get("apiVersion") or "").rpartition("/")
    got = f"{group}/{version}, Kind={review.get('kind') or ''}"
    if got != f"{GROUP}/v1, Kind={KIND}":
        raise CallFailed(f"expected webhook response of {GROUP}/v1, Kind={KIND}, got {got}")


def _checked(was: Document, now: Document, desired: str) -> Document:
    """Return a converted object with the metadata it had; raises ConversionFailed when it is another one."""
    head = f"conversion webhook for {kind_of(was)} returned invalid"
    group_version = now.get("apiVersion") or ""
    if group_version != desired:
        raise ConversionFailed(
            f"{head} object at index 0: invalid groupVersion (expected {desired}, received {group_version})",
            INVALID,
        )
    if now["kind"] != was["kind"]:
        raise ConversionFailed(
            f"{head} object at index 0: invalid kind (expected {was['kind']}, received {now['kind']})",
            INVALID,
        )
    given = now.get("metadata")
    for field, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        had = was["metadata"].get(field) or ""
        has = given.get(field) if isinstance(given, dict) else ""
        has = has if isinstance(has, str) else ""
        if had != has:
            raise ConversionFailed(f"{head} object: must have the same {shown}: {had} != {has}", INVALID)
    try:
        return {**now, "metadata": _restored(was["metadata"], now)}
    except ValueError as error:
        raise ConversionFailed(f"{head} metadata: {error}", INVALID) from None


def _restored(had: Document, now: Document) -> Document:
    """Return the metadata an object had, with the labels and annotations it came back with; raises ValueError."""
    if "metadata" not in now:
        raise ValueError("missing metadata in converted object")
    given = now["metadata"]
    if not isinstance(given, dict):
        raise ValueError(f"invalid metadata of type {_go_type(given)} in converted object")
    metadata = dict(had)
    for field, check, at in (
        ("labels", validate_labels, "metadata.labels"),
        ("annotations", validate_annotations, "metadata.annotation"),
    ):
        found = given.get(field)
        if found is None:
            metadata.pop(field, None)
            continue
        if not isinstance(found, dict):
            raise ValueError(f"invalid metadata.{field} of type {_go_type(found)} in converted object")
        for key, value in found.items():
            if not isinstance(value, str):
                raise ValueError(
                    f"metadata.{field}[{key}] must be a string, but is {_go_type(value)} in converted object"
                )
        if found != (had.get(field) or {}) and (wrong := [str(one) for one in check(found, at)]):
            texts = list(dict.fromkeys(wrong))
            raise ValueError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        metadata[field] = found
    return metadata


def _go_type(value: object) -> str:
    names = {"str": "string", "int": "int64", "float": "float64", "bool": "bool", "list": "[]interface {}"}
    return {**names, "dict": "map[string]interface {}", "NoneType": "<nil>"}[type(value).__name__]


def batches(sizes: Sequence[int], most_objects: int, most_bytes: int) -> list[range]:
    """Return which objects go into one request each: a few at a time where they are large.

    >>> batches([1, 1, 5, 9, 1], 2, 6)
    [range(0, 2), range(2, 3), range(3, 4), range(4, 5)]
    """
    starts, held = [0], 0
    for at, size in enumerate(sizes):
        if at > starts[-1] and (at - starts[-1] == most_objects or held + size > most_bytes):
            starts.append(at)
            held = 0
        held += size
    return [range(*pair) for pair in pairwise([*starts, len(sizes)])]


# ── conversion of custom resources by webhook ──


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
        """Return stored objects in the version of *kind*, marked as such (weir.compat.customresources.reading)."""
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
