"""What does a cluster, or a dump of one, say about devices?

Any cluster serves: weir's or a real one, whatever version of resource.k8s.io it has.
Not here: what follows from it (weir.devices.inventory), how it is shown (weir.cli._device_list).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir.cli._options import Where

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.devices.inventory import Inventory
    from weir.gates import Gates


def read_inventory(where: Where, gates: Gates) -> Inventory:
    """Return what a dump, or a live cluster, says about devices."""
    from weir.devices.inventory import Inventory

    where.check()
    if where.dump:
        from weir.cli.inputs import read_dump

        return Inventory.of(read_dump(where.dump), gates)
    return Inventory.of(where.live.run("weir-device", fetch), gates)


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
