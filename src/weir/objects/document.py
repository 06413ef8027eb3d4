"""Decodes request bodies into documents of the expected kind.

Spec: apiserver.md 2 "Decoding" (every 400 text, `fieldValidation`). A document is a plain dict as the API server
would print it: quantities canonical, times in UTC, zero values dropped or printed as Go does, unknown fields dropped.
Almost every body is decoded by weir.objects.fast_decoder; weir.objects.strict_decoder handles the rest and produces
the error messages.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NoReturn, Protocol

import msgspec

from weir.errors import BadRequest, DecodeError, RequestTooLarge
from weir.objects import fast_decoder, schema
from weir.objects.jsontext import (
    MOST_VALUES,
    TOO_DEEP,
    JsonError,
    Pairs,
    has_more_values_than,
    may_be_too_deep,
    parse_json,
    plain,
    too_deep,
)
from weir.objects.manifest import ManifestError, TooManyValues, YamlDocument, read_yaml
from weir.objects.strict_decoder import Unreadable, decode_exactly, printed
from weir.values.quoting import quote

_SUMMARY_BYTES: Final = 30
#: how Go's YAML reader begins when it reports keys
YAML_PROBLEMS: Final = "yaml: unmarshal errors:"
_SCHEME: Final = '"pkg/api/legacyscheme/scheme.go:30"'
#: What Go prints for the struct it looks for the kind in.
KIND_STRUCT: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


class KindRow(Protocol):
    """What this module needs of a served kind (weir.objects.kind.Kind)."""

    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def api_version(self) -> str: ...


def decode(
    body: bytes, kind: KindRow, *, yaml: bool = False, field_validation: str = "Warn"
) -> tuple[dict[str, Any], list[str]]:
    """Return the document *body* holds and its warnings; raises BadRequest in the real server's words.

    >>> from weir.objects.kinds import by_kind
    >>> decode(b'{"data": {"k": "v"}, "bogus": 1}', by_kind("v1", "ConfigMap"))
    ({'kind': 'ConfigMap', 'apiVersion': 'v1', 'metadata': {}, 'data': {'k': 'v'}}, ['unknown field "bogus"'])
    """
    if not yaml:
        document = decode_fast(body, kind)
        if document is not None:
            return document, []
    return _decode_exactly(body, kind, yaml, field_validation)


def check(
    document: dict[str, Any], kind: KindRow, *, field_validation: str = "Warn"
) -> tuple[dict[str, Any], list[str]]:
    """Return an already parsed *document* read as its kind, and its warnings.

    Raises DecodeError with the decoder's message alone, for callers that wrap it (the result of a patch).
    """
    root = root_of(kind)
    if _too_deep(document):
        raise DecodeError(TOO_DEEP)
    try:
        return _keep_reset(fast_decoder.convert(document, root), document), []
    except fast_decoder.Refused:
        pass
    try:
        read, problems = decode_exactly(pairs_of(document), root)
        return _judge(_keep_reset(read, document), problems, field_validation)
    except Unreadable as error:
        raise DecodeError(str(error)) from None


def _too_deep(document: dict[str, Any]) -> bool:
    """Return whether *document* is nested too deeply; its text has too few brackets for that almost always."""
    try:
        text = msgspec.json.encode(document)
    except RecursionError:
        return True
    except UnicodeEncodeError:  # half a character in a text: it has no bytes to count brackets in
        return too_deep(document)
    return may_be_too_deep(text) and too_deep(document)


def _keep_reset(read: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    """Keep the empty lists that are not the same as none.

    Those of managedFields ask the server to forget who owns what; scaling rules without any policy are refused, rules
    that do not mention policies get the usual ones.
    """
    if isinstance(sent.get("metadata"), dict) and sent["metadata"].get("managedFields") == []:
        read["metadata"]["managedFields"] = []
    spec = read.get("spec")
    if type(spec) is dict and type(spec.get("behavior")) is dict:
        for way, rules in spec["behavior"].items():
            if rules is not None and sent["spec"]["behavior"][way].get("policies") == []:
                rules["policies"] = []
    return read


def root_of(kind: KindRow) -> schema.Struct:
    """Return the struct of a served kind."""
    root = schema.find_root(kind.api_version, kind.kind)
    if root is None:
        raise LookupError(f"no fields are known for {kind.api_version} {kind.kind}")
    return root


def copied(value: Any) -> Any:
    """Return a deep copy of a JSON value, about fifteen times faster than copy.deepcopy.

    >>> one = {"a": [1]}
    >>> other = copied(one)
    >>> other["a"].append(2)
    >>> one
    {'a': [1]}
    """
    return msgspec.to_builtins(value)


# ── the fast way ─────────────────────────────────────────────────────────────────────────────────


def decode_fast(body: bytes, kind: KindRow) -> dict[str, Any] | None:
    """Return the document, or None when anything about *body* needs the exact way."""
    try:
        raw = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
    if may_be_too_deep(body) and too_deep(raw):
        return None
    if (
        type(raw) is not dict
        or raw.get("kind") != kind.kind
        or raw.get("apiVersion") != kind.api_version
        or may_have_duplicates(body, raw)
    ):
        return None
    try:
        return _keep_reset(fast_decoder.convert(raw, root_of(kind)), raw)
    except fast_decoder.Refused:
        return None


def may_have_duplicates(body: bytes, raw: Any) -> bool:
    """Whether the text may hold more keys than its value.

    Every key has one colon after it, and a string has the colons it has: printed again, the value has fewer colons than
    the text had if and only if a key was dropped. Unless a colon inside a string was spelled as an escape.
    """
    if body.count(b":") != msgspec.json.encode(raw).count(b":"):
        return True
    return b"\\u003a" in body or b"\\u003A" in body


# ── the exact way ────────────────────────────────────────────────────────────────────────────────


def _decode_exactly(body: bytes, kind: KindRow, yaml: bool, mode: str) -> tuple[dict[str, Any], list[str]]:
    value, doubled = parse_yaml(body, kind.kind) if yaml else (_parse(body, kind.kind), [])
    if value is None:
        value = Pairs()
    sent_version, sent_kind = _type_of(value, body, kind)
    version = sent_version.rpartition("/")[2]
    prefix = f"{sent_kind} in version {quote(version)} cannot be handled as a {kind.kind}: "
    root = schema.find_root(sent_version, sent_kind)
    if root is None:
        raise BadRequest(
            f"{prefix}no kind {quote(sent_kind)} is registered for version {quote(sent_version)} in scheme {_SCHEME}"
        )
    try:
        document, problems = decode_exactly(value, root)
    except Unreadable as error:
        raise BadRequest(prefix + str(error)) from None
    if (sent_version, sent_kind) != (kind.api_version, kind.kind):
        if sent_kind == kind.kind and sent_version.rpartition("/")[0] == kind.api_version.rpartition("/")[0]:
            raise BadRequest(
                f"the API version in the data ({sent_version}) does not match the expected API version "
                f"({kind.api_version})"
            )
        into = root_of(kind)
        package = into.name.partition(".")[0]
        raise BadRequest(
            f"{prefix}converting ({version}.{root.go}) to ({package}.{into.go}): unknown conversion"
        )
    if b"managedFields" in body or b"behavior" in body:
        _keep_reset(document, plain(value))
    try:
        document, warnings = _judge(document, doubled + problems, mode)
    except Unreadable as error:
        raise BadRequest(prefix + str(error)) from None
    return {"kind": kind.kind, "apiVersion": kind.api_version, **document}, warnings


def _judge(document: dict[str, Any], problems: list[str], mode: str) -> tuple[dict[str, Any], list[str]]:
    """Apply fieldValidation to what strict decoding complains about."""
    if problems and mode == "Strict":
        raise Unreadable("strict decoding error: " + ", ".join(problems))
    if mode == "Ignore":
        return document, []
    return document, [line for problem in problems for line in _warning_lines(problem)]


def _warning_lines(problem: str) -> list[str]:
    """Return one warning for each key YAML has twice."""
    if not problem.startswith(YAML_PROBLEMS):
        return [problem]
    return [line.strip() for line in problem.splitlines()[1:]]


def _parse(body: bytes, kind: str) -> Any:
    try:
        return parse_json(body)
    except JsonError as error:
        _refuse(body, kind, f"couldn't get version/kind; json parse error: {error}")


def parse_yaml(body: bytes, kind: str) -> tuple[Any, list[str]]:
    """Return the first YAML document of *body* (JSON included) as pairs, and its doubled keys as problems."""
    try:
        documents = read_documents(body)
    except ManifestError as error:
        _refuse(body, kind, f"yaml: {error.in_go_words}")
    if not documents:
        return None, []
    first = documents[0]
    doubled = [
        f"line {place.line}: key {quote(str(path[-1]))} already set in map"
        for path, place in first.duplicates
    ]
    if doubled:
        doubled = [f"{YAML_PROBLEMS}\n  " + "\n  ".join(doubled)]
    return pairs_of(as_json(first.value)), doubled


def read_documents(body: bytes) -> list[YamlDocument]:
    """Return the YAML documents of a request body; raises ManifestError, and 413 when they hold too much."""
    try:
        return read_yaml(body)
    except TooManyValues:
        raise too_many_values() from None


def check_values(body: bytes) -> None:
    """Refuse a JSON text with more values than the server reads (413); what is no JSON is left to its reader."""
    if has_more_values_than(body, MOST_VALUES):
        raise too_many_values()


def too_many_values() -> RequestTooLarge:
    """Return the 413 for a body of more values than any object has."""
    return RequestTooLarge(f"Request entity too large: limit is {MOST_VALUES} values")


def as_json(value: Any) -> Any:
    """Return what YAML says as the JSON it is turned into: keys in order, whole numbers without a fraction.

    >>> as_json({"b": 1e3, "a": [1.5]})
    {'a': [1.5], 'b': 1000}
    """
    if isinstance(value, dict):
        return {key: as_json(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


def yaml_to_json(body: bytes) -> bytes:
    """Return a YAML body as JSON; raises 400."""
    try:
        documents = read_documents(body)
    except ManifestError as error:
        raise BadRequest(f"yaml: {error.in_go_words}") from None
    return msgspec.json.encode(as_json(documents[0].value) if documents else None)


def _type_of(value: Any, body: bytes, kind: KindRow) -> tuple[str, str]:
    """Return the apiVersion and kind a body means; what it leaves out comes from the URL."""
    if type(value) is not Pairs:
        word = {bool: "bool", str: "string", list: "array"}.get(type(value), "number")
        _refuse(
            body,
            kind.kind,
            "couldn't get version/kind; json parse error: "
            f"json: cannot unmarshal {word} into Go value of type {KIND_STRUCT}",
        )
    found = {"apiversion": "", "kind": ""}
    for key, item in value:
        name = key.lower()  # this one look-up of Go's is not case-sensitive
        if name in found and item is not None:
            if type(item) is not str:
                word = _json_word(item)
                go = "apiVersion" if name == "apiversion" else "kind"
                _refuse(
                    body,
                    kind.kind,
                    "couldn't get version/kind; json parse error: "
                    f"json: cannot unmarshal {word} into Go struct field .{go} of type string",
                )
            found[name] = item
    if found["apiversion"].count("/") > 1:
        _refuse(body, kind.kind, f"unexpected GroupVersion string: {found['apiversion']}")
    return found["apiversion"] or kind.api_version, found["kind"] or kind.kind


def _json_word(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "object" if type(value) is Pairs else "array"


def _refuse(body: bytes, kind: str, problem: str) -> NoReturn:
    raise unrecognized(body, kind, problem)


def unrecognized(body: bytes, kind: str, problem: str) -> BadRequest:
    """Return the 400 for a body that is no object of any kind."""
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind}): {problem} ({_summary(body)})"
    )


def _summary(body: bytes) -> str:
    """Return the beginning of a body that could not be read, as the real server shows it.

    >>> _summary(b""), _summary(b"{}"), _summary(b"[1]")
    ('<empty>', '{}', '5b315d')
    """
    if not body:
        return "<empty>"
    cut = body[:_SUMMARY_BYTES]
    shown = cut.decode("utf-8", "replace") if body[:1] == b"{" else cut.hex()
    return shown + " ..." if len(body) > _SUMMARY_BYTES else shown


def pairs_of(value: Any) -> Any:
    """Return plain dicts and lists in the form the exact reader takes."""
    if isinstance(value, dict):
        return Pairs((key, pairs_of(item)) for key, item in value.items())
    if isinstance(value, list):
        return [pairs_of(item) for item in value]
    return value


@cache
def zero(kind: KindRow) -> dict[str, Any]:
    """Return the fields an empty object of *kind* prints besides kind, apiVersion and metadata; do not change them.

    Spec: apiserver.md 10.2 "Events": a BOOKMARK carries them.

    >>> from weir.objects.kinds import by_kind
    >>> zero(by_kind("v1", "Pod"))
    {'spec': {'containers': None}, 'status': {}}
    """
    return {key: value for key, value in printed({}, root_of(kind)).items() if key != "metadata"}
