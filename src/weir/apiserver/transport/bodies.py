"""Request bodies: JSON, YAML and protobuf to a checked document, and the field manager.

Spec: apiserver.md 2 "Decoding". Bodies of the relaxed device dialect are converted to the hub's layout first; errors
are left to the decoder.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from weir import errors
from weir.apiserver import documents
from weir.apiserver.transport import protobuf
from weir.apiserver.transport.http import Request
from weir.caches import bounded
from weir.compat.customresources.served import CustomResourceKind
from weir.objects import v1alpha4
from weir.objects.kind import Document, Kind
from weir.objects.manifest import ManifestError, read_values

JSON_TYPES = frozenset({"", "application/json", "*/*"})
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
UNKNOWN_BODY = (
    "the body of the request was in an unknown format - accepted media types include: "
    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)
UNKNOWN_CUSTOM_BODY = UNKNOWN_BODY.removesuffix(", application/vnd.kubernetes.protobuf")
_encode = msgspec.json.Encoder().encode


def decode(request: Request, kind: Kind, field_validation: str) -> tuple[Document, list[str]]:
    """Return the body as a checked document with the warnings it earned."""
    media = media_type(request)
    if media == protobuf.MEDIA_TYPE and isinstance(kind, CustomResourceKind):
        raise errors.UnsupportedMediaType(UNKNOWN_CUSTOM_BODY)
    if media == protobuf.MEDIA_TYPE:
        body = _encode(protobuf.to_document(request.body))
        return documents.decode(body, kind, field_validation=field_validation)
    yaml = media in YAML_TYPES
    if not yaml and media not in JSON_TYPES:
        custom = isinstance(kind, CustomResourceKind)
        raise errors.UnsupportedMediaType(UNKNOWN_CUSTOM_BODY if custom else UNKNOWN_BODY)
    if kind.version == v1alpha4.VERSION:
        body = relaxed(request.body, kind, yaml=yaml)
        return documents.decode(body, kind, field_validation=field_validation)
    return documents.decode(request.body, kind, yaml=yaml, field_validation=field_validation)


def relaxed(body: bytes, kind: Kind, *, yaml: bool, partial: bool = False) -> bytes:
    """Return a body of the relaxed dialect in the layout of the hub; what cannot be read stays for the decoder."""
    try:
        written = read_values(body) if yaml else [msgspec.json.decode(body)]
    except (ManifestError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body
    return _encode(v1alpha4.relax(kind.kind, written[0], partial=partial)) if len(written) == 1 else body


def media_type(request: Request) -> str:
    """Return the content type of the body without its parameters."""
    return _media_type(request.headers.get(b"content-type", b""))


@bounded(256)
def _media_type(header: bytes) -> str:
    return header.decode("latin-1").partition(";")[0].strip().lower()


def manager_of(request: Request) -> str:
    """Return who owns what this request writes, when it does not say: the client program's name.

    >>> manager_of(Request("POST", "/", headers={b"user-agent": b"kubectl/v1.37.0 (linux/arm64)"}))
    'kubectl'
    """
    return _manager(request.headers.get(b"user-agent", b""))


@bounded(1024)
def _manager(agent_header: bytes) -> str:
    agent = agent_header.decode("latin-1").partition("/")[0]
    return "".join(islice((char for char in agent if char.isprintable()), 128)) or "unknown"


# ── warning headers of a response, deduplicated and bounded ──
# In total `MOST_CHARACTERS`; beyond, each is cut to `LONGEST_CUT` characters, and the rest is dropped, as by the real
# server.


MOST_CHARACTERS = 4 * 1024
LONGEST_CUT = 256


class WarningRecorder(list[str]):
    """Warnings of one request, for the client, and annotations for the audit log."""

    def __init__(self) -> None:
        super().__init__()
        self.annotations: dict[str, str] = {}


def warning_headers(warnings: Iterable[str]) -> list[bytes]:
    """Return the values of the Warning headers for *warnings*.

    >>> warning_headers(["a", "b", "a"])
    [b'299 - "a"', b'299 - "b"']
    >>> sum(map(len, warning_headers("x" * size for size in range(5000)))) < 5000
    True
    """
    told = [text for text in dict.fromkeys(warnings) if text]
    if sum(map(len, told)) > MOST_CHARACTERS:
        told = _cut(told)
    return [_header(text) for text in told]


def first_warnings(warnings: Iterable[str]) -> list[str]:
    """Return as many of *warnings* as could be told, found now: where the caller runs, which may be beside the loop."""
    return list(islice(warnings, MOST_CHARACTERS))


def _cut(warnings: list[str]) -> list[str]:
    """Return the warnings, cut, that fit."""
    kept: list[str] = []
    written = 0
    for text in warnings:
        if written >= MOST_CHARACTERS:
            break
        kept.append(text[:LONGEST_CUT])
        written += len(kept[-1])
    return kept


def _header(text: str) -> bytes:
    r"""Return a warning as the header clients print.

    >>> _header('unknown field "spec.bogus"')
    b'299 - "unknown field \\"spec.bogus\\""'
    """
    escaped = "".join(char if char.isprintable() else " " for char in text)
    escaped = escaped.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'.encode()
