"""List a collection: selectors, pages, versions.

Spec: apiserver.md 9 "List". A list without selectors is a join of stored bytes. A page token names the store
revision of the first page, so all pages show one state; a token whose revision was compacted
answers 410 together with a token that goes on inconsistently.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import msgspec

from weir import errors
from weir.apiserver.registry.conversion import Conversion, Undecodable, convert_value, in_version
from weir.apiserver.transport.options import ListOptions
from weir.clock import Clock
from weir.compat.customresources.served import CustomResourceKind
from weir.objects.jsontext import JsonError, parse_json
from weir.objects.kind import Kind
from weir.selectors import fields, labels
from weir.store import Compacted, FutureRevision, KeyValue, Store
from weir.values.integer import INT64_MAX, IntegerError, parse_uint64
from weir.values.quoting import quote

TURN = 500  # objects held against a plain selector before others have their turn
FUTURE_WAIT_SECONDS = 3.0
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
    "the results. Continuing with the provided token results in an inconsistent list - objects that were "
    "created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
Matcher = Callable[[bytes], bool]


class _Meta(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct, gc=False):
    metadata: _Meta


_labelled = msgspec.json.Decoder(_Labelled)
_whole = msgspec.json.Decoder()
#: Fields much asked for and found under just their name; others may lie elsewhere (weir.selectors.fields).
_PLAIN = frozenset(
    {"metadata.name", "metadata.namespace", "spec.nodeName", "spec.schedulerName", "status.phase"}
)
_NO_LABELS: dict[str, str] = {}


def reader(selected: Sequence[str]) -> Callable[[bytes], Any]:
    """Return what decodes of a document the labels and the *selected* fields, and little else.

    >>> read = reader(["spec.nodeName"])
    >>> read(b'{"metadata":{"name":"a","uid":"7"},"spec":{"nodeName":"n","containers":[]},"status":{}}')
    {'metadata': {'name': 'a'}, 'spec': {'nodeName': 'n'}}
    """
    parts: dict[str, dict[str, Any]] = {"metadata": {"name": Any, "namespace": Any, "labels": Any}}
    for field in selected:
        if field not in _PLAIN:
            return _whole.decode
        part, _, name = field.partition(".")
        parts.setdefault(part, {})[name] = Any
    fields_of_parts = {part: TypedDict(part, names, total=False) for part, names in parts.items()}  # type: ignore[operator]
    few = msgspec.json.Decoder(TypedDict("Selected", fields_of_parts, total=False))  # type: ignore[operator]

    def read(value: bytes) -> Any:
        try:
            return few.decode(value)
        except msgspec.ValidationError:  # a part that is null, or nothing with fields: seldom, but not wrong
            return _whole.decode(value)

    return read


def matcher(kind: Kind, label_selector: str, field_selector: str) -> Matcher | None:
    """Return what tests stored bytes against both selectors; None when everything matches. Raises 400."""
    try:
        by_label = labels.parse(label_selector)
        by_field = fields.parse(field_selector)
        bound = by_field.bind(kind.group, kind.kind, kind.version, selectable_fields(kind))
    except (labels.SelectorError, fields.SelectorError) as error:
        raise errors.BadRequest(str(error)) from None
    if not by_label and not bound:
        return None
    only_labels = not bound
    read = reader([requirement.field for requirement in by_field.requirements])

    def matches(value: bytes) -> bool:
        if only_labels:
            return by_label.matches(_labelled.decode(value).metadata.labels or _NO_LABELS)
        document = read(convert_value(kind, value))
        if by_label and not by_label.matches(document["metadata"].get("labels") or _NO_LABELS):
            return False
        return all((get(document) == value) is equal for get, equal, value in bound)

    return matches


def selectable_fields(kind: Kind) -> dict[str, fields.Getter] | None:
    """Return the fields that select custom resources; None for kinds whose fields are known anyway."""
    if not isinstance(kind, CustomResourceKind):
        return None
    paths = [("metadata", "name"), *([("metadata", "namespace")] if kind.namespaced else [])]
    return {".".join(path): fields.getter(*path) for path in [*paths, *kind.says.selectable]}


def turn_after(options: ListOptions) -> int:
    """Return how many objects may be held against the selectors of *options* before others have their turn.

    >>> turn_after(ListOptions()), turn_after(ListOptions(label_selector="a,b,c,d"))
    (500, 125)
    """
    requirements = 1 + options.label_selector.count(",") + options.field_selector.count(",")
    return max(1, TURN // requirements) if requirements > 1 else TURN


class Page:
    """One page of a list: the chosen objects and what its metadata says."""

    __slots__ = ("continue_token", "items", "remaining", "revision")

    def __init__(
        self, items: Sequence[KeyValue], revision: int, continue_token: str = "", remaining: int | None = None
    ) -> None:
        self.items, self.revision = items, revision
        self.continue_token, self.remaining = continue_token, remaining

    def metadata(self) -> dict[str, Any]:
        """Return the ListMeta."""
        list_metadata: dict[str, Any] = {"resourceVersion": str(self.revision)}
        if self.continue_token:
            list_metadata["continue"] = self.continue_token
            if self.remaining is not None:
                list_metadata["remainingItemCount"] = self.remaining
        return list_metadata


class Lists:
    """Lists of stored objects."""

    def __init__(self, store: Store, clock: Clock, conversion: Conversion | None = None) -> None:
        self._store, self._clock, self.conversion = store, clock, conversion

    async def page(self, kind: Kind, namespace: str, options: ListOptions) -> Page:
        """Return the page the options ask for."""
        matches = matcher(kind, options.label_selector, options.field_selector)
        under = f"{kind.prefix}{namespace}/" if namespace and kind.namespaced else kind.prefix
        limit = max(options.limit, 0)
        start, revision = "", 0
        if options.continue_token:
            revision, relative = decode_token(options.continue_token)
            if options.resource_version not in ("", "0"):
                raise errors.BadRequest("specifying resource version is not allowed when using continue")
            start = under + relative.removeprefix("/")
            revision = max(revision, 0)
        elif options.resource_version:
            wanted = parse_list_version(options.resource_version)
            if wanted > self._store.revision:
                await self.wait_for(wanted)
            if options.match == "Exact":
                revision = wanted
            elif wanted == 0:
                limit = 0  # served from the cache, which does not page
        else:
            await self._store.fresh()
        try:
            return await self._read(kind, under, matches, limit, start, revision, turn_after(options))
        except Compacted:
            if not options.continue_token:
                raise errors.Gone("The resourceVersion for the provided list is too old.") from None
            again = encode_token(-1, start.removeprefix(under))
            raise errors.Gone(CONTINUE_EXPIRED, metadata={"continue": again}) from None
        except FutureRevision as error:
            raise too_large(error.revision, error.current) from None

    async def _read(
        self,
        kind: Kind,
        under: str,
        matches: Matcher | None,
        limit: int,
        start: str,
        revision: int,
        turn: int,
    ) -> Page:
        """Return a page, yielding to the event loop after every *turn* objects visited."""
        if matches is None:
            page = self._store.range(under, start=start, limit=limit, revision=revision)
            items = await self._in_version(kind, page.items)
            if not page.remaining:
                return Page(items, page.revision)
            token = encode_token(page.revision, "/" + page.next_start.removeprefix(under))
            return Page(items, page.revision, token, page.remaining)
        chosen: list[KeyValue] = []
        chunk = max(limit * 4, 500) if limit else 0
        while True:
            page = self._store.range(under, start=start, limit=chunk, revision=revision)
            revision = page.revision
            items = await self._in_version(kind, page.items)
            for position, item in enumerate(items, 1):
                if position % turn == 0:
                    await asyncio.sleep(0)
                if not matches(item.value):
                    continue
                chosen.append(item)
                if limit and len(chosen) == limit:
                    more = page.remaining or position < len(page.items)
                    token = encode_token(revision, "/" + item.key.removeprefix(under) + "\0") if more else ""
                    return Page(chosen, revision, token)
            if not page.remaining:
                return Page(chosen, revision)
            start = page.next_start

    async def _in_version(self, kind: Kind, items: Sequence[KeyValue]) -> Sequence[KeyValue]:
        try:
            return await in_version(self.conversion, kind, items)
        except Undecodable as error:
            raise error.of_list(kind) from error

    async def wait_for(self, revision: int) -> None:
        """Wait a little for a revision that has not happened; raises 504 when it does not."""
        reached = asyncio.ensure_future(self._store.until(revision))
        patience = asyncio.ensure_future(self._clock.sleep(FUTURE_WAIT_SECONDS))
        await asyncio.wait((reached, patience), return_when=asyncio.FIRST_COMPLETED)
        happened = reached.done()
        reached.cancel()
        patience.cancel()
        if not happened:
            raise too_large(revision, self._store.revision)

    async def select(self, kind: Kind, namespace: str, params: dict[str, str]) -> Page:
        """Return what the selectors choose right now."""
        options = ListOptions.parse(params, watch=False)
        matches = matcher(kind, options.label_selector, options.field_selector)
        under = f"{kind.prefix}{namespace}/" if namespace and kind.namespaced else kind.prefix
        return await self._read(kind, under, matches, 0, "", 0, turn_after(options))


def list_kind(kind: Kind) -> str:
    """Return the kind of a list of objects of *kind*."""
    return kind.list_kind if isinstance(kind, CustomResourceKind) else f"{kind.kind}List"


def list_body(kind: Kind, page: Page) -> list[bytes]:
    """Return a page as the List object of its kind, in parts with commas between them."""
    metadata = page.metadata()
    if isinstance(kind, CustomResourceKind):  # such items name their kind, and such a list its end
        metadata.setdefault("continue", "")
        head_of_item = f'{{"kind":"{kind.kind}","apiVersion":"{kind.api_version}",'.encode()
        items = [head_of_item + convert_value(kind, item.value)[1:] for item in page.items]
    elif not kind.converted:
        items = [item.value for item in page.items]
    else:
        items = [convert_value(kind, item.value) for item in page.items]
    head = f'{{"kind":"{list_kind(kind)}","apiVersion":"{kind.api_version}","metadata":'.encode()
    head += msgspec.json.encode(metadata) + b',"items":['
    if not items:
        return [head + b"]}"]
    # Beginning and end go with the first and the last item.
    items[0] = head + items[0]
    items[-1] += b"]}"
    return items


def too_large(wanted: int, current: int) -> errors.Timeout:
    """Return the answer to a version from the future."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return errors.Timeout(
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={"causes": [cause], "retryAfterSeconds": 1},
        retry_after_seconds=1,
    )


