"""Taints that Kubernetes itself sets on nodes: their keys, and what each stands for.

Spec: core.md 4.6 (conditions), 4.7 (not ready, unreachable), 3.7.2 (cordons).
"""

from __future__ import annotations

from typing import Final

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE: Final = "node.kubernetes.io/disk-pressure"
PID_PRESSURE: Final = "node.kubernetes.io/pid-pressure"
NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"  #: a cordon
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"  #: set by people: the node will not come back
#: Prefixes of keys that Kubernetes sets by itself. They come and go with the node's condition, so tolerating them
#: makes sense while no node has them.
OWN_PREFIXES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")

_DAEMON_TAINTS: Final = (
    (NOT_READY, "NoExecute"),
    (UNREACHABLE, "NoExecute"),
    (DISK_PRESSURE, "NoSchedule"),
    (MEMORY_PRESSURE, "NoSchedule"),
    (PID_PRESSURE, "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
)


def daemon_taints(*, host_network: bool) -> tuple[tuple[str, str], ...]:
    """Return the taints, by key and effect, that every pod of a DaemonSet tolerates.

    >>> len(daemon_taints(host_network=True)) - len(daemon_taints(host_network=False))
    1
    """
    return (*_DAEMON_TAINTS, *(((NETWORK_UNAVAILABLE, "NoSchedule"),) if host_network else ()))
