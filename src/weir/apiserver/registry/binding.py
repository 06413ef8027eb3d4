"""What does a binding make of a pod? It gets its node, and the condition that it was scheduled.

Spec: apiserver.md 12 "Subresources", core.md 3.1 (binding errors). `assign` is the rule, on documents. A scheduler
binds pods by the thousand, each as it was created or nominated for its node: for those `read` and `assigned` do the
same on the texts, of which they change a few places, and say None to whatever looks different.
Plain definition: `assign` and the decoder of bodies; tests/property/test_binding.py holds them together. Pays 1.3
times: a binding takes 74 µs of CPU instead of 100, without TLS and disk.
Not here: the request, admission and the store (weir.apiserver.registry.subresources).
"""

from __future__ import annotations

from typing import Any

import msgspec

from weir import errors
from weir.apiserver.registry import codec
from weir.apiserver.registry.identity import uid_text
from weir.apiserver.registry.pod_conditions import set_condition
from weir.objects.kinds import by_kind
from weir.values.quoting import quote

__all__ = ["assign", "assigned", "read"]

Document = dict[str, Any]
POD = by_kind("v1", "Pod")
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def assign(pod: Document, binding: Document, key: str, now: str) -> None:
    """Put the pod on the binding's node, or raise why it may not go there."""
    metadata, spec = pod["metadata"], pod["spec"]
    name, wanted = metadata["name"], binding["metadata"]

    def refuse(text: str) -> errors.Conflict:
        return errors.Conflict(
            f'Operation cannot be fulfilled on pods/binding "{name}": {text}',
            details={"name": name, "kind": "pods/binding"},
        )

    if wanted.get("uid") and wanted["uid"] != metadata["uid"]:
        raise errors.Conflict.object(POD, name, uid_text(key, wanted["uid"], metadata["uid"]))
    if wanted.get("resourceVersion") and wanted["resourceVersion"] != metadata["resourceVersion"]:
        raise errors.Conflict.object(POD, name)
    if metadata.get("deletionTimestamp"):
        raise refuse(f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise refuse(f"pod {name} is already assigned to node {quote(spec['nodeName'])}")
    if spec.get("schedulingGates"):
        raise refuse(f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = binding["target"]["name"]
    for part in ("annotations", "labels"):
        if wanted.get(part):
            metadata[part] = {**(metadata.get(part) or {}), **wanted[part]}
    pod["status"].pop("nominatedNodeName", None)
    set_condition(pod, SCHEDULED, now)


# ------------------------------------------------------------------------------------------------ on the texts


class _Wanted(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    name: str
    namespace: str
    uid: str


class _Target(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    kind: str
    name: str


class _Binding(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A binding as a scheduler sends it."""

    kind: str
    api_version: str = msgspec.field(name="apiVersion")
    metadata: _Wanted
    target: _Target


_KEYS = 9  #: of such a binding, each followed by a colon


class _Metadata(msgspec.Struct, gc=False):
    uid: str
    deletion: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="deletionTimestamp", default=msgspec.UNSET)


class _Spec(msgspec.Struct, gc=False):
    node: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="nodeName", default=msgspec.UNSET)
    gates: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="schedulingGates", default=msgspec.UNSET)


class _Pod(msgspec.Struct, gc=False):
    """What decides about a binding of a stored pod."""

    metadata: _Metadata
    spec: _Spec
    status: msgspec.Raw


class _Status(msgspec.Struct, gc=False):
    nominated: str | msgspec.UnsetType = msgspec.field(name="nominatedNodeName", default=msgspec.UNSET)


_read_binding = msgspec.json.Decoder(_Binding).decode
_read_pod = msgspec.json.Decoder(_Pod).decode
_read_status = msgspec.json.Decoder(_Status).decode
_encode = msgspec.json.Encoder().encode
_NOMINATED = b'"nominatedNodeName":'
_SET_BEFORE = (b'"conditions":', _NOMINATED)
_PLAIN = {"name", "namespace", "uid"}
_BEFORE_STATUS = b'},"status":'
_ASSIGNED = (
    b'%b%b,"nodeName":%b},"status":%b,"conditions":[{"type":"PodScheduled","status":"True",'
    b'"lastProbeTime":null,"lastTransitionTime":"%b"}]}}'
)


def read(body: bytes) -> Document | None:
    """Return a binding as schedulers send them; None when it has to be read the plain way.

    >>> read(b'{"kind":"Binding","apiVersion":"v1","metadata":{"name":"a"},"target":{"name":"n"}}')
    """
    try:
        found = _read_binding(body)
    except (ValueError, RecursionError):
        return None
    if found.kind != "Binding" or found.api_version != "v1" or body.count(b":") != _KEYS:
        return None  # a key that is there twice shows in the colons
    wanted, target = found.metadata, found.target
    return {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": wanted.name, "namespace": wanted.namespace, "uid": wanted.uid},
        "target": {"kind": target.kind, "name": target.name},
    }


def assigned(value: bytes, binding: Document, now: str) -> bytes | None:
    """Return the stored *value* of a pod on the node of *binding*, to be stamped; None: ask `assign`."""
    wanted = binding["metadata"]
    if wanted.keys() != _PLAIN:
        return None
    try:
        pod = _read_pod(value)
    except ValueError:
        return None
    status = bytes(pod.status)
    end = len(value) - 1 - len(status)  # where the status begins
    left = _not_nominated(status)
    if (
        pod.metadata.uid != wanted["uid"]
        or pod.metadata.deletion is not msgspec.UNSET
        or pod.spec.node is not msgspec.UNSET
        or pod.spec.gates is not msgspec.UNSET
        or any(name in left for name in _SET_BEFORE)
        or len(left) < 3
        or not value.endswith(status + b"}")
        or not value.endswith(_BEFORE_STATUS, 0, end)
        or value.endswith(b"{" + _BEFORE_STATUS, 0, end)
    ):
        return None
    head = value[value.index(b'"', codec.STAMP) : end - len(_BEFORE_STATUS)]
    node, time = _encode(binding["target"]["name"]), now.encode()
    return _ASSIGNED % (codec.HEAD, head, node, left[:-1], time)


def _not_nominated(status: bytes) -> bytes:
    """Return a status without the node the pod was nominated for, if that is plainly to be seen.

    >>> _not_nominated(b'{"phase":"Pending","nominatedNodeName":"n","qosClass":"BestEffort"}')
    b'{"phase":"Pending","qosClass":"BestEffort"}'
    """
    if status.count(_NOMINATED) != 1:
        return status
    try:
        nominated = _read_status(status).nominated
    except ValueError:
        return status
    if nominated is msgspec.UNSET:
        return status
    return status.replace(b',%b"%b"' % (_NOMINATED, nominated.encode()), b"", 1)