def parse_list_version(text: str) -> int:
    """Return a resourceVersion parameter as a number; raises 400."""
    try:
        return parse_uint64(text)
    except IntegerError as error:
        raise errors.BadRequest(
            f"invalid resource version: resourceVersion: Invalid value: {quote(text)}: {error}"
        ) from None


def encode_token(revision: int, start: str) -> str:
    """Return a page token.

    >>> encode_token(7, "/web\\0")
    'eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiIvd2ViXHUwMDAwIn0'
    """
    text = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": revision, "start": start})
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _json_problem(text: bytes) -> str:
    """Return what is wrong with a token's text, in the words of the decoder, which reads bytes."""
    try:
        parse_json(text)
    except JsonError as error:
        return str(error)
    return "json: cannot unmarshal into Go value of type storage.continueToken"


def decode_token(token: str) -> tuple[int, str]:
    """Return (revision, start) of a page token; raises 400.

    A negative revision is no past to read from: the list goes on with what is there now.
    """
    head = "invalid continue token: continue key is not valid: "
    try:
        padded = token + "=" * (-len(token) % 4)
        text = base64.b64decode(padded.encode(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        bad = next((i for i, char in enumerate(token) if not (char.isalnum() or char in "-_")), len(token))
        raise errors.BadRequest(f"{head}illegal base64 data at input byte {bad}") from None
    try:
        parts = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise errors.BadRequest(f"{head}{_json_problem(text)}") from None
    if parts.get("v") != "meta.k8s.io/v1":
        raise errors.BadRequest(
            "invalid continue token: continue key is not valid: server does not recognize this encoded version "
            + str(parts.get("v") or "")
        )
    revision, start = parts.get("rv"), parts.get("start")
    if (
        not isinstance(revision, int)
        or isinstance(revision, bool)
        or revision == 0
        or abs(revision) > INT64_MAX
    ):
        raise errors.BadRequest(f"{head}incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not isinstance(start, str) or not start:
        raise errors.BadRequest(f"{head}encoded start key empty (version meta.k8s.io/v1)")
    if ".." in start.split("/"):
        raise errors.BadRequest(f"{head}{start}")
    return revision, start
