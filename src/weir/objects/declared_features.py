"""Kubelet features that a pod requires, and those that a node declares.

Spec: KEP-5328 "Node Declared Features". Kubelets list features that are being rolled out in
`status.declaredFeatures`; which of them a pod requires follows from its fields.
"""

from __future__ import annotations

from typing import Final

from weir.objects.core import Node, Pod

RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
HOST_NETWORK_USERS: Final = "UserNamespacesHostNetworkSupport"


def required_features(pod: Pod) -> frozenset[str]:
    """Return the features that *pod* needs.

    >>> from weir.objects.core import read
    >>> container = {"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
    >>> sorted(required_features(read(Pod, {"spec": {"containers": [container]}})))
    ['RestartAllContainersOnContainerExits']
    """
    spec = pod.spec
    features: set[str] = set()
    for container in (*spec.containers, *(spec.init_containers or ())):
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules or ()):
            features.add(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        features.add(HOST_NETWORK_USERS)
    return frozenset(features)


def declared_features(node: Node) -> frozenset[str]:
    """Return what the kubelet of *node* says it can do."""
    return frozenset(node.status.declared_features or ())
