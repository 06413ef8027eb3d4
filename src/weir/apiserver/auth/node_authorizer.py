"""Node authorizer: permissions of kubelets.

Spec: decision 12 (NodeRestriction for kubelet identities).
A kubelet is a user `system:node:<name>` in group `system:nodes`. It may read what the pods on its node use, and
report about itself and its pods. Otherwise it has no opinion, and RBAC may allow. The relation of an object to a node
is looked up among the node's pods per request; upstream keeps a graph. Writes are further limited by
weir.apiserver.admission.node_restriction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from weir.apiserver.admission.attributes import Reader
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.rbac import NO_OPINION, Action, Decision, Rule
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, POD_CERTIFICATE_REQUESTS, PODS, find
from weir.selectors import fields

NODES_GROUP = "system:nodes"
NODE_USER = "system:node:"
LEASE_NAMESPACE = "kube-node-lease"
_ALLOWED = Decision(True)
_OWN_VERBS = ("get", "create", "update", "patch", "delete")


def node_name(user: User) -> str | None:
    """Return which node's kubelet *user* is: "" when it does not say, None when it is no kubelet.

    >>> node_name(User("system:node:n1", groups=("system:nodes",))), node_name(User("jane"))
    ('n1', None)
    """
    if NODES_GROUP not in user.groups:
        return None
    return user.name[len(NODE_USER) :] if user.name.startswith(NODE_USER) else ""


class NodeAuthorizer:
    """Answers for kubelets; has no opinion about other users."""

    def __init__(self, reader: Reader, rules: tuple[Rule, ...]) -> None:
        """*rules* are those of ClusterRole system:node, for resources that are not divided by node."""
        self._reader = reader
        self._rules = rules
        self._by_resource: Mapping[tuple[str, str], Callable[[str, Action], Decision]] = {
            ("", "secrets"): self._read_used,
            ("", "configmaps"): self._read_used,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get_used,
            ("resource.k8s.io", "resourceclaims"): self._get_used,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("storage.k8s.io", "volumeattachments"): self._get_used,
            ("", "serviceaccounts"): self._service_account,
            ("coordination.k8s.io", "leases"): self._lease,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("certificates.k8s.io", "podcertificaterequests"): self._pod_certificate,
        }

    def authorize(self, user: User, action: Action) -> Decision:
        node = node_name(user)
        if node is None:
            return NO_OPINION
        if not node:
            return Decision(False, f'unknown node for user "{user.name}"')
        divided = self._by_resource.get((action.group, action.resource)) if action.resource else None
        if divided is not None:
            return divided(node, action)
        return _ALLOWED if any(rule.allows(action) for rule in self._rules) else NO_OPINION

    # --- kinds whose objects belong to nodes by way of pods ---

    def _read_used(self, node: str, action: Action) -> Decision:
        if action.verb not in ("get", "list", "watch"):
            return Decision(False, "can only read resources of this type")
        if action.subresource:
            return Decision(False, "cannot read subresource")
        if not action.namespace:
            return Decision(False, "can only read namespaced object of this type")
        return self._used(node, action)

    def _get_used(self, node: str, action: Action) -> Decision:
        if action.verb != "get":
            return Decision(False, "can only get individual resources of this type")
        if action.subresource:
            return Decision(False, "cannot get subresource")
        return self._used(node, action)

    def _claim(self, node: str, action: Action) -> Decision:
        if action.subresource != "status":
            return self._get_used(node, action)
        if action.verb not in ("update", "patch"):
            return Decision(False, "can only get/update/patch this type")
        return self._used(node, action)

    def _service_account(self, node: str, action: Action) -> Decision:
        if action.verb == "get" and not action.subresource:
            return self._read_used(node, action)
        if action.verb != "create" or not action.name:
            return Decision(False, "can only create tokens for individual service accounts")
        if action.subresource != "token":
            return Decision(False, "can only create token subresource of serviceaccount")
        return self._used(node, action)

    def _pod_certificate(self, node: str, action: Action) -> Decision:
        if action.subresource:
            return Decision(False, "nodes may not access the status subresource of PodCertificateRequests")
        if action.verb == "create":
            return _ALLOWED  # admission checks the content
        if action.verb == "get":
            found = self._reader.get_now(POD_CERTIFICATE_REQUESTS, action.namespace, action.name)
            if found is not None and (found.get("spec") or {}).get("nodeName") == node:
                return _ALLOWED
            return Decision(False, f"no relationship found between node '{node}' and this object")
        if action.verb in ("list", "watch"):
            if _selected(action, "spec.nodeName") == node:
                return _ALLOWED
            return Decision(False, "can only list/watch podcertificaterequests with nodeName field selector")
        return Decision(False, f"nodes may not {action.verb} podcertificaterequests")

    def _used(self, node: str, action: Action) -> Decision:
        if not action.name:
            return Decision(False, "No Object name found")
        if self._is_related(node, action.resource, action.namespace, action.name):
            return _ALLOWED
        return Decision(False, f"no relationship found between node '{node}' and this object")

    def _is_related(self, node: str, resource: str, namespace: str, name: str) -> bool:
        if resource == "pods":
            pod = self._reader.get_now(PODS, namespace, name)
            return pod is not None and (pod.get("spec") or {}).get("nodeName") == node
        if resource in ("volumeattachments", "resourceslices"):
            group = "storage.k8s.io" if resource == "volumeattachments" else "resource.k8s.io"
            kind = find(group, "v1", resource)
            found = self._reader.get_now(kind, "", name) if kind else None
            return found is not None and (found.get("spec") or {}).get("nodeName") == node
        if resource == "persistentvolumes":
            return any(
                self._volume_of(pod, claim) == name
                for pod in self._pods(node, None)
                for claim in names_used(pod, "persistentvolumeclaims")
            )
        return any(name in names_used(pod, resource) for pod in self._pods(node, namespace))

    def _pods(self, node: str, namespace: str | None) -> Iterator[Mapping[str, Any]]:
        for pod in self._reader.list_now(PODS, namespace):
            if (pod.get("spec") or {}).get("nodeName") == node:
                yield pod

    def _volume_of(self, pod: Mapping[str, Any], claim: str) -> str:
        found = self._reader.get_now(PERSISTENT_VOLUME_CLAIMS, pod["metadata"].get("namespace", ""), claim)
        return str(((found or {}).get("spec") or {}).get("volumeName", ""))

    # --- kinds whose objects belong to nodes by themselves ---

    def _lease(self, node: str, action: Action) -> Decision:
        if action.verb not in _OWN_VERBS:
            return Decision(False, "can only get, create, update, patch, or delete a node lease")
        if action.namespace != LEASE_NAMESPACE:
            return Decision(False, f'can only access leases in the "{LEASE_NAMESPACE}" system namespace')
        if action.verb != "create" and action.name != node:
            return Decision(False, "can only access node lease with the same name as the requesting node")
        return _ALLOWED

    def _csi_node(self, node: str, action: Action) -> Decision:
        if action.subresource:
            return Decision(False, "cannot authorize CSINode subresources")
        if action.verb not in _OWN_VERBS:
            return Decision(False, "can only get, create, update, patch, or delete a CSINode")
        if action.verb != "create" and action.name != node:
            return Decision(False, "can only access CSINode with the same name as the requesting node")
        return _ALLOWED

    def _slice(self, node: str, action: Action) -> Decision:
        if action.subresource:
            return Decision(False, "cannot authorize ResourceSlice subresources")
        if action.verb == "create":
            return _ALLOWED
        if action.verb in ("get", "update", "patch", "delete"):
            return self._used(node, action)
        if action.verb in ("list", "watch", "deletecollection"):
            if _selected(action, "spec.nodeName") == node:
                return _ALLOWED
            return Decision(
                False, "can only list/watch/deletecollection resourceslices with nodeName field selector"
            )
        return Decision(
            False,
            "only the following verbs are allowed for a ResourceSlice: "
            "get, watch, list, create, update, patch, delete, deletecollection",
        )

    def _node(self, node: str, action: Action) -> Decision:
        if action.subresource == "status":
            return _ALLOWED if action.verb in ("update", "patch") else NO_OPINION
        if action.subresource:
            return NO_OPINION
        if action.verb in ("create", "update", "patch"):
            return _ALLOWED  # admission holds it to its own object
        if action.verb in ("get", "list", "watch"):
            if action.name == node:
                return _ALLOWED
            which = f"'{action.name}'" if action.name else "all nodes"
            return Decision(False, f"node '{node}' cannot read {which}, only its own Node object")
        return NO_OPINION

    def _pod(self, node: str, action: Action) -> Decision:
        if action.subresource == "status":
            return _ALLOWED if action.verb in ("update", "patch") else NO_OPINION
        if action.subresource == "eviction":
            return _ALLOWED if action.verb == "create" else NO_OPINION
        if action.subresource:
            return NO_OPINION
        if action.verb == "get":
            return self._get_used(node, action)
        if action.verb in ("create", "delete"):
            return _ALLOWED  # mirror pods; admission holds them to their node
        if action.verb in ("list", "watch"):
            if _selected(action, "spec.nodeName") == node:
                return _ALLOWED
            if action.name:
                return self._used(node, action)
            return Decision(False, "can only list/watch pods with spec.nodeName field selector")
        return NO_OPINION


def _selected(action: Action, field: str) -> str | None:
    """Return the value the request's field selector fixes *field* to."""
    if not action.field_selector:
        return None
    try:
        return fields.parse(action.field_selector).value_of(field)
    except fields.SelectorError:
        return None


