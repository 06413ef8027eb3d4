"""Decodes custom resources from request bodies and from storage.

Bodies are JSON or YAML of any structure. Metadata is decoded as for every kind; unknown fields are dropped and
reported, nulls dropped, defaults filled in. Stored objects are decoded with the current schema.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from weir.compat.customresources.pruning import drop_nulls, fill_defaults, find_unknown_fields, prune
from weir.compat.customresources.schema import Schema
from weir.compat.customresources.served import CustomResourceKind
from weir.errors import BadRequest, DecodeError, Invalid
from weir.fields.documents import show_path
from weir.fields.field import invalid
from weir.objects import fast_decoder, schema
from weir.objects.document import KIND_STRUCT, may_have_duplicates, pairs_of, parse_yaml, unrecognized
from weir.objects.jsontext import (
    TOO_DEEP,
    JsonError,
    duplicate_fields,
    may_be_too_deep,
    parse_json,
    plain,
    too_deep,
)
from weir.objects.strict_decoder import Unreadable, decode_exactly, whole_number
from weir.values.quoting import quote

Document = dict[str, Any]
_FLOATS: Final = re.compile(rb"[:\[,]\s*-?\d+(?:\.|[eE])")
_META: Final = "meta.v1.ObjectMeta"
#: the apiVersion of a value that a webhook converted to the requested version; never stored
CONVERTED: Final = "converted"


def decode_custom(
    body: bytes, kind: CustomResourceKind, *, yaml: bool, field_validation: str
) -> tuple[Document, list[str]]:
    """Return the document *body* holds and its warnings; raises BadRequest in the real server's words."""
    doubled: list[str] = []
    if yaml:
        read, doubled = parse_yaml(body, kind.kind)
        value = plain(read)
    else:
        value, doubled = _parse(body, kind, field_validation != "Ignore")
    if not isinstance(value, dict):
        word = {bool: "bool", str: "string", list: "array"}.get(type(value), "number")
        raise unrecognized(
            body,
            kind.kind,
            "couldn't get version/kind; json parse error: "
            f"json: cannot unmarshal {word} into Go value of type {KIND_STRUCT}",
        )
    if not value.get("kind"):
        text = body.decode(errors="replace").strip()
        raise unrecognized(body, kind.kind, f"Object 'Kind' is missing in '{text}'")
    sent = value.get("apiVersion") or ""
    if value["kind"] != kind.kind and sent.rpartition("/")[0] == kind.group:
        name = (value.get("metadata") or {}).get("name") or ""
        problem = invalid("kind", value["kind"], f"must be {kind.kind}")
        raise Invalid.of(kind.group, value["kind"], name, [problem])
    if sent != kind.api_version:
        raise BadRequest(
            f"the API version in the data ({sent}) does not match the expected API version ({kind.api_version})"
        )
    try:
        return check_custom(value, kind, field_validation, doubled)
    except DecodeError as error:
        version = sent.rpartition("/")[2]
        head = f"{kind.kind} in version {quote(version)} cannot be handled as a {kind.kind}: "
        raise BadRequest(head + error.message) from None


def _parse(body: bytes, kind: CustomResourceKind, look: bool) -> tuple[Any, list[str]]:
    try:
        value = quick_json(body)
        doubled = []
        if look and may_have_duplicates(body, value):
            doubled = [f"duplicate field {quote(path)}" for path in duplicate_fields(parse_json(body))]
        return value, doubled
    except (ValueError, RecursionError):
        pass
    try:
        return plain(parse_json(body)), []
    except JsonError as error:
        raise unrecognized(body, kind.kind, f"couldn't get version/kind; json parse error: {error}") from None


def quick_json(body: bytes) -> Any:
    """Return what JSON says; raises ValueError or RecursionError, and another reader says what is wrong with it."""
    value = msgspec.json.decode(body)
    if may_be_too_deep(body) and too_deep(value):
        raise JsonError(TOO_DEEP)
    return _whole_numbers(value) if _FLOATS.search(body) else value


def _whole_numbers(value: Any) -> Any:
    """Return *value* with the numbers that have no fraction as integers, which is how they are printed."""
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    return whole_number(value) if isinstance(value, float) else value


