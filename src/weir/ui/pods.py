"""Pod history: conditions and events by time, and where the pod would fit now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.ui.answers import NotThere, gates_of, used_gates
from weir.ui.source import ClusterView, lacking

Document = dict[str, Any]


def pod_page(seen: ClusterView, namespace: str, name: str) -> Document:
    """Return the page of one pod."""
    if why := lacking(seen, ("Pod",)):
        return {"schema": "weir.ui.pod/v1", "cannotSay": why}
    pod = seen.pods.get(f"{namespace}/{name}")
    if pod is None:
        raise NotThere(f"no pod {namespace}/{name} in the cluster")
    spec, status, metadata = (pod.get(part) or {} for part in ("spec", "status", "metadata"))
    page: Document = {
        "schema": "weir.ui.pod/v1",
        "namespace": namespace,
        "name": name,
        "node": spec.get("nodeName"),
        "phase": status.get("phase"),
        "owners": [
            f"{each.get('kind')}/{each.get('name')}" for each in metadata.get("ownerReferences") or ()
        ],
        "tolerations": spec.get("tolerations") or [],
        "life": sorted(_life(pod, seen), key=lambda each: str(each["time"])),
    }
    if why := lacking(seen, ("Node",)):
        return {**page, "cannotSay": why}
    subject = replace(Subject.of({**pod, "kind": "Pod"}, stored=True), in_cluster=True)
    gates = gates_of(seen, used_gates(seen))[0]
    return {**page, "explain": explain(subject, seen.world, gates).data()}


def _life(pod: Document, seen: ClusterView) -> Iterator[Document]:
    """Yield the known history of *pod*, each entry with its time and source."""
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    if made := metadata.get("creationTimestamp"):
        yield _moment(made, "Created", "", "the API server")
    for each in status.get("conditions") or ():
        if isinstance(each, dict) and each.get("lastTransitionTime"):
            state = {"True": "", "False": "not "}.get(str(each.get("status")), "perhaps ")
            said = ": ".join(str(part) for part in (each.get("reason"), each.get("message")) if part)
            yield _moment(each["lastTransitionTime"], f"{state}{each.get('type')}", said, "a condition")
    if at := metadata.get("deletionTimestamp"):
        yield _moment(at, "Deleted", "its grace period ends", "the API server")
    for event in seen.documents:
        about = event.get("involvedObject") if event.get("kind") == "Event" else None
        if (
            not isinstance(about, dict)
            or about.get("kind") != "Pod"
            or about.get("name") != metadata.get("name")
        ):
            continue
        if about.get("namespace", "default") != (metadata.get("namespace") or "default"):
            continue
        time = event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or ""
        count = event.get("count") or 1
        text = str(event.get("message") or "") + (f" (×{count})" if count > 1 else "")
        source = event.get("reportingComponent") or (event.get("source") or {}).get("component") or "an event"
        yield _moment(time, str(event.get("reason") or "Event"), text, str(source))


def _moment(time: Any, what: str, text: str, source: str) -> Document:
    return {"time": str(time), "what": what, "text": text, "source": source}
