"""Adds the owners of pods that were not collected, and the revisions that the pods belong to.

Without its owner a pod would be collected as garbage; without its revision it would be replaced. A ReplicaSet whose
Deployment was collected gets that one's template, any other owner what its pods show (weir.whatif.inferred_owners).
"""

from __future__ import annotations

from statistics import mode
from typing import Any, Final

from weir.controllers.workloads.controller_revisions import restoring
from weir.controllers.workloads.pod_control import owner_reference
from weir.explain.phrases import counted
from weir.objects.defaults import default
from weir.objects.kinds import DEPLOYMENTS, by_kind
from weir.selectors.labels import from_object
from weir.whatif.inferred_owners import daemon, job, owner_label, replicated, stateful
from weir.whatif.snapshot import Snapshot, owner_of

Document = dict[str, Any]
#: The versions of kinds that own pods.
VERSIONS: Final = {
    kind: version
    for version, kinds in {
        "v1": ("ReplicationController", "Node", "Pod"),
        "apps/v1": ("ReplicaSet", "StatefulSet", "DaemonSet", "Deployment"),
        "batch/v1": ("Job", "CronJob"),
    }.items()
    for kind in kinds
}


def add_owners(snapshot: Snapshot) -> None:
    """Make up the owners of pods that were not collected."""
    orphans: dict[tuple[str, str, str], list[Document]] = {}
    for pod in snapshot.of("Pod").values():
        owner = owner_of(pod)
        if owner is not None and (pod["metadata"]["namespace"], owner["name"]) not in snapshot.of(
            owner["kind"]
        ):
            orphans.setdefault((owner["kind"], pod["metadata"]["namespace"], owner["uid"]), []).append(pod)
    made, unknown = 0, set()
    for (kind, namespace, _), pods in orphans.items():
        owner = owner_of(pods[0])
        assert owner is not None
        found = _inferred_owner(snapshot, kind, namespace, owner, pods)
        if found is None:
            if kind not in ("Node",):
                unknown.add(kind)
            continue
        made += 1
        snapshot.put(found)
    if made:
        snapshot.notes.append(
            f"what {counted(made, 'owner')} not collected would say: each is taken to want the pods it has"
        )
    if unknown:
        snapshot.notes.append(f"what {', '.join(sorted(unknown))} do: weir does not run them")


def _inferred_owner(
    snapshot: Snapshot, kind: str, namespace: str, owner: Document, pods: list[Document]
) -> Document | None:
    make = {
        "ReplicaSet": replicated,
        "ReplicationController": replicated,
        "StatefulSet": stateful,
        "DaemonSet": daemon,
        "Job": job,
    }.get(kind)
    if make is None:
        return None
    spec = make(pods)
    labels = owner_label(owner["uid"])
    metadata: Document = {"name": owner["name"], "namespace": namespace, "uid": owner["uid"]}
    deployment = _deployment_of(snapshot, pods[0]) if kind == "ReplicaSet" else None
    if deployment is not None:
        template = deployment["spec"]["template"]
        code = (pods[0]["metadata"].get("labels") or {}).get("pod-template-hash", "")
        spec["template"] = {
            **template,
            "metadata": {
                **(template.get("metadata") or {}),
                "labels": {
                    **((template.get("metadata") or {}).get("labels") or {}),
                    "pod-template-hash": code,
                },
            },
        }
        metadata["ownerReferences"] = [owner_reference(deployment, DEPLOYMENTS)]
        metadata["annotations"] = {"deployment.kubernetes.io/revision": "1"}
        labels = {"pod-template-hash": code}
        selector = deployment["spec"].get("selector") or {}
        spec["selector"] = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **labels}}
        metadata["labels"] = spec["template"]["metadata"]["labels"]
    else:
        for pod in pods:
            pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}
        own = spec["template"]["metadata"]
        own["labels"] = {**(own.get("labels") or {}), **labels}
        if kind == "ReplicationController":
            spec["selector"] = labels
        else:
            spec["selector"] = {"matchLabels": labels}
        if kind == "Job":
            spec["manualSelector"] = True
    document = {
        "apiVersion": VERSIONS[kind],
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
        "status": {"replicas": len(pods)} if kind != "Job" else {},
    }
    row = by_kind(VERSIONS[kind], kind)
    default(document, row)
    return document


def _deployment_of(snapshot: Snapshot, pod: Document) -> Document | None:
    labels, namespace = pod["metadata"].get("labels") or {}, pod["metadata"]["namespace"]
    if "pod-template-hash" not in labels:
        return None
    for (where, _), deployment in snapshot.of("Deployment").items():
        selector = from_object(deployment["spec"].get("selector"))
        if where == namespace and selector is not None and selector.matches(labels):
            return deployment
    return None


def add_revisions(snapshot: Snapshot) -> None:
    """Give DaemonSets and StatefulSets the revision their pods are of, where none was collected."""
    recorded = {
        owner["uid"]
        for each in snapshot.of("ControllerRevision").values()
        if (owner := owner_of(each)) is not None
    }
    hashes: dict[str, list[str]] = {}
    for pod in snapshot.of("Pod").values():
        if (owner := owner_of(pod)) is not None:
            code = (pod["metadata"].get("labels") or {}).get("controller-revision-hash", "")
            hashes.setdefault(owner["uid"], []).append(code)
    for kind in ("DaemonSet", "StatefulSet"):
        for (namespace, name), each in list(snapshot.of(kind).items()):
            uid = each["metadata"]["uid"]
            if uid in recorded:
                continue
            codes = hashes.get(uid)
            if not codes or not all(codes):  # some pod does not say of which revision it is: none is replaced
                each["spec"]["updateStrategy"] = {"type": "OnDelete"}
                continue
            code = mode(codes)
            label = "controller-revision-hash" if kind == "DaemonSet" else "controller.kubernetes.io/hash"
            template = each["spec"]["template"]
            snapshot.put(
                {
                    "apiVersion": "apps/v1",
                    "kind": "ControllerRevision",
                    "metadata": {
                        "name": f"{name}-{code}" if kind == "DaemonSet" else code,
                        "namespace": namespace,
                        "labels": {
                            **((template.get("metadata") or {}).get("labels") or {}),
                            label: code.removeprefix(f"{name}-"),
                        },
                        "ownerReferences": [owner_reference(each, by_kind("apps/v1", kind))],
                    },
                    "data": restoring(template),
                    "revision": 1,
                }
            )
