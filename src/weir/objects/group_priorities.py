"""Order of API groups and versions in discovery, by upstream's priorities.

Higher priority first, by name among equals; apiregistration.k8s.io comes right after the core group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["PRIORITIES", "group_order"]

#: group → its priority, and that of each version that is registered as an APIService
PRIORITIES: Final[Mapping[str, tuple[int, Mapping[str, int]]]] = {
    "": (18000, {"v1": 1}),
    "apps": (17800, {"v1": 15}),
    "events.k8s.io": (17750, {"v1": 15}),
    "authentication.k8s.io": (17700, {"v1": 15}),
    "authorization.k8s.io": (17600, {"v1": 15}),
    "autoscaling": (17500, {"v2": 30, "v1": 15}),
    "batch": (17400, {"v1": 15}),
    "certificates.k8s.io": (17300, {"v1": 15}),
    "networking.k8s.io": (17200, {"v1": 15}),
    "policy": (17100, {"v1": 15}),
    "rbac.authorization.k8s.io": (17000, {"v1": 15}),
    "storage.k8s.io": (16800, {"v1": 15}),
    "admissionregistration.k8s.io": (16700, {"v1": 15}),
    "apiextensions.k8s.io": (16700, {"v1": 15}),
    "scheduling.k8s.io": (16600, {"v1": 15}),
    "coordination.k8s.io": (16500, {"v1": 15}),
    "node.k8s.io": (16300, {"v1": 15}),
    "discovery.k8s.io": (16200, {"v1": 15}),
    # v1alpha4 is of an earlier release and has no number upstream any more
    "resource.k8s.io": (16200, {"v1": 21, "v1beta2": 15, "v1beta1": 9, "v1alpha4": 1, "v1alpha3": 1}),
    "flowcontrol.apiserver.k8s.io": (16100, {"v1": 21}),
    "storagemigration.k8s.io": (15800, {"v1": 15}),
    # of metrics-server's manifest; answered for by this server
    "metrics.k8s.io": (100, {"v1beta1": 100}),
}
_FIRST: Final = "apiregistration.k8s.io"


def group_order(group: str) -> tuple[int, str]:
    """Return what groups are sorted by.

    >>> sorted(["batch", "apps", "apiregistration.k8s.io", ""], key=group_order)
    ['', 'apiregistration.k8s.io', 'apps', 'batch']
    """
    return -17999 if group == _FIRST else -PRIORITIES.get(group, (0, {}))[0], group
