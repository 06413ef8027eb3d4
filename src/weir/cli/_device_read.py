"""Reads the device objects of a cluster or a dump.

Any cluster, whatever versions of resource.k8s.io it serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir.cli._options import ClusterSource

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.devices.inventory import Inventory
    from weir.gates import Gates


def read_inventory(where: ClusterSource, gates: Gates) -> Inventory:
    """Return what a dump, or a live cluster, says about devices; raises CannotSay when slices could not be read."""
    from weir.cli._certainty import because
    from weir.cli.inputs import CannotSay, read_cluster
    from weir.client.snapshot import DEVICES
    from weir.devices.inventory import Inventory
    from weir.objects.core import ViewError

    held = read_cluster(where, (*DEVICES, "Pod"))
    missing = held.lacks({"ResourceSlice", "ResourceClaim", "DeviceTaintRule", "Pod"})
    if held.dumped and held.holds(DEVICES):
        missing = []  # slices may well be missing where claims are not
    if missing:
        raise CannotSay(f"cannot say which devices there are, and who has them: {because(missing)}")
    try:
        return Inventory.of((document for _, document in held.documents), gates)
    except ViewError as error:
        if held.dumped:
            raise CannotSay(f"the cluster's dump cannot be read: {error}") from None
        raise


async def fetch(client: Client) -> list[Any]:
    """Return every object of a cluster that concerns devices."""
    from weir.objects.kinds import by_kind

    documents: list[Any] = []
    for kind in ("DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim"):
        documents += await _fetch_kind(client, kind)
    pods = await client.list(by_kind("v1", "Pod"))
    documents += [{"kind": "Pod", "apiVersion": "v1", **item} for item in pods.documents()]
    return documents


async def _fetch_kind(client: Client, kind: str) -> list[Any]:
    """Return all objects of a kind in the newest version the cluster serves; none when it serves none."""
    from weir.errors import NotFound
    from weir.objects.kinds import find_kind

    for version in ("v1", "v1beta2", "v1beta1", "v1alpha3"):
        served = find_kind(f"resource.k8s.io/{version}", kind)
        if served is None:
            continue
        try:
            listed = await client.list(served)
        except NotFound:
            continue
        return [{"kind": kind, "apiVersion": served.api_version, **item} for item in listed.documents()]
    return []