def names_used(pod: Mapping[str, Any], resource: str) -> frozenset[str]:
    """Return the names of the objects of *resource* that *pod* uses."""
    spec = pod.get("spec") or {}
    if resource == "serviceaccounts":
        return frozenset({spec.get("serviceAccountName", "")})
    if resource == "resourceclaims":
        statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        claims = [*(spec.get("resourceClaims") or ()), *statuses]
        return frozenset(claim["resourceClaimName"] for claim in claims if claim.get("resourceClaimName"))
    found: set[str] = set()
    for volume in spec.get("volumes") or ():
        found |= set(_volume_names(volume, resource))
    if resource == "secrets":
        found |= {secret.get("name", "") for secret in spec.get("imagePullSecrets") or ()}
    if resource == "persistentvolumeclaims":
        prefix = f"{pod['metadata']['name']}-"
        found |= {prefix + v.get("name", "") for v in spec.get("volumes") or () if "ephemeral" in v}
    if resource in ("secrets", "configmaps"):
        for part in ("containers", "initContainers", "ephemeralContainers"):
            for container in spec.get(part) or ():
                found |= set(_environment_names(container, resource))
    return frozenset(found)


def _volume_names(volume: Mapping[str, Any], resource: str) -> Iterator[str]:
    if resource == "persistentvolumeclaims":
        yield (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        return
    field, name = ("secret", "secretName") if resource == "secrets" else ("configMap", "name")
    yield (volume.get(field) or {}).get(name, "")
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield (source.get(field) or {}).get("name", "")


def _environment_names(container: Mapping[str, Any], resource: str) -> Iterator[str]:
    reference, key = (
        ("secretRef", "secretKeyRef") if resource == "secrets" else ("configMapRef", "configMapKeyRef")
    )
    for source in container.get("envFrom") or ():
        yield (source.get(reference) or {}).get("name", "")
    for variable in container.get("env") or ():
        yield ((variable.get("valueFrom") or {}).get(key) or {}).get("name", "")
