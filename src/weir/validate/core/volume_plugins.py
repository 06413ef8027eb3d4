"""Validation of volume plugin settings shared by pods and PersistentVolumes.

Spec: upstream's rules for iSCSI, Fibre Channel, Ceph, Gluster, Flex and the cloud disks. The two users' messages
differ slightly: `for_volume` marks a PersistentVolume.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from weir.fields.field import Document, Errors, in_range, invalid, not_supported, one_of, present, required

Check = Callable[[Document, str], Errors]
LUN_RANGE: Final = "must be between 0 and 255, inclusive"
_NAMES: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9\-.]+)(:[^,;*&$|\s]+)$").search,
    "eui": re.compile(r"^eui.[A-Za-z0-9]{16}$").search,
    "naa": re.compile(r"^naa.[A-Za-z0-9]{32}$").search,
}
_CACHING: Final = ("None", "ReadOnly", "ReadWrite")
_DISKS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED: Final = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
)
_BLOB: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def needs(*fields: str) -> Check:
    """Return a check that the given fields of a source are set."""

    def check(source: Document, at: str) -> Errors:
        for field in fields:
            yield from present(f"{at}.{field}", source.get(field))

    return check


def iscsi(*, for_volume: bool) -> Check:
    """Return the check of an iSCSI target."""
    odd = "must be valid format" if for_volume else "must be valid format starting with iqn, eui, or naa"

    def named(name: str, at: str) -> Errors:
        pattern = _NAMES.get(name[:3])
        if pattern is None:
            yield invalid(at, name, odd)
        elif not pattern(name):
            yield invalid(at, name, "must be valid format")

    def check(source: Document, at: str) -> Errors:
        yield from present(f"{at}.targetPortal", source.get("targetPortal"))
        if name := source.get("iqn"):
            yield from named(name, f"{at}.iqn")
        else:
            yield required(f"{at}.iqn")
        lun = source.get("lun") or 0
        yield from in_range(f"{at}.lun", lun, 0, 255, LUN_RANGE)
        secret = source.get("secretRef")
        if secret is None and (source.get("chapAuthDiscovery") or source.get("chapAuthSession")):
            yield required(f"{at}.secretRef")
        if for_volume and secret is not None and not secret.get("name"):
            yield required(f"{at}.secretRef.name")
        if (initiator := source.get("initiatorName")) is not None:
            yield from named(initiator, f"{at}.initiatorname")

    return check


def fibre_channel(source: Document, at: str) -> Errors:
    """Yield what is wrong with a Fibre Channel target."""
    names, ids, lun = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
    if not names and not ids:
        yield required(f"{at}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if names and ids:
        yield invalid(f"{at}.targetWWNs", names, "targetWWNs and wwids can not be specified simultaneously")
    if names and lun is None:
        yield required(f"{at}.lun", "lun is required if targetWWNs is specified")
    elif names and lun is not None and not 0 <= lun <= 255:
        yield invalid(f"{at}.lun", lun, LUN_RANGE)


def flex(source: Document, at: str) -> Errors:
    """Yield what is wrong with a Flex volume; some options belong to Kubernetes."""
    yield from present(f"{at}.driver", source.get("driver"))
    for name in sorted(source.get("options") or {}):
        domain = "." + name.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            yield invalid(f"{at}.options[{name}]", name, "kubernetes.io and k8s.io namespaces are reserved")


def azure_disk(source: Document, at: str) -> Errors:
    """Yield what is wrong with an Azure disk."""
    address, kind, caching = source.get("diskURI") or "", source.get("kind"), source.get("cachingMode")
    yield from needs("diskName", "diskURI")(source, at)
    yield from one_of(f"{at}.cachingMode", caching, _CACHING)
    yield from one_of(f"{at}.kind", kind, _DISKS)
    if kind == "Managed" and not address.startswith("/subscriptions/"):
        yield not_supported(f"{at}.diskURI", address, (_MANAGED,))
    elif kind not in (None, "Managed") and not address.startswith("https://"):
        yield not_supported(f"{at}.diskURI", address, (_BLOB,))
