"""Table cells of resource.k8s.io."""

from __future__ import annotations

from weir.apiserver.printers.cells import Document, at


def claim_state(claim: Document, now: float) -> str:
    """Return whether a ResourceClaim is deleted, pending, allocated, reserved."""
    states = ["deleted"] if at(claim, "metadata", "deletionTimestamp") else []
    if at(claim, "status", "allocation") is None:
        return ",".join(states or ["pending"])
    states.append("allocated")
    if at(claim, "status", "reservedFor"):
        states.append("reserved")
    return ",".join(states)
