"""The typed views of pods and nodes that controllers and the scheduler of a forecast share.

A view is made from the parts of a document that changed; the others are taken from the view before it.
"""

from __future__ import annotations

from typing import Any

from weir.controllers.runtime.views import Node, ObjectMeta, Pod, PodSpec, PodStatus
from weir.objects.core import read

Document = dict[str, Any]


class Views:
    """The last view of every pod and node, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[Document, Pod]] = {}
        self._nodes: dict[str, tuple[Document, Node]] = {}

    def pod(self, document: Document) -> Pod:
        """Return the view of a pod as *document* describes it."""
        uid = document["metadata"]["uid"]
        last = self._pods.get(uid)
        if last is None:
            view = read(Pod, document)
        else:
            old, view = last
            if old is document:
                return view
            metadata, spec, status = view.metadata, view.spec, view.status
            if old["metadata"] is not document["metadata"]:
                metadata = read(ObjectMeta, document["metadata"])
            if old["spec"] is not document["spec"]:
                spec = read(PodSpec, document["spec"])
            if old.get("status") is not document.get("status"):
                status = read(PodStatus, document.get("status") or {})
            view = Pod(metadata=metadata, spec=spec, status=status)
        self._pods[uid] = (document, view)
        return view

    def forget_pod(self, uid: str) -> None:
        """A pod is gone."""
        self._pods.pop(uid, None)

    def node(self, document: Document) -> Node:
        """Return the view of a node as *document* describes it."""
        uid = document["metadata"]["uid"]
        last = self._nodes.get(uid)
        if last is None or last[0] is not document:
            last = self._nodes[uid] = (document, read(Node, document))
        return last[1]
