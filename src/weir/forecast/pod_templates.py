"""What the server made of the pod that an owner asked for last: another one like it need not pass all stages again.

Pods of one owner may differ in what the server takes as it is: their names, with the host name and the labels that a
StatefulSet makes of them, and the node that a DaemonSet writes into the affinity.
"""

from __future__ import annotations

from typing import Any, Final

from weir.controllers.workloads.statefulset import INDEX_LABEL, NAME_LABEL
from weir.values.names import check_dns1123_subdomain

Document = dict[str, Any]
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ALIKE: Final = ("annotations", "finalizers", "generateName", "labels", "ownerReferences")


class PodTemplates:
    """The last pod of every owner, as it was asked for and as it was made."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Document, Document]] = {}  # by the owner's uid

    def note(self, owner: str, asked: Document, made: Document) -> None:
        """An *owner* asked for a pod, and the server made this of it."""
        self._last[owner] = (asked, made)

    def like_before(self, owner: str, asked: Document) -> Document | None:
        """Return what the server makes of a pod that is like the owner's last one; None when it is another."""
        last = self._last.get(owner)
        if last is None or "conditions" in last[1]["status"]:  # a condition says when it was set
            return None
        expected = _named_like(last[0], asked)
        if expected["spec"] != asked["spec"] or any(
            expected["metadata"].get(name) != asked["metadata"].get(name) for name in _ALIKE
        ):
            return None
        return _named_like(last[1], asked)


def _named_like(pod: Document, asked: Document) -> Document:
    """Return *pod* without a name, with the host name, the labels and the node of *asked* where it has such."""
    metadata, spec, wanted = dict(pod["metadata"]), pod["spec"], asked["spec"]
    before, name = metadata.pop("name", ""), asked["metadata"].get("name")
    # Of one owner and as long: as valid as the one before.
    if name and name != before and spec.get("hostname") == before and len(name) == len(before):
        labels = asked["metadata"].get("labels") or {}
        own = {each: labels[each] for each in (NAME_LABEL, INDEX_LABEL) if each in labels}
        metadata["labels"] = {**(metadata.get("labels") or {}), **own}
        spec = {**spec, "hostname": name}
    node = _target(wanted)
    if node and _target(spec) and not check_dns1123_subdomain(node):
        affinity = spec["affinity"]
        required = wanted["affinity"]["nodeAffinity"][_REQUIRED]
        node_affinity = {**affinity["nodeAffinity"], _REQUIRED: required}
        spec = {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}
    return {**pod, "metadata": metadata, "spec": spec}


def _target(spec: Document) -> str:
    """Return the node that the required node affinity of a pod consists of, as DaemonSets write it; "" otherwise."""
    match ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED):
        case {"nodeSelectorTerms": [{"matchFields": [field], **rest}], **others} if not rest and not others:
            match field:
                case {"key": "metadata.name", "operator": "In", "values": [str(node)]}:
                    return node
    return ""
