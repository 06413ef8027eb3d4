"""What does a patch make of the parts of an object that it names?

A patch is small and the object is not: `{"status": {"nominatedNodeName": …}}` says nothing about the spec. The parts
that are named are merged, read and given their defaults; all others stay as they are stored, since they were read and
given theirs when they were written. None comes back for whatever is odd about a patch (fields twice or unknown, wrong
types, directives about the whole object, edits of managedFields): the whole object is then read again, which also
finds the words. A property test holds the two ways against each other.
Not here: merging (weir.apiserver.patches.merge, .strategic, .apply), whole objects (weir.apiserver.registry.patching).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec

from weir.apiserver.patches.apply import KUBECTL, apply_configuration
from weir.apiserver.registry.identity import check_patched_identity
from weir.apiserver.strategies import for_kind
from weir.errors import ApiError
from weir.objects import defaults, fast_decoder
from weir.objects.document import copied, may_have_duplicates, root_of
from weir.objects.jsontext import may_be_too_deep
from weir.objects.kinds import Kind

__all__ = ["applied_parts", "patched_parts"]

Document = dict[str, Any]
Merge = Callable[[Document, Document, Kind], Document]

_IDENTITY: Final = frozenset({"kind", "apiVersion", "metadata"})
_STATUS: Final = frozenset({"status"})
_NOTHING: Final[Document] = {}
#: Kinds whose defaults may look at several fields, but only at such of the spec.
_DEFAULTS_IN_SPEC: Final = frozenset(
    {("", "Pod"), ("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")}
)


def patched_parts(
    old: Document,
    body: bytes,
    kind: Kind,
    subresource: str,
    merge: Merge,
    namespace: str,
    name: str,
    now: str,
) -> Document | None:
    """Return what the patch *body* makes of the stored object *old*, with defaults; None: read the whole object.

    *merge* lays a patch over a part of the object and may change both.
    """
    if not _separable(kind, subresource):
        return None
    try:
        overlay = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
    if type(overlay) is not dict or may_be_too_deep(body) or may_have_duplicates(body, overlay):
        return None
    named = _named(overlay, kind, subresource)
    if named is None or "managedFields" in overlay.get("metadata", _NOTHING):
        return None
    metadata = {field: value for field, value in old["metadata"].items() if field != "managedFields"}
    part = copied({**_parts(old, named), "metadata": metadata})
    try:
        new = fast_decoder.convert(merge(part, overlay, kind), root_of(kind))
        if new.get("kind") != kind.kind or new.get("apiVersion") != kind.api_version:
            return None
        check_patched_identity(new, kind, namespace, name)
    except (fast_decoder.Refused, ApiError):
        return None
    return _whole(new, old, named, kind, subresource, now)


def applied_parts(
    old: Document,
    configuration: Document,
    kind: Kind,
    namespace: str,
    name: str,
    *,
    manager: str,
    force: bool,
    now: str,
) -> Document | None:
    """Return what the first apply of *manager* to the status makes of *old*; None: look at the whole object."""
    entries = old["metadata"].get("managedFields")
    if not entries or manager == KUBECTL or not _separable(kind, "status"):
        return None
    if any(entry.get("manager") == manager and entry.get("operation") == "Apply" for entry in entries):
        return None  # what it no longer names has to go
    named = _named(configuration, kind, "status")
    if named is None:
        return None
    try:
        new = apply_configuration(
            _parts(old, named),
            configuration,
            kind,
            manager=manager,
            force=force,
            subresource="status",
            now=now,
        )
        check_patched_identity(new, kind, namespace, name)
    except ApiError:
        return None
    return _whole(new, old, named, kind, "status", now)


def _named(overlay: Document, kind: Kind, subresource: str) -> set[str] | None:
    """Return the parts besides metadata that a patch changes; None when it says what the endpoint has no ear for."""
    named = overlay.keys() - _IDENTITY
    if type(overlay.get("metadata", _NOTHING)) is not dict:
        return None
    if subresource:
        return named if named <= _STATUS else None
    return named if "status" not in named and named <= root_of(kind).fields.keys() else None


def _parts(old: Document, named: set[str]) -> Document:
    return {part: value for part, value in old.items() if part in named or part in _IDENTITY}


def _whole(new: Document, old: Document, named: set[str], kind: Kind, subresource: str, now: str) -> Document:
    """Return the object with the parts that were *named* as in *new*, with defaults, and the others as in *old*.

    These are shared where the endpoint puts them back in any case, and copies elsewhere.
    """
    touched = _parts(new, named)
    defaults.default(touched, kind, now)
    whole: Document = {}
    for part in root_of(kind).fields:
        if part in named or part in _IDENTITY:
            if part in touched:
                whole[part] = touched[part]
        elif part in old:
            whole[part] = old[part] if subresource or part == "status" else copied(old[part])
        elif part in new:  # always printed
            whole[part] = new[part]
    return whole


@cache
def _separable(kind: Kind, subresource: str) -> bool:
    """Whether the parts of an object of this kind can be looked at one by one.

    Not when a default of one part depends on another, except where all of them lie in the spec, which a request for
    the status leaves alone; nor when the stored object says what the defaults are, nor when it is stored otherwise
    than served.
    """
    if subresource not in ("", "status") or kind.converted or for_kind(kind).remembers:
        return False
    if not defaults.spans_parts(kind):
        return True
    return (kind.group, kind.kind) in _DEFAULTS_IN_SPEC and subresource == "status"
