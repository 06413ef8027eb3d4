"""Validation of ConfigMap.

Spec: apiserver.md 13 (ConfigMap); upstream's size and key rules.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from weir.validate import field
from weir.validate.field import Context, Document, Errors
from weir.validate.meta import validate_meta
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
        total += decoded_length(binary[key])
    if total > MAX_BYTES:
        yield field.too_long("[]", MAX_BYTES)  # the path of nothing


def decoded_length(text: Any) -> int:
    return len(decoded(text))


def decoded(text: Any) -> bytes:
    if isinstance(text, bytes):
        return text
    if not text:  # null is an empty value
        return b""
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""
