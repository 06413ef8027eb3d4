"""Endpoints of the service `kubernetes`: the addresses of live API servers.

Each server adds itself and removes those whose lease expired. A server on a loopback address advertises its host's
interface address, since endpoints may not be loopback; without one there are no endpoints.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from weir import errors
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.identity_lease import COMPONENT, LABEL, LEASES, NAMESPACE, PEER, RENEW_SECONDS
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.write_request import WriteRequest
from weir.clock import Clock
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.store import StoreUnavailable

__all__ = ["OwnEndpoints", "advertised"]

Document = dict[str, Any]
ENDPOINTS: Final = by_kind("v1", "Endpoints")
SLICES: Final = by_kind("discovery.k8s.io/v1", "EndpointSlice")
SERVICE: Final = "kubernetes"
DEFAULT: Final = "default"
#: A server that has missed two renewals is taken for gone.
GONE_SECONDS: Final = 2.5 * RENEW_SECONDS
SYSTEM: Final = User("system:apiserver", groups=(MASTERS, "system:authenticated"))
#: Any address behind the default route: a datagram socket that is connected to it sends nothing, but knows its own.
ELSEWHERE: Final = ("203.0.113.1", 9)


def advertised(bind_address: str) -> str:
    """Return the address others find a server at that listens here; empty if there is none.

    >>> advertised("192.0.2.7")
    '192.0.2.7'
    """
    try:
        address = ipaddress.ip_address(bind_address or "127.0.0.1")
    except ValueError:
        return ""  # a name
    if not address.is_loopback and not address.is_unspecified:
        return str(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(ELSEWHERE)
        except OSError:
            return ""
        found = ipaddress.ip_address(probe.getsockname()[0])
    return "" if found.is_loopback or found.is_unspecified else str(found)


class OwnEndpoints:
    """What one server writes about itself and the others."""

    def __init__(self, verbs: Verbs, clock: Clock, address: str, port: int) -> None:
        self._verbs, self._clock, self._address, self._port = verbs, clock, address, port
        self._told = False
        #: renewTime of each other server's lease, and when it was first seen, by the monotonic clock.
        self._renewals: dict[str, tuple[str, float]] = {}

    async def reconcile(self) -> None:
        """Write the endpoints if they differ from the live servers."""
        addresses = sorted(
            {self._address, *self._others()}, key=lambda text: ipaddress.ip_address(text).packed
        )
        ports = [{"name": "https", "port": self._port, "protocol": "TCP"}]
        found = self._verbs.reader.get_now(ENDPOINTS, DEFAULT, SERVICE)
        if found is not None and self._told:
            if [each["ip"] for each in _subset(found).get("addresses") or ()] == addresses:
                return
            # Two servers of one host differ only in the port: the last to start is named, they do not take turns.
            ports = _subset(found).get("ports") or ports
        await self._write(
            ENDPOINTS,
            {
                "metadata": _named({"endpointslice.kubernetes.io/skip-mirror": "true"}),
                "subsets": [{"addresses": [{"ip": address} for address in addresses], "ports": ports}],
            },
        )
        await self._write(
            SLICES,
            {
                "metadata": _named({"kubernetes.io/service-name": SERVICE}),
                "addressType": "IPv6" if all(":" in address for address in addresses) else "IPv4",
                "endpoints": [
                    {"addresses": [address], "conditions": {"ready": True}} for address in addresses
                ],
                "ports": ports,
            },
        )
        self._told = True

    def _others(self) -> set[str]:
        """Return the addresses of the servers whose leases are renewed.

        A lease that was seen before is as old as the time since its renewTime changed, so that setting the time of
        day removes no server; one that is seen for the first time is as old as its renewTime says.
        """
        elapsed, seen_before = self._clock.monotonic(), self._renewals
        self._renewals = {}
        addresses = set()
        for lease in self._verbs.documents(LEASES):
            metadata, renewed = lease["metadata"], (lease.get("spec") or {}).get("renewTime")
            if (
                metadata.get("namespace") != NAMESPACE
                or (metadata.get("labels") or {}).get(LABEL) != COMPONENT
            ):
                continue
            host = (metadata.get("annotations") or {}).get(PEER, "").rpartition(":")[0].strip("[]")
            if not (host and renewed and _usable(host)):
                continue
            name = metadata["name"]
            before, since = seen_before.get(name, ("", 0.0))
            if not before:
                since = elapsed - max(0.0, self._clock.time() - datetime.fromisoformat(renewed).timestamp())
            elif before != renewed:
                since = elapsed
            self._renewals[name] = renewed, since
            if elapsed - since < GONE_SECONDS:
                addresses.add(host)
        return addresses

    async def _write(self, kind: Kind, wanted: Document) -> None:
        whole = {"kind": kind.kind, "apiVersion": kind.api_version, **wanted}
        old = self._verbs.reader.get_now(kind, DEFAULT, SERVICE)
        if old is None:
            with contextlib.suppress(errors.AlreadyExists):  # another server was faster, and looks again, too
                await self._verbs.create_document(WriteRequest(kind, DEFAULT, "", SYSTEM, COMPONENT), whole)
            return
        if any(old.get(key) != value for key, value in wanted.items() if key != "metadata"):
            write = WriteRequest(kind, DEFAULT, SERVICE, SYSTEM, COMPONENT)
            await self._verbs.change(write, lambda before: _changed(before, wanted))

    async def run(self) -> None:
        """Look again for ever, as often as leases are renewed."""
        while True:
            # A conflict with another server, or no room for writes: the next turn says it.
            with contextlib.suppress(errors.ApiError, StoreUnavailable):
                await self.reconcile()
            await self._clock.sleep(RENEW_SECONDS)


def _named(labels: Document) -> Document:
    return {"name": SERVICE, "namespace": DEFAULT, "labels": labels}


def _changed(before: Document, wanted: Document) -> Document:
    metadata = {**before["metadata"], "labels": wanted["metadata"]["labels"]}
    metadata.pop("resourceVersion", None)
    return {**before, **wanted, "metadata": metadata}


def _subset(endpoints: Mapping[str, Any]) -> Document:
    return next(iter(endpoints.get("subsets") or ()), {})


def _usable(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return not address.is_loopback and not address.is_unspecified
