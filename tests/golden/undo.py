"""Restores an object as it was before a request changed it, from requests and responses."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.golden.recording import Document, Exchange


def alive(document: Document) -> Document:
    """Return the object as it was before anybody deleted it."""
    metadata = {
        key: value
        for key, value in document["metadata"].items()
        if key not in ("deletionTimestamp", "deletionGracePeriodSeconds")
    }
    if "deletionTimestamp" in document["metadata"] and metadata.get("generation", 0) > 1:
        metadata["generation"] -= 1
    return {**document, "metadata": metadata}


def unbound(document: Document) -> Document:
    """Return a pod as it was before a node was chosen for it."""
    if document.get("kind") != "Pod":
        return document
    spec = {key: value for key, value in document["spec"].items() if key != "nodeName"}
    status = {key: value for key, value in document.get("status", {}).items() if key != "conditions"}
    return {**document, "spec": spec, "status": status}


def without_causes(sent: Document, body: Any) -> Document:
    """Return a refused object without the list items the refusal complains about."""
    found: Document = json.loads(json.dumps(sent))
    causes = (body.get("details") or {}).get("causes") or () if isinstance(body, dict) else ()
    for path in sorted({str(cause.get("field", "")) for cause in causes}, reverse=True):
        target: Any = found
        for name, index in re.findall(r"([A-Za-z]+)(?:\[(\d+)\])?", path):
            inner = target.get(name) if isinstance(target, dict) else None
            if index and isinstance(inner, list):
                if int(index) < len(inner):
                    inner.pop(int(index))
                break
            target = inner
    return found


def renamed(document: Document, name: str) -> Document:
    return {**document, "metadata": {**document["metadata"], "name": name, "labels": {}}}


def undo(sent: Document, body: Document | None) -> Document:
    """Return the object a PUT body was read from, as far as the body tells: its metadata and status."""
    found = json.loads(json.dumps(sent))
    if body is not None:
        found["status"] = body.get("status", {})
        found["metadata"].setdefault("managedFields", body["metadata"].get("managedFields"))
    return found


def before(exchange: Exchange, body: Document, *, spec_changed: bool | None = None) -> Document:
    """Return what the object must have been before the request, taking back what the request says."""
    found = json.loads(json.dumps(body))
    method = exchange.request["method"]
    metadata = found["metadata"]
    sent = exchange.request.get("body")
    if method == "DELETE":
        if "deletionTimestamp" in metadata:
            metadata.pop("deletionTimestamp")
            metadata.pop("deletionGracePeriodSeconds", None)
            if metadata.get("generation"):
                metadata["generation"] -= 1
        for finalizer in ("orphan", "foregroundDeletion"):
            if finalizer in metadata.get("finalizers", ()):
                metadata["finalizers"].remove(finalizer)
        if not metadata.get("finalizers", True):
            metadata.pop("finalizers")
        return found
    if method == "PATCH" and isinstance(sent, list):
        for operation in reversed(sent):
            _undo_operation(found, operation)
        changed = any(str(op.get("path", "")).startswith("/spec") for op in sent)
    elif method == "PATCH" and isinstance(sent, dict):
        _undo_merge(found, sent)
        changed = "spec" in sent and not exchange.info.subresource
    else:
        return found
    if spec_changed is not None:
        changed = spec_changed
    if changed and metadata.get("generation", 0) > 1:
        metadata["generation"] -= 1
    return found


def _undo_operation(document: Document, operation: Document) -> None:
    op, parts = operation.get("op"), _parts(operation.get("path", ""))
    if op not in ("add", "replace", "copy", "move") or not parts:
        return
    target, last = _parent(document, parts), parts[-1]
    if isinstance(target, list) and last == "-" and target:
        target.pop()
    elif isinstance(target, dict) and last in target:
        if op == "replace":
            target[last] = "before" if isinstance(target[last], str) else target[last]
            return
        value = target.pop(last)
        if op == "move" and (origin := _parts(operation.get("from", ""))):
            source = _parent(document, origin)
            if isinstance(source, dict):
                source[origin[-1]] = value


def _parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _parent(document: Document, parts: list[str]) -> Any:
    target: Any = document
    for part in parts[:-1]:
        target = target.get(part) if isinstance(target, dict) else None
    return target


_WHOLE_LISTS = ("tolerations", "taints", "finalizers")


def _undo_merge(document: Document, patch: Document) -> None:
    for name, value in patch.items():
        if name in ("name", "namespace", "kind", "apiVersion", "uid"):
            continue
        if isinstance(value, dict) and isinstance(document.get(name), dict):
            _undo_merge(document[name], value)
            if not document[name] and name in ("labels", "annotations"):
                document.pop(name)
        elif value is None:
            document[name] = "before"
        elif name in document and (not isinstance(value, list) or name in _WHOLE_LISTS):
            document.pop(name)
