"""Table cells of storage.k8s.io and storagemigration.k8s.io."""

from __future__ import annotations

from weir.apiserver.printers.cells import UNSET, Document, at, name_of


def class_name(storage_class: Document, now: float) -> str:
    """Return the name of a StorageClass, marked when it is the default."""
    marked = (
        at(storage_class, "metadata", "annotations", "storageclass.kubernetes.io/is-default-class") == "true"
    )
    return name_of(storage_class) + (" (default)" if marked else "")


def audiences(driver: Document, now: float) -> str:
    """Return for whom a CSIDriver requests tokens."""
    requests = at(driver, "spec", "tokenRequests") or ()
    return ",".join(str(request.get("audience", "")) for request in requests) or UNSET


def migrated(migration: Document, now: float) -> str:
    """Return the resource of a StorageVersionMigration."""
    group, resource = (at(migration, "spec", "resource", name) or "" for name in ("group", "resource"))
    return f"{resource}.{group}" if group else resource


def migration_state(migration: Document, now: float) -> str:
    """Return the last condition of a StorageVersionMigration that is true."""
    state = "Unknown"
    for condition in at(migration, "status", "conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Running", "Failed", "Succeeded"):
            state = condition["type"]
    return state