def check_custom(
    value: Document, kind: CustomResourceKind, field_validation: str, doubled: list[str] | None = None
) -> tuple[Document, list[str]]:
    """Return *value* read as its kind, and its warnings; raises DecodeError with the decoder's sentence alone."""
    problems = list(doubled or ())
    metadata, unknown = _metadata(value.get("metadata"))
    if not problems and not unknown and kind.says.fits(value):
        return {**value, "kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}, []
    embedded = _read_embedded(value, kind.schema, "") if kind.schema.has_embedded else []
    looks = field_validation != "Ignore"
    if looks:
        paths = [show_path(path) for path, _ in find_unknown_fields(value, kind.schema)]
        problems += [f'unknown field "{path}"' for path in [*unknown, *sorted(paths), *embedded]]
    if problems and field_validation == "Strict":
        raise DecodeError("strict decoding error: " + ", ".join(problems))
    document: Document = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    for name, item in value.items():
        if name not in document:
            document[name] = item
    settle_fields(document, kind.schema)
    return document, problems if looks else []


def _metadata(value: Any) -> tuple[Document, list[str]]:
    """Return metadata as every kind's is read, and the paths of its unknown fields."""
    if value is None:
        return {}, []
    of = schema.struct(_META)
    if isinstance(value, dict):
        try:
            read = fast_decoder.convert(value, of)
            if value.get("managedFields") == []:
                read["managedFields"] = []
            return read, []
        except fast_decoder.Refused:
            pass
    try:
        read, problems = decode_exactly(pairs_of(value), of)
    except Unreadable as error:
        raise DecodeError(str(error)) from None
    if isinstance(value, dict) and value.get("managedFields") == []:
        read["managedFields"] = []
    names = [problem.split('"')[1] for problem in problems if problem.startswith("unknown field")]
    return read, [f"metadata.{name}" for name in names]


def _read_embedded(value: Any, of: Schema | None, at: str) -> list[str]:
    """Read the metadata of embedded resources as every kind's is, in place; return its unknown fields."""
    problems: list[str] = []
    if of is None or not of.has_embedded:
        return problems
    if isinstance(value, dict):
        if of.embedded and isinstance(value.get("metadata"), dict):
            value["metadata"], unknown = _metadata(value["metadata"])
            problems += [f"{at}.{path}" for path in unknown]
        for key, item in value.items():
            one = of.properties.get(key)
            if one is None and isinstance(of.additional, Schema):
                one = of.additional
            problems += _read_embedded(item, one, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            problems += _read_embedded(item, of.items, f"{at}[{i}]")
    return problems


def settle_fields(document: Document, of: Schema) -> None:
    """Drop what the schema does not have, in place."""
    prune(document, of, root=True)
    drop_nulls(document, of)


def default_custom(document: Document, kind: CustomResourceKind) -> None:
    """Fill in the defaults of the schema, in place."""
    fill_defaults(document, kind.schema)


def stored_object(kind: CustomResourceKind, stored: Document) -> Document | None:
    """Return what is stored as an object of the version it names, whole; None when there is no such version.

    Takes *stored* over.
    """
    api_version = stored.get("apiVersion") or f"{kind.group}/{kind.storage}"
    served_version = kind.versions.get(api_version.rpartition("/")[2])
    if served_version is None:
        return None
    settle_fields(stored, served_version.schema)
    fill_defaults(stored, served_version.schema)
    return {**stored, "kind": kind.kind, "apiVersion": api_version}


def from_stored(kind: CustomResourceKind, stored: Document) -> Document:
    """Return what is stored as an object of *kind*'s version, without kind and apiVersion. Takes *stored* over.

    Only what conversion `None` does: every version has the same fields, and drops those its schema does not have. What
    a webhook converted is in the version already, and has had its defaults.
    """
    if stored.get("apiVersion") == CONVERTED:
        del stored["apiVersion"]
        settle_fields(stored, kind.schema)
        return stored
    version = (stored.pop("apiVersion", None) or f"/{kind.storage}").rpartition("/")[2]
    served_version = kind.versions.get(version)
    if served_version is not None:
        settle_fields(stored, served_version.schema)
        fill_defaults(stored, served_version.schema)
    if served_version is not kind.says:
        settle_fields(stored, kind.schema)
    return stored


def to_stored(kind: CustomResourceKind, document: Document) -> Document:
    """Return an object of *kind*'s version as it is stored: in the version of the definition's choice."""
    stored = {name: value for name, value in document.items() if name != "kind"}
    stored["apiVersion"] = f"{kind.group}/{kind.storage}"
    if kind.version != kind.storage and (said := kind.versions.get(kind.storage)) is not None:
        stored = msgspec.to_builtins(stored)
        settle_fields(stored, said.schema)
    return stored
