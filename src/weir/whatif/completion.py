"""What must a snapshot hold before a cluster can live on it? What dumps leave out, put back.

A dump is rarely whole: `kubectl get nodes,pods -A` has no owners, no service accounts, no priority classes. In the copy
they must be there, or their pods would be collected as garbage and new ones refused. An owner that was not collected is
made up from its pods: as many as there are now, alike. What a snapshot does not say is not held against a node or pod:
room on nodes without allocatable, volumes and devices when none were collected.
What surprises: objects that a real API server wrote are kept as they are; only what is missing is filled in.
Not here: what a made-up owner says (weir.whatif.made_up_owners), running the copy (weir.whatif.run).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from weir.controllers.workloads.controller_revisions import restoring
from weir.controllers.workloads.pod_control import owner_reference
from weir.errors import DecodeError
from weir.objects.core import ViewError
from weir.objects.defaults import default
from weir.objects.document import check
from weir.objects.kinds import KINDS, Kind, by_kind, find_kind
from weir.objects.pod_usage import PREFIX, RESOURCES
from weir.objects.times import format_time
from weir.selectors.labels import from_object
from weir.simulation.kubelet.node_classes import FAILED
from weir.values.quantity import Quantity, find_quantity
from weir.whatif.made_up_owners import class_of, daemon, job, owner_label, replicated, stateful
from weir.world import flatten

Document = dict[str, Any]
#: Objects that say something about the moment, about rights or about the network, or that call out: no part of a copy.
LEFT_OUT: Final = frozenset(
    {
        "Event",
        "Lease",
        "Endpoints",
        "EndpointSlice",
        "Secret",
        "ConfigMap",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
_DEVICES: Final = frozenset(
    {"DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule"}
)
_PLENTY: Final = {
    "cpu": str(2**30),
    "memory": str(2**50),
    "ephemeral-storage": str(2**50),
    "pods": str(2**30),
}
_PLENTY_OF_THE_REST: Final = str(2**40)
_VERSIONS: Final = {
    kind: version
    for version, kinds in {
        "v1": ("ReplicationController", "Node", "Pod"),
        "apps/v1": ("ReplicaSet", "StatefulSet", "DaemonSet", "Deployment"),
        "batch/v1": ("Job", "CronJob"),
    }.items()
    for kind in kinds
}
#: The condition reported for a pod that runs, where nobody wrote what its kubelet says.
_READY: Final = ("Initialized", "Ready", "ContainersReady", "PodScheduled")


@dataclass
class Completed:
    """Objects a cluster can live on, and what was made up for it."""

    documents: list[Document]
    notes: list[str] = field(default_factory=list)


def complete(documents: Iterable[Document], now: datetime) -> Completed:
    """Return *documents*, read as their kinds, with everything that a living cluster needs beside them."""
    snapshot = _Snapshot(now)
    for document in flatten(documents):
        snapshot.add(document)
    return Completed(list(snapshot.whole()), snapshot.notes)


def owner_of(document: Document) -> Document | None:
    """Return the entry of the object's controller, if it has one."""
    owners = document["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def read_object(document: Document) -> Document | None:
    """Return *document* read as its kind, defaults filled in; None for a kind that has no part in a copy."""
    name, version = document.get("kind"), document.get("apiVersion")
    if not isinstance(name, str) or name in LEFT_OUT:
        return None
    kind = _kind_of(name, version if isinstance(version, str) else "")
    if kind is None:
        return None
    named = {**document, "apiVersion": kind.api_version, "kind": kind.kind}
    try:
        found, _ = check(named, kind, field_validation="Ignore")
        metadata = found.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("name"):
            raise ViewError(f"{name}: metadata.name is missing")
        default(found, kind)
    except (DecodeError, AttributeError, TypeError, KeyError, ValueError) as error:
        if isinstance(error, ViewError):
            raise
        where = (
            (document.get("metadata") or {}).get("name") if isinstance(document.get("metadata"), dict) else ""
        )
        raise ViewError(f"{name} {where}: {error}") from None
    if kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or "default"
    return found


def _kind_of(name: str, version: str) -> Kind | None:
    kind = find_kind(version, name) if version else None
    if kind is None and not version:
        kind = next((each for each in KINDS if each.stored and each.kind == name and not each.hub), None)
    return kind if kind is not None and kind.stored else None


class _Snapshot:
    """The objects of a snapshot, by kind, while they are completed."""

    def __init__(self, now: datetime) -> None:
        self._now = format_time(now)
        self._held: dict[str, dict[tuple[str, str], Document]] = {}
        self.notes: list[str] = []

    def add(self, document: Document) -> None:
        found = read_object(document)
        if found is not None:
            self._put(found)

    def _put(self, document: Document) -> None:
        metadata = document["metadata"]
        kind, key = document["kind"], (metadata.get("namespace", ""), metadata["name"])
        metadata["uid"] = metadata.get("uid") or "/".join(filter(None, (kind.lower(), *key)))
        metadata["creationTimestamp"] = metadata.get("creationTimestamp") or self._now
        self._held.setdefault(kind, {})[key] = document

    def _of(self, kind: str) -> dict[tuple[str, str], Document]:
        return self._held.setdefault(kind, {})

    def whole(self) -> Iterator[Document]:
        """Yield every object, completed."""
        self._devices()
        for pod in self._of("Pod").values():
            self._pod(pod)
        self._owners()
        self._revisions()
        self._nodes()
        for pod in self._of("Pod").values():
            self._around(pod)
        self._loads()
        for held in self._held.values():
            for _, document in sorted(held.items()):
                yield document

    # ── pods and nodes ───────────────────────────────────────────────────────────────────────────

    def _pod(self, pod: Document) -> None:
        """Let a pod that runs say so as its kubelet would."""
        status = pod.setdefault("status", {})
        status["phase"] = status.get("phase") or "Pending"
        for owner in pod["metadata"].get("ownerReferences") or ():
            owner["apiVersion"] = owner.get("apiVersion") or _VERSIONS.get(owner.get("kind", ""), "v1")
            name = (pod["metadata"]["namespace"], owner.get("name", ""))
            if not owner.get("uid"):
                there = self._of(owner.get("kind", "")).get(name)
                owner["uid"] = (
                    there["metadata"]["uid"] if there else "/".join((owner.get("kind", "").lower(), *name))
                )
        if not pod["spec"].get("nodeName") or status["phase"] not in ("Running", ""):
            return
        since = status["startTime"] = status.get("startTime") or pod["metadata"]["creationTimestamp"]
        if not any(c.get("type") == "Ready" for c in status.get("conditions") or ()):
            status["conditions"] = [
                *(status.get("conditions") or ()),
                *({"type": type, "status": "True", "lastTransitionTime": since} for type in _READY),
            ]
        status["podIP"] = status.get("podIP") or "10.0.0.1"
        known = {each["name"]: each for each in status.get("containerStatuses") or ()}
        status["containerStatuses"] = [
            _running(each, known.get(each["name"]) or {}, since)
            for each in pod["spec"].get("containers") or ()
        ]

    def _nodes(self) -> None:
        """Give nodes that do not say what they have plenty, and switch off those that fell silent."""
        asked = {
            name: _PLENTY_OF_THE_REST
            for pod in self._of("Pod").values()
            for container in (*pod["spec"].get("containers", ()), *(pod["spec"].get("initContainers") or ()))
            for name in (container.get("resources") or {}).get("requests") or ()
        }
        unmeasured = 0
        for node in self._of("Node").values():
            status = node.setdefault("status", {})
            said = status.get("allocatable") or status.get("capacity")
            if not said or "pods" not in said:
                unmeasured += not said
                status["allocatable"] = {
                    **({} if said else {**asked, **_PLENTY}),
                    "pods": _PLENTY["pods"],
                    **(said or {}),
                }
            if any(
                c.get("type") == "Ready" and c.get("status") == "Unknown"
                for c in status.get("conditions") or ()
            ):
                node["metadata"]["annotations"] = {
                    **(node["metadata"].get("annotations") or {}),
                    FAILED: "silent",
                }
        if unmeasured:
            self.notes.append(f"how much room there is on {unmeasured} nodes that do not say it")

    def _loads(self) -> None:
        """Let the pods of an autoscaler's target use together what it last measured: the load stays as it was."""
        for (namespace, _), autoscaler in self._of("HorizontalPodAutoscaler").items():
            reference, status = autoscaler["spec"]["scaleTargetRef"], autoscaler.get("status") or {}
            target = self._of(reference.get("kind", "")).get((namespace, reference.get("name", "")))
            for metric in status.get("currentMetrics") or ():
                measured = metric.get("resource") or {}
                value = find_quantity(str((measured.get("current") or {}).get("averageValue")))
                if target is None or value is None or measured.get("name") not in RESOURCES:
                    continue
                total = Quantity(value.milli_value * (status.get("currentReplicas") or 0), -3)
                annotations = target["metadata"].setdefault("annotations", {})
                annotations.setdefault(f"{PREFIX}{measured['name']}-load", str(total))

    # ── owners ───────────────────────────────────────────────────────────────────────────────────

    def _owners(self) -> None:
        """Make up the owners of pods that were not collected."""
        orphans: dict[tuple[str, str, str], list[Document]] = {}
        for pod in self._of("Pod").values():
            owner = owner_of(pod)
            if owner is not None and (pod["metadata"]["namespace"], owner["name"]) not in self._of(
                owner["kind"]
            ):
                orphans.setdefault((owner["kind"], pod["metadata"]["namespace"], owner["uid"]), []).append(
                    pod
                )
        made, unknown = 0, set()
        for (kind, namespace, _), pods in orphans.items():
            owner = owner_of(pods[0])
            assert owner is not None
            found = self._made_up(kind, namespace, owner, pods)
            if found is None:
                if kind not in ("Node",):
                    unknown.add(kind)
                continue
            made += 1
            self._put(found)
        if made:
            self.notes.append(
                f"what {made} owners that were not collected say: each is taken to want the pods it has"
            )
        if unknown:
            self.notes.append(f"what {', '.join(sorted(unknown))} do: weir does not run them")

    def _made_up(self, kind: str, namespace: str, owner: Document, pods: list[Document]) -> Document | None:
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
        deployment = self._deployment_of(pods[0]) if kind == "ReplicaSet" else None
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
            metadata["ownerReferences"] = [owner_reference(deployment, by_kind("apps/v1", "Deployment"))]
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
            "apiVersion": _VERSIONS[kind],
            "kind": kind,
            "metadata": metadata,
            "spec": spec,
            "status": {"replicas": len(pods)} if kind != "Job" else {},
        }
        row = by_kind(_VERSIONS[kind], kind)
        default(document, row)
        return document

    def _deployment_of(self, pod: Document) -> Document | None:
        labels, namespace = pod["metadata"].get("labels") or {}, pod["metadata"]["namespace"]
        if "pod-template-hash" not in labels:
            return None
        for (where, _), deployment in self._of("Deployment").items():
            selector = from_object(deployment["spec"].get("selector"))
            if where == namespace and selector is not None and selector.matches(labels):
                return deployment
        return None

    def _revisions(self) -> None:
        """Give DaemonSets and StatefulSets the revision their pods are of, where none was collected."""
        recorded = {
            owner["uid"]
            for each in self._of("ControllerRevision").values()
            if (owner := owner_of(each)) is not None
        }
        hashes: dict[str, Counter[str]] = {}
        for pod in self._of("Pod").values():
            owner = owner_of(pod)
            code = (pod["metadata"].get("labels") or {}).get("controller-revision-hash")
            if owner is not None and code:
                hashes.setdefault(owner["uid"], Counter())[code] += 1
        for kind in ("DaemonSet", "StatefulSet"):
            for (namespace, name), each in list(self._of(kind).items()):
                uid = each["metadata"]["uid"]
                if uid in recorded:
                    continue
                if uid not in hashes:  # nothing says of which revision the pods are: none is replaced for it
                    each["spec"]["updateStrategy"] = {"type": "OnDelete"}
                    continue
                code = hashes[uid].most_common(1)[0][0]
                label = "controller-revision-hash" if kind == "DaemonSet" else "controller.kubernetes.io/hash"
                template = each["spec"]["template"]
                self._put(
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

    # ── what pods name ───────────────────────────────────────────────────────────────────────────

    def _devices(self) -> None:
        """Where nothing about devices was collected, pods are taken to ask for none."""
        if any(self._held.get(kind) for kind in _DEVICES):
            return
        asked = 0
        for held in self._held.values():
            for document in held.values():
                template = (
                    document if document["kind"] == "Pod" else (document.get("spec") or {}).get("template")
                )
                if isinstance(template, dict) and (template.get("spec") or {}).pop("resourceClaims", None):
                    asked += 1
        if asked:
            self.notes.append("devices: none were collected")

    def _around(self, pod: Document) -> None:
        """See to it that what the pod names is there: its namespace, account, classes and volumes."""
        spec, namespace = pod["spec"], pod["metadata"]["namespace"]
        self._ensure(
            "v1",
            "Namespace",
            "",
            namespace,
            {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
        )
        account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        for name in {"default", account}:
            self._ensure("v1", "ServiceAccount", namespace, name, {})
        name = spec.get("priorityClassName") or (class_of(spec["priority"]) if spec.get("priority") else "")
        if name:
            value: Document = {"value": spec.get("priority") or 0}
            if spec.get("preemptionPolicy"):
                value["preemptionPolicy"] = spec["preemptionPolicy"]
            self._ensure("scheduling.k8s.io/v1", "PriorityClass", "", name, value)
        if name := spec.get("runtimeClassName"):
            overhead = {"overhead": {"podFixed": spec["overhead"]}} if spec.get("overhead") else {}
            self._ensure("node.k8s.io/v1", "RuntimeClass", "", name, {"handler": name, **overhead})
        for volume in spec.get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim and not self._collected("PersistentVolumeClaim"):
                self._volume(namespace, claim)

    def _collected(self, kind: str) -> bool:
        """Return whether the snapshot itself had objects of *kind*."""
        return any(not _is_made_up(each) for each in self._of(kind).values())

    def _volume(self, namespace: str, claim: str) -> None:
        """Let a claim that nobody collected be bound to a volume that goes everywhere."""
        name = f"{namespace}-{claim}"
        amount = {"storage": "1Gi"}
        self._ensure(
            "v1",
            "PersistentVolumeClaim",
            namespace,
            claim,
            {
                "spec": {
                    "accessModes": ["ReadWriteMany"],
                    "resources": {"requests": amount},
                    "volumeName": name,
                    "storageClassName": "",
                },
                "status": {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": amount},
            },
            {"pv.kubernetes.io/bind-completed": "yes"},
        )
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": namespace,
            "name": claim,
        }
        reference["uid"] = self._of("PersistentVolumeClaim")[namespace, claim]["metadata"]["uid"]
        self._ensure(
            "v1",
            "PersistentVolume",
            "",
            name,
            {
                "spec": {
                    "capacity": amount,
                    "accessModes": ["ReadWriteMany"],
                    "claimRef": reference,
                    "nfs": {"server": "not-collected", "path": "/"},
                    "persistentVolumeReclaimPolicy": "Retain",
                },
                "status": {"phase": "Bound"},
            },
        )
        note = "where volumes can go: none were collected"
        if note not in self.notes:
            self.notes.append(note)

    def _ensure(
        self,
        version: str,
        kind: str,
        namespace: str,
        name: str,
        rest: Mapping[str, Any],
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        if (namespace, name) in self._of(kind):
            return
        metadata: Document = {"name": name, "annotations": {**(annotations or {}), _MADE_UP: "true"}}
        if namespace:
            metadata["namespace"] = namespace
        document = {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}
        default(document, by_kind(version, kind))
        self._put(document)


_MADE_UP: Final = "weir.dev/not-collected"


def _is_made_up(document: Document) -> bool:
    return _MADE_UP in (document["metadata"].get("annotations") or {})


def _running(container: Document, said: Document, since: str) -> Document:
    """Return what a kubelet says of a container that runs, where *said* does not say how it is."""
    if said.get("state"):
        return said
    started = {"state": {"running": {"startedAt": since}}, "ready": True, "started": True}
    return {
        "restartCount": 0,
        "imageID": "",
        **said,
        "name": container["name"],
        "image": container.get("image", ""),
        **started,
    }
