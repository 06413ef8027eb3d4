"""CSI migration: the CSI driver and volume handle of an in-tree volume.

Spec: core.md 3.6 (NodeVolumeLimits); the plugin and driver names are Kubernetes'. On a node with CSI drivers, in-tree
volumes count as the driver's. Two migrated kinds whose drivers have no attach limit are not counted.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weir.objects.core import Volume
from weir.objects.volumes import PersistentVolume, PersistentVolumeSpec

#: In-tree plugin → the CSI driver that took over.
DRIVERS: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
_UNCOUNTED: Final = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
_ZONES: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_UNSPECIFIED: Final = "UNSPECIFIED"


class Handle(NamedTuple):
    """A volume as its CSI driver knows it."""

    driver: str
    volume: str


def driver_of(provisioner: str) -> str:
    """Return the CSI driver that makes volumes for *provisioner*; "" when they are not counted.

    >>> driver_of("kubernetes.io/cinder"), driver_of("csi.example"), driver_of("kubernetes.io/azure-file")
    ('cinder.csi.openstack.org', 'csi.example', '')
    """
    return "" if provisioner in _UNCOUNTED else DRIVERS.get(provisioner, provisioner)


def handle_of(volume: PersistentVolume) -> Handle | None:
    """Return how a CSI driver knows *volume*; None when none does."""
    if volume.spec.csi:
        return Handle(str(volume.spec.csi.get("driver")), str(volume.spec.csi.get("volumeHandle")))
    labels = volume.metadata.labels or {}
    return _in_tree(volume.spec, next((labels[key] for key in _ZONES if labels.get(key)), ""))


def inline_handle(volume: Volume) -> Handle | None:
    """Return how a CSI driver knows a disk that a pod names directly; None when none does."""
    return _in_tree(volume, "")


def _in_tree(source: PersistentVolumeSpec | Volume, zones: str) -> Handle | None:
    plugin, name = "", ""
    if source.aws_elastic_block_store:
        plugin, name = (
            "kubernetes.io/aws-ebs",
            _text(source.aws_elastic_block_store, "volumeID").rpartition("/")[2],
        )
    elif source.gce_persistent_disk:
        plugin, name = "kubernetes.io/gce-pd", _gce_name(_text(source.gce_persistent_disk, "pdName"), zones)
    elif source.azure_disk and _text(source.azure_disk, "kind").lower() in ("", "managed"):
        plugin, name = "kubernetes.io/azure-disk", _text(source.azure_disk, "diskURI")
    elif source.cinder:
        plugin, name = "kubernetes.io/cinder", _text(source.cinder, "volumeID")
    elif source.portworx_volume:
        plugin, name = "kubernetes.io/portworx-volume", _text(source.portworx_volume, "volumeID")
    return Handle(DRIVERS[plugin], name) if plugin else None


def _text(source: dict[str, Any], field: str) -> str:
    return str(source.get(field) or "")


def _gce_name(disk: str, zones: str) -> str:
    first, _, others = zones.partition("__")
    place = f"regions/{first.rpartition('-')[0]}" if others else f"zones/{first or _UNSPECIFIED}"
    return f"projects/{_UNSPECIFIED}/{place}/disks/{disk}"
