"""API approval of protected groups (`*.k8s.io`), given by an annotation.

Spec: upstream's rules of apiextensions.k8s.io/v1, in its words.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from weir.fields.field import Document, Errors, invalid, required
from weir.values.quoting import quote

APPROVAL: Final = "api-approved.kubernetes.io"
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def approval(definition: Document) -> tuple[str, str]:
    """Return whether a definition in a protected group is "approved", "bypassed", "missing" or "invalid", and why.

    >>> approval({"metadata": {"annotations": {APPROVAL: "unapproved, experimental"}}})[0]
    'bypassed'
    """
    text = ((definition.get("metadata") or {}).get("annotations") or {}).get(APPROVAL) or ""
    if not text:
        return "missing", f"protected groups must have approval annotation {quote(APPROVAL)}, {_SEE}"
    if text.startswith("unapproved"):
        return "bypassed", f"not approved: {quote(text)}"
    try:
        parts: Any = urlsplit(text)
        if parts.scheme and parts.netloc:
            return "approved", f"approved in {text}"
    except ValueError:
        pass
    return (
        "invalid",
        f"protected groups must have approval annotation {quote(APPROVAL)} with either a URL or a reason "
        f'starting with "unapproved", {_SEE}',
    )


def is_protected(group: str) -> bool:
    """Return whether definitions in *group* need the community's approval.

    >>> is_protected("gateway.networking.k8s.io"), is_protected("example.com")
    (True, False)
    """
    return any(group == name or group.endswith(f".{name}") for name in ("k8s.io", "kubernetes.io"))


def validate_approval(new: Document, old: Document | None) -> Errors:
    """Yield what a protected group lacks; an update need not mend what the stored definition lacks too."""
    if not is_protected((new.get("spec") or {}).get("group") or ""):
        return
    state, reason = approval(new)
    if old is not None and approval(old)[0] == state:
        return
    at = f"metadata.annotations[{APPROVAL}]"
    if state == "missing":
        yield required(at, reason)
    elif state == "invalid":
        yield invalid(at, new["metadata"]["annotations"][APPROVAL], reason)
