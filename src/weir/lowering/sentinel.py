"""Sentinel pod, Service and counter that show how far kube-controller-manager has read the pods.

Spec: stock.md 7. One pod that is never scheduled stands behind a headless Service that publishes it although it is not
ready. The operator counts up in the pod's address; kube-controller-manager copies the address into the EndpointSlice
from the same stream of pods that taint eviction reads. An address at or above the count therefore says: every change
of a pod before it has been seen.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from weir.lowering.names import NAMESPACE, OPERATOR, SENTINEL, SENTINEL_GATE
from weir.objects.templates import IMAGE, never_runs

Document = dict[str, Any]

LABELS: Final = {"app.kubernetes.io/name": SENTINEL, "app.kubernetes.io/part-of": "weir"}
#: Addresses of no host: 10.0.0.0/8 inside of a pod that has no network, and a unique local prefix of 104 bits.
_IPV4: Final = int(ipaddress.IPv4Address("10.0.0.0"))
_IPV6: Final = int(ipaddress.IPv6Address("fdf7:7765:6972::"))
MOST: Final = 1 << 24


def sentinel_pod(namespace: str = NAMESPACE, image: str = IMAGE) -> Document:
    """Return the pod; its image is never pulled.

    The operator's account is there before it: `default` comes a moment after its namespace. Whoever makes the pod
    names the same one, because a pod's account cannot be changed when the installation is applied again.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": SENTINEL, "namespace": namespace, "labels": dict(LABELS)},
        "spec": {
            "schedulingGates": [{"name": SENTINEL_GATE}],
            "serviceAccountName": OPERATOR,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": restricted_pod(65534),
            "containers": [never_runs(image, securityContext=restricted_container())],
        },
    }


def restricted_pod(user: int) -> Document:
    """Return what a pod of *user* must say in the operator's namespace, which enforces the level `restricted`."""
    return {"runAsNonRoot": True, "runAsUser": user, "seccompProfile": {"type": "RuntimeDefault"}}


def restricted_container() -> Document:
    """Return what each of its containers must say there."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def sentinel_service(namespace: str = NAMESPACE) -> Document:
    """Return the headless Service before the pod."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SENTINEL, "namespace": namespace, "labels": dict(LABELS)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"app.kubernetes.io/name": SENTINEL},
        },
    }


def address(counter: int, family: str = "IPv4") -> str:
    """Return the address that stands for *counter*.

    >>> address(258), counter_of(address(258))
    ('10.0.1.2', 258)
    """
    number = counter % MOST
    if family == "IPv6":
        return str(ipaddress.IPv6Address(_IPV6 + number))
    return str(ipaddress.IPv4Address(_IPV4 + number))


def counter_of(text: str) -> int:
    """Return the counter that an address stands for; -1 for one that stands for none."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return -1
    number = int(found) - (_IPV4 if found.version == 4 else _IPV6)
    return number if 0 <= number < MOST else -1


def is_reached(shown: int, wanted: int) -> bool:
    """Return whether the counter *shown* is at or after *wanted*, also where the counter began again.

    >>> is_reached(5, 5), is_reached(4, 5), is_reached(1, MOST - 1)
    (True, False, True)
    """
    return shown >= 0 and (shown - wanted) % MOST < MOST // 2
