"""Request bodies: JSON, YAML and protobuf to a checked document, and the field manager.

Spec: apiserver.md 2 "Decoding". Bodies of the relaxed device dialect are converted to the hub's layout first; errors
are left to the decoder.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from weir import errors
from weir.apiserver import documents
from weir.apiserver.transport import protobuf
from weir.apiserver.transport.http import Request
from weir.caches import bounded
from weir.customresources.served import CustomResourceKind
from weir.objects import v1alpha4
from weir.objects.kind import Kind
from weir.objects.manifest import ManifestError, read_values

__all__ = ["JSON_TYPES", "decode", "manager_of", "media_type", "relaxed"]

Document = dict[str, Any]

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
