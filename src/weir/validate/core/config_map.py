"""Validation of ConfigMap and Secret.

Spec: apiserver.md 13 (ConfigMap); upstream's size and key rules.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import IMMUTABLE, validate_meta
from weir.objects.jsontext import JsonError, parse_json
from weir.values.names import byte_length, check_config_key

MAX_BYTES: Final = 1024 * 1024
SET_IMMUTABLE: Final = "field is immutable when `immutable` is set"


def validate_config_map(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ConfigMap."""
    yield from validate_meta(new, old, context)
    if old is not None and old.get("immutable"):
        if not new.get("immutable"):
            yield field.forbidden("immutable", SET_IMMUTABLE)
        for name in ("data", "binaryData"):
            if (new.get(name) or {}) != (old.get(name) or {}):
                yield field.forbidden(name, SET_IMMUTABLE)
    data, binary = new.get("data") or {}, new.get("binaryData") or {}
    total = 0
    for key in sorted(data):
        yield from field.each_invalid(f"data[{key}]", key, check_config_key(key))
        if key in binary:
            yield field.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        total += byte_length(data[key])
    for key in sorted(binary):
        yield from field.each_invalid(f"binaryData[{key}]", key, check_config_key(key))
        total += len(decoded(binary[key]))
    if total > MAX_BYTES:
        yield field.too_long("[]", MAX_BYTES)  # the path of nothing


def decoded(text: Any) -> bytes:
    """Return the bytes of a field in base64; decoding refused a document with other text before."""
    if isinstance(text, bytes):
        return text
    if not text:  # null is an empty value
        return b""
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""


# ── Secret ────────────────────────────────────────────────────────────────────────────────────────────


#: Secret types that must hold certain keys, and where they are reported.
_NEEDED: Final = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
_ACCOUNT: Final = "kubernetes.io/service-account.name"


def validate_secret(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a Secret; some types need certain keys."""
    yield from validate_meta(new, old, context)
    if old is not None:
        if (new.get("type") or "Opaque") != (old.get("type") or "Opaque"):
            yield field.invalid("type", Enum(new.get("type") or ""), IMMUTABLE)
        if old.get("immutable"):
            if not new.get("immutable"):
                yield field.forbidden("immutable", SET_IMMUTABLE)
            if (new.get("data") or {}) != (old.get("data") or {}):
                yield field.forbidden("data", SET_IMMUTABLE)
    data: dict[str, Any] = {**(new.get("data") or {}), **(new.get("stringData") or {})}
    for key in sorted(data):
        yield from field.each_invalid(f"data[{key}]", key, check_config_key(key))
    total = sum(len(decoded(value)) for value in (new.get("data") or {}).values())
    if total > MAX_BYTES:
        yield field.too_long("data", MAX_BYTES)
    yield from _validate_type(new, data)


def _validate_type(secret: Document, data: dict[str, Any]) -> Errors:
    kind = secret.get("type") or "Opaque"
    if kind == "kubernetes.io/service-account-token":
        yield from field.present(
            f"metadata.annotations[{_ACCOUNT}]",
            ((secret.get("metadata") or {}).get("annotations") or {}).get(_ACCOUNT),
        )
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            yield field.required("data[username]")
            yield field.required("data[password]")
    else:
        for key in _NEEDED.get(kind, ()):
            if key not in data:
                yield field.required(f"data[{key}]")
            elif kind.startswith("kubernetes.io/docker"):
                try:
                    parse_json(decoded(data[key]))
                except JsonError as error:
                    yield field.invalid(f"data[{key}]", "<secret contents redacted>", str(error))
