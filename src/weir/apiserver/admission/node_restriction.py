"""NodeRestriction: limits a kubelet's writes to its own node and pods.

Spec: decision 12 (NodeRestriction for kubelet identities).
Applies to users `system:node:<name>` of group `system:nodes`. A kubelet may not change its node's taints or
restricted labels (`node-restriction.kubernetes.io/`, and other `kubernetes.io` names), may create only mirror pods
without API references, and may request tokens only for pods it runs. Unlike upstream, a token's audiences are not
checked against the pod's volumes. Reads are in weir.apiserver.auth.node_authorizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from weir.apiserver.admission.attributes import CREATE, DELETE, UPDATE, Attributes, Reader
from weir.apiserver.admission.certificates import pod_request_problem, request_problem
from weir.apiserver.auth.cel_authorizer import Decide, no_opinion
from weir.apiserver.auth.node_authorizer import LEASE_NAMESPACE, names_used, node_name
from weir.errors import NotFound
from weir.objects.kind import Kind
from weir.objects.kinds import NODES, PODS
from weir.values.quoting import quote

MIRROR = "kubernetes.io/config.mirror"
HANDLED = frozenset(
    {
        "pods",
        "nodes",
        "persistentvolumeclaims",
        "serviceaccounts",
        "leases",
        "csinodes",
        "resourceslices",
        "certificatesigningrequests",
        "podcertificaterequests",
    }
)
KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_PLAIN_VOLUMES = frozenset({"downwardAPI", "emptyDir", "hostPath", "image", "nfs", "iscsi", "fc", "gitRepo"})
_API_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
}
_API_SOURCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def forbidden_labels(new: Mapping[str, str] | None, old: Mapping[str, str] | None) -> list[str]:
    """Return the labels that differ and that a kubelet may not touch, sorted.

    >>> forbidden_labels({"kubernetes.io/os": "linux", "node-restriction.kubernetes.io/pci": "yes"}, {})
    ['node-restriction.kubernetes.io/pci']
    """
    new, old = new or {}, old or {}
    changed = {key for key in {*new, *old} if new.get(key) != old.get(key) or (key in new) != (key in old)}
    return sorted(key for key in changed if not _kubelet_may_label(key))


def _kubelet_may_label(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if _under(domain, "node-restriction.kubernetes.io"):
        return False
    if not _under(domain, "kubernetes.io") and not _under(domain, "k8s.io"):
        return True
    return key in KUBELET_LABELS or any(_under(domain, allowed) for allowed in KUBELET_DOMAINS)


def _under(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def api_reference(spec: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    """Return what of the API a pod uses, "" when nothing: such a pod may be a mirror pod."""
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    for resource in ("secrets", "configmaps"):
        if names_used(pod, resource) - {""}:
            return resource
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        for kind, called in _API_VOLUMES.items():
            if kind in volume:
                return called
        if "projected" in volume:
            for source in volume["projected"].get("sources") or ():
                for kind, called in _API_SOURCES.items():
                    if kind in source:
                        return called
        elif not _PLAIN_VOLUMES.intersection(volume):
            return f"unknown volume type for volume {quote(volume.get('name', ''))}"
    return ""


class NodeRestriction:
    name = "NodeRestriction"

    def __init__(self, reader: Reader, decide: Decide = no_opinion) -> None:
        """Set *decide*, which authorizes pod certificate requests that no volume names."""
        self._reader, self._decide = reader, decide

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return kind.plural in HANDLED

    def admit(self, a: Attributes) -> None:
        node = node_name(a.user)
        if node is None:
            return
        if not node:
            raise a.forbidden(f"could not determine node from user {quote(a.user.name)}")
        checks: dict[str, Callable[[str, Attributes], str]] = {
            "pods": self._pod,
            "nodes": self._node,
            "persistentvolumeclaims": self._claim,
            "serviceaccounts": self._token,
            "leases": self._lease,
            "csinodes": self._csi_node,
            "resourceslices": self._slice,
            "certificatesigningrequests": request_problem,
            "podcertificaterequests": partial(pod_request_problem, reader=self._reader, decide=self._decide),
        }
        problem = checks[a.kind.plural](node, a)
        if problem:
            raise a.forbidden(problem)

    # --- pods ---

    def _pod(self, node: str, a: Attributes) -> str:
        if a.subresource == "status":
            return self._pod_status(node, a)
        if a.subresource == "eviction":
            if a.operation != CREATE:
                return f"unexpected operation {a.operation}"
            runs_here = self._runs_on(node, a.namespace, a.name)
            return "" if runs_here else f"node {node} can only evict pods with spec.nodeName set to itself"
        if a.subresource:
            return (
                f"unexpected pod subresource {quote(a.subresource)}, only 'status' and 'eviction' are allowed"
            )
        if a.operation == CREATE:
            return self._mirror_pod(node, a)
        if a.operation == DELETE:
            runs_here = self._runs_on(node, a.namespace, a.name)
            return (
                ""
                if runs_here
                else f"node {quote(node)} can only delete pods with spec.nodeName set to itself"
            )
        operation = quote(a.operation)
        return f"unexpected operation {operation}, node {quote(node)} can only create and delete mirror pods"

    def _runs_on(self, node: str, namespace: str, name: str) -> bool:
        pod = self._reader.get_now(PODS, namespace, name)
        if pod is None:
            raise NotFound.object(PODS, name)
        return (pod.get("spec") or {}).get("nodeName") == node

    def _mirror_pod(self, node: str, a: Attributes) -> str:
        assert a.object is not None
        pod, shown = a.object, quote(node)
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        if MIRROR not in (metadata.get("annotations") or ()):
            return f"pod does not have {quote(MIRROR)} annotation, node {shown} can only create mirror pods"
        if spec.get("nodeName") != node:
            return f"node {shown} can only create pods with spec.nodeName set to itself"
        problem = self._owner_problem(node, metadata.get("ownerReferences") or [])
        if problem:
            return problem
        used = api_reference(spec, pod)
        return f"node {shown} can not create pods that reference {used}" if used else ""

    def _owner_problem(self, node: str, owners: list[Mapping[str, Any]]) -> str:
        shown = quote(node)
        if len(owners) > 1:
            return f"node {shown} can only create pods with a single owner reference set to itself"
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            return f"node {shown} can only create pods with an owner reference set to itself"
        if not owner.get("controller"):
            return f"node {shown} can only create pods with a controller owner reference set to itself"
        if owner.get("blockOwnerDeletion"):
            return f"node {shown} must not set blockOwnerDeletion on an owner reference"
        stored = self._reader.get_now(NODES, "", node)
        if stored is None:
            raise NotFound.object(NODES, node)
        uid = stored["metadata"].get("uid", "")
        if owner.get("uid") != uid:
            return f"node {node} UID mismatch: expected {owner.get('uid', '')} got {uid}"
        return ""

    @staticmethod
    def _pod_status(node: str, a: Attributes) -> str:
        shown = quote(node)
        if a.operation != UPDATE:
            return f"unexpected operation {quote(a.operation)}"
        old, new = a.old or {}, a.object or {}
        if (old.get("spec") or {}).get("nodeName") != node:
            return f"node {shown} can only update pod status for pods with spec.nodeName set to itself"
        if _labels(old) != _labels(new):
            return f"node {shown} cannot update labels through pod status"
        before, after = old.get("status") or {}, new.get("status") or {}
        if (before.get("resourceClaimStatuses") or []) != (after.get("resourceClaimStatuses") or []):
            return f"node {shown} cannot update resource claim statues"
        if before.get("extendedResourceClaimStatus") != after.get("extendedResourceClaimStatus"):
            return f"node {shown} cannot update extended resource claim status"
        return ""

    # --- nodes ---

    @staticmethod
    def _node(node: str, a: Attributes) -> str:
        asked = a.name or ((a.object or {}).get("metadata") or {}).get("name", "")
        if asked != node:
            return f"node {quote(node)} is not allowed to modify node {quote(asked)}"
        new = a.object or {}
        if a.operation == CREATE:
            labels = forbidden_labels(_labels(new), {})
            if labels:
                return f"node {quote(node)} is not allowed to set the following labels: {', '.join(labels)}"
        if a.operation == UPDATE:
            old = a.old or {}
            if ((new.get("spec") or {}).get("taints") or []) != ((old.get("spec") or {}).get("taints") or []):
                return f"node {quote(node)} is not allowed to modify taints"
            owners = [(one.get("metadata") or {}).get("ownerReferences") or [] for one in (new, old)]
            if owners[0] != owners[1]:
                return f"node {quote(node)} is not allowed to modify ownerReferences"
            labels = forbidden_labels(_labels(new), _labels(old))
            if labels:
                return f"is not allowed to modify labels: {', '.join(labels)}"
        return ""

    # --- the rest ---

    @staticmethod
    def _claim(node: str, a: Attributes) -> str:
        if a.subresource != "status":
            return "may only update PVC status"
        if a.operation != UPDATE:
            return f"unexpected operation {quote(a.operation)}"
        if _beside_status(a.old or {}) != _beside_status(a.object or {}):
            return (
                f"node {quote(node)} is not allowed to update fields other than status.quantity and "
                "status.conditions"
            )
        return ""

    def _token(self, node: str, a: Attributes) -> str:
        if a.operation != CREATE or a.subresource != "token":
            return ""
        reference = ((a.object or {}).get("spec") or {}).get("boundObjectRef") or {}
        name, uid = reference.get("name"), reference.get("uid")
        if reference.get("apiVersion") != "v1" or reference.get("kind") != "Pod" or not name:
            return "node requested token not bound to a pod"
        if not uid:
            return "node requested token with a pod binding without a uid"
        pod = self._reader.get_now(PODS, a.namespace, name)
        if pod is None:
            raise NotFound.object(PODS, name)
        if pod["metadata"].get("uid") != uid:
            return (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        if (pod.get("spec") or {}).get("nodeName") != node:
            return "node requested token bound to a pod scheduled on a different node"
        return ""

    @staticmethod
    def _lease(node: str, a: Attributes) -> str:
        if a.namespace != LEASE_NAMESPACE:
            return f"can only access leases in the {quote(LEASE_NAMESPACE)} system namespace"
        own = _named(a) == node
        return "" if own else "can only access node lease with the same name as the requesting node"

    @staticmethod
    def _csi_node(node: str, a: Attributes) -> str:
        own = _named(a) == node
        return "" if own else "can only access CSINode with the same name as the requesting node"

    @staticmethod
    def _slice(node: str, a: Attributes) -> str:
        document = a.object if a.operation == CREATE else a.old
        if (
            a.operation not in (CREATE, DELETE)
            or ((document or {}).get("spec") or {}).get("nodeName") == node
        ):
            return ""
        verb = a.operation.lower()
        return f"can only {verb} ResourceSlice with the same NodeName as the requesting node"


def _named(a: Attributes) -> str:
    return a.name or str(((a.object or {}).get("metadata") or {}).get("name", ""))


def _labels(document: Mapping[str, Any]) -> Mapping[str, str]:
    return (document.get("metadata") or {}).get("labels") or {}


def _beside_status(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return a claim without what a kubelet may change about it."""
    free = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")
    metadata = {
        name: value
        for name, value in (claim.get("metadata") or {}).items()
        if name not in ("resourceVersion", "managedFields")
    }
    status = {name: value for name, value in (claim.get("status") or {}).items() if name not in free}
    return {**claim, "metadata": metadata, "status": status}
