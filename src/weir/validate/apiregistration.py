"""Validation of APIService.

The name is VERSION.GROUP, priorities are bounded, and a local APIService has no service reference, CA bundle or other
remote fields.
"""

from __future__ import annotations

import base64
from functools import partial
from typing import Final

from weir.fields import field
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import validate_object_meta, validate_object_meta_update
from weir.values.names import (
    Messages,
    check_dns1035_label,
    check_dns1123_subdomain,
    check_path_segment,
)
from weir.values.quoting import quote

_STATUSES: Final = ("True", "False", "Unknown")
_GROUP_MAX, _VERSION_MAX = 20_000, 1_000


def validate_api_service(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with an APIService, or with its status."""
    metadata = new.get("metadata") or {}
    if old is not None:
        yield from validate_object_meta_update(metadata, old.get("metadata") or {})
        if context.subresource == "status":
            for i, one in enumerate((new.get("status") or {}).get("conditions") or ()):
                if one.get("status") not in _STATUSES:
                    yield field.not_supported(
                        f"status.conditions[{i}].status", one.get("status") or "", _STATUSES
                    )
            return
    spec = new.get("spec") or {}
    group, version = spec.get("group") or "", spec.get("version") or ""
    yield from validate_object_meta(metadata, context, partial(_check_name, f"{version}.{group}"))
    if not group and version != "v1":
        yield field.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    yield from field.well_formed("spec.group", group or None, check_dns1123_subdomain)
    yield from field.each_invalid("spec.version", version, check_dns1035_label(version))
    for name, most in (("groupPriorityMinimum", _GROUP_MAX), ("versionPriority", _VERSION_MAX)):
        value = spec.get(name) or 0
        if not 0 < value <= most:
            yield field.invalid(f"spec.{name}", value, f"must be positive and less than {most}")
    yield from _validate_service(spec)


def _check_name(wanted: str, name: str) -> Messages:
    if messages := check_path_segment(name):
        return messages
    return () if name == wanted else (f'must be `spec.version+"."+spec.group`: {quote(wanted)}',)


def _validate_service(spec: Document) -> Errors:
    service, bundle = spec.get("service"), spec.get("caBundle") or ""
    insecure = bool(spec.get("insecureSkipTLSVerify"))
    if service is None:
        if bundle:
            shown = f"{len(base64.b64decode(bundle))} bytes"
            yield field.invalid("spec.caBundle", shown, "local APIServices may not have a caBundle")
        if insecure:
            detail = "local APIServices may not have insecureSkipTLSVerify"
            yield field.invalid("spec.insecureSkipTLSVerify", True, detail)
        return
    for name in ("namespace", "name"):
        if not service.get(name):
            yield field.required(f"spec.service.{name}")
    port = service.get("port") or 0
    if not 0 < port < 65536:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        yield field.invalid("spec.service.port", port, detail)
    if insecure and bundle:
        yield field.invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")
