"""Identity of the object of a write: names, namespaces, versions and uids.

Spec: apiserver.md 1.2 (conflicts), 2 "Decoding" (name and namespace in body and URL), 4 "Create and update".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weir import errors
from weir.objects.kind import Kind
from weir.values.integer import IntegerError, parse_uint64

__all__ = [
    "check_name",
    "check_namespace",
    "check_patched_identity",
    "gone_with_this_update",
    "keep_server_set",
    "new_uid",
    "parse_version",
    "uid_text",
]

Document = dict[str, Any]
#: what a random digit becomes where a uid says that it is of the variant of RFC 9562
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def parse_version(text: str) -> int:
    """Return a resourceVersion as a number; raises as upstream does, without a reason."""
    try:
        return parse_uint64(text)
    except IntegerError as error:
        raise errors.InternalError(str(error)) from None


def uid_text(key: str, given: str, stored_uid: str) -> str:
    """Return what a write says when it was meant for an earlier object of this name."""
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {given}, UID in object meta: {stored_uid}"
    )


def check_namespace(kind: Kind, metadata: Document, namespace: str) -> None:
    """Hold the namespace in the body against the one in the URL, and fill it in."""
    given = metadata.get("namespace")
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if given and given != namespace:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def check_name(metadata: Document, name: str) -> None:
    """Hold the name in the body against the one in the URL."""
    given = metadata.get("name")
    if not given:
        raise errors.BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise errors.BadRequest(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


def check_patched_identity(new: Document, kind: Kind, namespace: str, name: str) -> None:
    """A patch may change neither name nor namespace."""
    metadata = new.setdefault("metadata", {})
    check_name(metadata, name)
    check_namespace(kind, metadata, namespace)


def check_new_identity(configuration: Document, kind: Kind, name: str) -> None:
    """A configuration that names an object by its uid does not make another one; a version it names is ignored."""
    metadata = configuration.get("metadata")
    if not isinstance(metadata, dict):
        return
    metadata.pop("resourceVersion", None)
    if uid := metadata.get("uid"):
        text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise errors.Conflict.object(kind, name, text)


def keep_server_set(metadata: Document, was: Document) -> None:
    """Fill in what only the server sets; a uid that the client changed stays for validation."""
    metadata.pop("selfLink", None)
    if "creationTimestamp" in was:
        metadata["creationTimestamp"] = was["creationTimestamp"]
    else:
        metadata.pop("creationTimestamp", None)
    if "uid" not in was:
        metadata.pop("uid", None)
    elif not metadata.get("uid"):
        metadata["uid"] = was["uid"]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):  # once there, they stay as they are
        if field in was:
            metadata[field] = was[field]
        elif not metadata.get(field):
            metadata.pop(field, None)
    if "generation" in was:
        metadata["generation"] = was["generation"]
    else:
        metadata.pop("generation", None)


def gone_with_this_update(kind: Kind, new: Document) -> bool:
    """Return whether the object has only waited for this update to go: terminating, nothing holds it."""
    metadata = new["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if kind.kind == "Namespace" and kind.group == "":
        return not (new.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def new_uid(entropy: bytearray, random_bytes: Callable[[int], bytes]) -> str:
    """Return a fresh random uid; randomness is asked for in larger pieces and kept in *entropy*."""
    if len(entropy) < 16:
        entropy.extend(random_bytes(4096))
    text = entropy[-16:].hex()
    del entropy[-16:]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}"
