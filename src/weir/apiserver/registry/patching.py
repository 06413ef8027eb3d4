"""Patch verb: JSON patch, merge patch, strategic merge patch, server-side apply.

Spec: apiserver.md 7 "Patch". A patch is applied again to the newest object when another write won the race. What each
patch does to a document is in weir.apiserver.patches.
"""

from __future__ import annotations

import msgspec

from weir import errors
from weir.apiserver import documents
from weir.apiserver.patches import apply as server_side
from weir.apiserver.patches import converter
from weir.apiserver.patches import json as json_patch
from weir.apiserver.patches import merge as merge_patch
from weir.apiserver.patches import strategic as strategic_patch
from weir.apiserver.registry.object_write import check_new_identity, check_patched_identity
from weir.apiserver.registry.storage import ATTEMPTS
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.write_request import WriteRequest, WriteResult
from weir.apiserver.transport.bodies import media_type, relaxed
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.options import WriteOptions
from weir.compat.customresources.served import CustomResourceKind
from weir.fields.field import invalid
from weir.objects import schema, v1alpha4
from weir.objects.document import may_have_duplicates, root_of
from weir.objects.jsontext import duplicate_fields, parse_json
from weir.objects.kind import Document, Kind
from weir.values.quoting import quote

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
#: Custom resources have no strategic merge keys.
NO_STRATEGY = (
    "the body of the request was in an unknown format - accepted media types include: "
    f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
)
PATCHES = frozenset({JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH})


def check_patch_type(request: Request, kind: Kind) -> str:
    """Return the type of the patch in *request*; raises UnsupportedMediaType for one that *kind* does not take."""
    media = media_type(request)
    if isinstance(kind, CustomResourceKind) and (media not in PATCHES or media == STRATEGIC_PATCH):
        raise errors.UnsupportedMediaType(NO_STRATEGY)
    if media not in PATCHES:
        raise errors.UnsupportedMediaType("415: Unsupported Media Type", details={})
    return media


class Patching:
    """The verb patch."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    async def patch(
        self, request: Request, kind: Kind, namespace: str, name: str, subresource: str, warnings: list[str]
    ) -> WriteResult:
        """Change the object as the patch in the body says."""
        media = check_patch_type(request, kind)
        apply = media == APPLY_PATCH
        options = WriteOptions.parse(request.params, "PatchOptions", apply=apply)
        write = WriteRequest.of(request, kind, namespace, name, subresource, options, warnings)
        write.options = {"kind": "PatchOptions", **options.document}
        write.owned, write.patched = apply, True
        if apply:
            return await self._apply(write, request.body, options)
        body = request.body
        if kind.version == v1alpha4.VERSION and media != JSON_PATCH:
            body = relaxed(body, kind, yaml=False, partial=True)

        def compute(old: Document) -> Document:
            if media == STRATEGIC_PATCH:
                new, found = converter.patch(old, body, kind, field_validation=options.field_validation)
            else:
                new = patched(media, old, body, kind)
                checks = media == MERGE_PATCH and options.field_validation != "Ignore"
                doubled = duplicates(body) if checks else []
                new, found = check_patched(new, kind, options.field_validation, doubled)
            warnings.extend(found)
            check_patched_identity(new, kind, namespace, name)
            return new

        return await self._verbs.change(write, compute)

    async def _apply(self, write: WriteRequest, body: bytes, options: WriteOptions) -> WriteResult:
        """Server-side apply."""
        kind, namespace, name, subresource = write.kind, write.namespace, write.name, write.subresource
        if kind.version == v1alpha4.VERSION:
            body = relaxed(body, kind, yaml=True)

        def applied(live: Document | None) -> Document:
            manager, force, now = options.field_manager, options.force, self._verbs.now
            configuration = server_side.parse(body)
            doubled = server_side.doubled_keys(body) if options.field_validation != "Ignore" else []
            if live is None:
                check_new_identity(configuration, kind, name)
            new = server_side.apply_configuration(
                live, configuration, kind, manager=manager, force=force, subresource=subresource, now=now
            )
            for problem in doubled:
                if options.field_validation == "Strict":
                    text = f"error strict decoding patch: error converting YAML to JSON: {problem}"
                    raise errors.BadRequest(text)
                write.warnings.extend(line.strip() for line in problem.splitlines()[1:])
            metadata = new.setdefault("metadata", {})
            check_patched_identity(new, kind, namespace, name)
            metadata["name"] = name
            if kind.namespaced:
                metadata["namespace"] = namespace
            return new

        key = kind.key(namespace, name)
        before = len(write.warnings)
        for _ in range(ATTEMPTS):
            if subresource or self._verbs.store.get(key) is not None:
                try:
                    return await self._verbs.change(write, applied)
                except errors.NotFound:
                    if subresource or self._verbs.store.get(key) is not None:
                        raise  # something else is missing
            else:
                try:
                    return await self._verbs.create_document(write, applied(None))
                except errors.AlreadyExists:
                    pass
            del write.warnings[before:]
        raise errors.Conflict.object(kind, name)


def patched(media: str, old: Document, body: bytes, kind: Kind) -> Document:
    """Return what the patch of type *media* makes of *old*."""
    if media == JSON_PATCH:
        patched_document: Document = json_patch.patch(old, body)
        return patched_document
    if media == MERGE_PATCH:
        return merge_patch.patch(old, body)
    return strategic_patch.patch(old, body, kind)


NO_OBJECT = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct "
    '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def check_patched(
    new: Document, kind: Kind, field_validation: str, doubled: list[str] | None = None
) -> tuple[Document, list[str]]:
    """Return the result of a patch as a checked document; what is wrong with it is a 422 on `patch`.

    *doubled* are complaints about the patch itself.
    """
    try:
        if not isinstance(new, dict):  # a JSON patch may replace the whole of it
            raise errors.DecodeError(NO_OBJECT)
        if (new.get("kind") or kind.kind, new.get("apiVersion") or kind.api_version) != (
            kind.kind,
            kind.api_version,
        ):
            raise errors.DecodeError(unknown_kind(new, kind))
        read, found = documents.check(new, kind, field_validation=field_validation)
        if doubled and field_validation == "Strict":
            raise errors.DecodeError("strict decoding error: " + ", ".join(doubled))
        return read, [*(doubled or ()), *found]
    except errors.DecodeError as error:
        shown = msgspec.json.encode(new, order="sorted").decode()
        problem = invalid("patch", shown, error.message)
        raise errors.Invalid.of("", "", "", [problem]) from None


def unknown_kind(new: Document, kind: Kind) -> str:
    """Return what decoding says of an object that a patch turned into something else."""
    name, version = new.get("kind") or "", new.get("apiVersion") or ""
    other = schema.find_root(version, name)
    if other is not None:
        into = root_of(kind)
        package = into.name.partition(".")[0]
        which = version.rpartition("/")[2]
        return f"converting ({which}.{other.go}) to ({package}.{into.go}): unknown conversion"
    scheme = 'in scheme "pkg/runtime/scheme.go:111"'
    return f'no kind "{name}" is registered for version "{version}" {scheme}'


def duplicates(body: bytes) -> list[str]:
    """Return the complaints about fields that a patch names twice."""
    try:
        if not may_have_duplicates(body, msgspec.json.decode(body)):
            return []
        return [f"duplicate field {quote(path)}" for path in duplicate_fields(parse_json(body))]
    except (ValueError, RecursionError):
        return []
