"""Creates the bootstrap objects: system namespaces, priority classes, roles, the service `kubernetes`.

Spec: apiserver.md 5.2 (two built-in priority classes). Only missing objects are created. A new namespace gets its
`default` service account and the cluster's CA bundle at once, because pods cannot be created without the account.
"""

from __future__ import annotations

import asyncio

from weir import errors
from weir.apiserver.auth.authn import SYSTEM
from weir.apiserver.bootstrap import policy
from weir.apiserver.registry.verbs import Verbs, msgspec_copy
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.strategies.core.service_allocation import RANGE
from weir.objects.kind import Document, Kind
from weir.objects.kinds import CONFIG_MAPS, NAMESPACES, PRIORITY_CLASSES, SERVICE_ACCOUNTS, SERVICES, by_kind

MANAGER, CONTROLLERS = "kube-apiserver", "kube-controller-manager"
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")
CA_BUNDLE = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
_SERVICE_CIDR = by_kind("networking.k8s.io/v1", "ServiceCIDR")


def _priority(name: str, value: int, description: str) -> Document:
    return {"metadata": {"name": name}, "value": value, "description": description}


PRIORITIES = (
    _priority(
        "system-node-critical",
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    _priority(
        "system-cluster-critical",
        2000000000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
)


async def bootstrap(verbs: Verbs, *, ca: str = "", rbac: bool = True, client_ca: str = "") -> None:
    """Create what a cluster starts with."""
    await asyncio.gather(
        *(_ensure(verbs, NAMESPACES, "", {"metadata": {"name": n}}) for n in SYSTEM_NAMESPACES)
    )
    service: Document = {
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": "10.0.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }
    work = [ensure_namespace_objects(verbs, name, ca) for name in SYSTEM_NAMESPACES]
    for priority in PRIORITIES:
        work.append(_ensure(verbs, PRIORITY_CLASSES, "", dict(priority, metadata=dict(priority["metadata"]))))
    work.append(_ensure(verbs, SERVICES, "default", service))
    work.append(_default_service_cidr(verbs))
    if client_ca:
        config = policy.authentication_config(client_ca)
        work.append(_ensure(verbs, CONFIG_MAPS, config["metadata"]["namespace"], config))
    if rbac:
        work += [_reconcile(verbs, wanted) for wanted in policy.objects()]
    await asyncio.gather(*work)  # at once, so that their writes become durable together


async def _default_service_cidr(verbs: Verbs) -> None:
    """Say from which range services get their addresses, and that it can be used."""
    if verbs.store.get(_SERVICE_CIDR.key("", "kubernetes")) is not None:
        return
    await _ensure(
        verbs, _SERVICE_CIDR, "", {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [str(RANGE)]}}
    )
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": verbs.now,
    }
    write = WriteRequest(_SERVICE_CIDR, "", "kubernetes", SYSTEM, MANAGER, subresource="status")
    await verbs.change(write, lambda old: {**msgspec_copy(old), "status": {"conditions": [ready]}})


async def _reconcile(verbs: Verbs, wanted: Document) -> None:
    """Create one role or binding of a new cluster, or add what an older store lacks of it."""
    kind = by_kind(wanted["apiVersion"], wanted["kind"])
    namespace, name = wanted["metadata"].get("namespace", ""), wanted["metadata"]["name"]
    have = verbs.reader.get_now(kind, namespace, name)
    if have is None:
        await _ensure(verbs, kind, namespace, wanted)
        return
    better = policy.reconciled(wanted, have)
    if better is not None:
        better["metadata"].pop("resourceVersion", None)
        write = WriteRequest(kind, namespace, name, SYSTEM, MANAGER)
        await verbs.change(write, lambda old: msgspec_copy(better))


async def ensure_namespace_objects(verbs: Verbs, namespace: str, ca: str = "") -> None:
    """Give a namespace the service account its pods run as, and the CA they trust."""
    account: Document = {"metadata": {"name": "default"}}
    await _ensure(verbs, SERVICE_ACCOUNTS, namespace, account, CONTROLLERS)
    bundle = {
        "metadata": {"name": "kube-root-ca.crt", "annotations": {"kubernetes.io/description": CA_BUNDLE}},
        "data": {"ca.crt": ca},
    }
    await _ensure(verbs, CONFIG_MAPS, namespace, bundle, CONTROLLERS)


async def _ensure(
    verbs: Verbs, kind: Kind, namespace: str, document: Document, manager: str = MANAGER
) -> None:
    if verbs.store.get(kind.key(namespace, document["metadata"]["name"])) is not None:
        return
    whole = {"kind": kind.kind, "apiVersion": kind.api_version, **document}
    try:
        await verbs.create_document(WriteRequest(kind, namespace, "", SYSTEM, manager), whole)
    except errors.AlreadyExists:
        return
