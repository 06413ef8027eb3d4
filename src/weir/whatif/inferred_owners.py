"""Specs of owners that were not collected, inferred from their pods.

As many pods as there are now, all like the first of them. An inferred owner selects its pods by a label of weir's own,
since the labels of its selector are unknown. Which owners are missing is in weir.whatif.missing_owners.
"""

from __future__ import annotations

from typing import Any, Final

Document = dict[str, Any]
#: On the pods of an owner that was inferred: what its selector selects.
OWNER_LABEL: Final = "weir.dev/owner"
#: What of a pod was added to its template, by admission, the scheduler or a person.
_NOT_OF_TEMPLATE: Final = (
    "nodeName",
    "priority",
    "preemptionPolicy",
    "overhead",
    "ephemeralContainers",
    "schedulingGates",
    "hostname",
    "subdomain",
)


def owner_label(uid: str) -> dict[str, str]:
    """Return the label by which an inferred owner selects its pods."""
    return {OWNER_LABEL: _label(uid)}


def _template(pod: Document, **changes: Any) -> Document:
    """Return the template that *pod* was made from, as far as it shows."""
    spec = {name: value for name, value in pod["spec"].items() if name not in _NOT_OF_TEMPLATE}
    spec |= changes
    if pod["spec"].get("priority") and not spec.get("priorityClassName"):
        spec["priorityClassName"] = class_of(pod["spec"]["priority"])
    metadata = {
        name: dict(pod["metadata"][name]) for name in ("labels", "annotations") if pod["metadata"].get(name)
    }
    return {"metadata": metadata, "spec": spec}


def class_of(priority: int) -> str:
    """Return the name of the class that is generated for pods of this priority."""
    return f"priority-{priority}" if priority >= 0 else f"priority-minus-{-priority}"


def _standing(pods: list[Document]) -> int:
    """Return how many of *pods* their owner counts: neither ended nor terminating."""
    return sum(
        pod["status"].get("phase") not in ("Succeeded", "Failed")
        and not pod["metadata"].get("deletionTimestamp")
        for pod in pods
    )


def replicated(pods: list[Document]) -> Document:
    """Return the spec of a ReplicaSet or ReplicationController of *pods*."""
    return {"replicas": _standing(pods), "template": _template(pods[0], restartPolicy="Always")}


def stateful(pods: list[Document]) -> Document:
    """Return the spec of a StatefulSet of *pods*."""
    numbers = [
        int(number) for pod in pods if (number := pod["metadata"]["name"].rpartition("-")[2]).isdigit()
    ]
    first = min(numbers, default=0)
    spec: Document = {
        "replicas": max(numbers) - first + 1 if numbers else 0,
        "serviceName": pods[0]["spec"].get("subdomain") or "none",
        "template": _template(pods[0], restartPolicy="Always"),
        "updateStrategy": {"type": "OnDelete"},
    }
    if first:
        spec["ordinals"] = {"start": first}
    return spec


def daemon(pods: list[Document]) -> Document:
    """Return the spec of a DaemonSet of *pods*, which each name their node."""
    template = _template(pods[0], restartPolicy="Always")
    affinity = dict(template["spec"].get("affinity") or {})
    node = dict(affinity.get("nodeAffinity") or {})
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [
        kept
        for term in required.get("nodeSelectorTerms") or ()
        if (kept := {name: value for name, value in term.items() if name != "matchFields" and value})
    ]
    node.pop("requiredDuringSchedulingIgnoredDuringExecution", None)
    if terms:
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    affinity.pop("nodeAffinity", None)
    if node:
        affinity["nodeAffinity"] = node
    template["spec"].pop("affinity", None)
    if affinity:
        template["spec"]["affinity"] = affinity
    return {"template": template, "updateStrategy": {"type": "OnDelete"}}


def job(pods: list[Document]) -> Document:
    """Return the spec of a Job of *pods*."""
    policy = pods[0]["spec"].get("restartPolicy")
    template = _template(pods[0], restartPolicy=policy if policy in ("Never", "OnFailure") else "Never")
    standing = _standing(pods)
    return {"parallelism": max(standing, 1), "completions": max(standing, 1), "template": template}


def _label(uid: str) -> str:
    """Return *uid* as the value of a label."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in uid)[-63:].strip(
        "-_."
    )
