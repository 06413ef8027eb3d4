"""API server identity: a Lease in kube-system per server.

The name follows from the host, so that a restarted server takes its lease over. Renewed every ten seconds; expired
leases are removed by any other server.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from weir import errors
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.write_request import WriteRequest
from weir.clock import Clock
from weir.objects.kinds import by_kind
from weir.objects.times import format_micro_time
from weir.store import StoreUnavailable, Write

__all__ = ["IdentityLease", "server_id"]

Document = dict[str, Any]
LEASES: Final = by_kind("coordination.k8s.io/v1", "Lease")
NAMESPACE: Final = "kube-system"
COMPONENT: Final = "kube-apiserver"
LABEL: Final = "apiserver.kubernetes.io/identity"
HOSTNAME: Final = "kubernetes.io/hostname"
PEER: Final = "kubernetes.io/peer-advertise-address"
DURATION_SECONDS: Final = 3600
RENEW_SECONDS: Final = 10.0
SWEEP_EVERY: Final = 360  #: renewals between two sweeps of expired leases
SYSTEM: Final = User("system:apiserver", groups=(MASTERS, "system:authenticated"))


def server_id(hostname: str) -> str:
    """Return what the API server of a host is called.

    >>> server_id("vm")
    'apiserver-wlv32tlttr4jl3gtroqexyxapa'
    """
    parts = (hostname.encode(), COMPONENT.encode())
    text = b"".join(len(part).to_bytes(2, "big") + part for part in parts)
    return "apiserver-" + base64.b32encode(hashlib.sha256(text).digest()[:16]).decode().rstrip("=").lower()


class IdentityLease:
    """The lease of one server."""

    def __init__(self, verbs: Verbs, clock: Clock, hostname: str, address: str, instance: str) -> None:
        """*address* is where other servers find this one; *instance* distinguishes this run from the one before."""
        self._verbs, self._clock, self._hostname, self._address = verbs, clock, hostname, address
        self.name = server_id(hostname)
        self._holder = f"{self.name}_{instance}"

    async def renew(self) -> None:
        """Say that the server is alive."""
        verbs, write = self._verbs, WriteRequest(LEASES, NAMESPACE, self.name, SYSTEM, COMPONENT)
        if verbs.store.get(LEASES.key(NAMESPACE, self.name)) is None:
            fresh = self._lease({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {}})
            try:
                await verbs.create_document(write, fresh)
            except errors.AlreadyExists:  # by a server of the same name, a moment ago
                pass
            else:
                return
        await verbs.change(write, self._lease)

    def _lease(self, old: Document) -> Document:
        metadata = old["metadata"]
        spec = {
            **old.get("spec", {}),
            "holderIdentity": self._holder,
            "leaseDurationSeconds": DURATION_SECONDS,
            "renewTime": format_micro_time(self._now()),
        }
        labels = {**metadata.get("labels", {}), LABEL: COMPONENT, HOSTNAME: self._hostname}
        annotations = {**metadata.get("annotations", {}), PEER: self._address}
        named = {**metadata, "name": self.name, "labels": labels, "annotations": annotations}
        named.pop("resourceVersion", None)
        return {**old, "metadata": named, "spec": spec}

    async def sweep(self) -> None:
        """Remove the leases of servers that are gone."""
        for found in self._verbs.documents(LEASES):
            metadata, spec = found["metadata"], found.get("spec") or {}
            if (
                metadata.get("namespace") != NAMESPACE
                or (metadata.get("labels") or {}).get(LABEL) != COMPONENT
            ):
                continue
            renewed, seconds = spec.get("renewTime"), spec.get("leaseDurationSeconds")
            if not renewed or not seconds:
                continue
            if datetime.fromisoformat(renewed) + timedelta(seconds=seconds) < self._now():
                key = LEASES.key(NAMESPACE, metadata["name"])
                await self._verbs.store.commit((Write(key, None, int(metadata["resourceVersion"])),))

    async def run(self) -> None:
        """Renew for ever; a store that is away is tried again the next time."""
        turn = 0
        while True:
            try:
                await self.renew()
                if turn % SWEEP_EVERY == 0:
                    await self.sweep()
            except (errors.ApiError, StoreUnavailable):
                pass  # a conflict with a server of the same name, or no room for writes: the next turn says it
            turn += 1
            await self._clock.sleep(RENEW_SECONDS)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.time(), UTC)
