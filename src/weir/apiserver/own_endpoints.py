"""How a server shows itself: endpoints of the service `kubernetes`, its identity Lease, ComponentStatuses.

Each server adds itself to the endpoints and removes those whose lease expired. A server on a loopback address
advertises its host's interface address, since endpoints may not be loopback; without one there are no endpoints.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from weir import errors
from weir.apiserver.auth.authn import SYSTEM
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.write_request import WriteRequest
from weir.clock import Clock
from weir.objects.kind import Document, Kind
from weir.objects.kinds import ENDPOINT_SLICES, ENDPOINTS, LEASES, by_kind
from weir.objects.times import format_micro_time
from weir.selectors import fields, labels
from weir.store import StoreUnavailable, Write

# ── componentStatus (deprecated): health of scheduler, controller manager and store ──
# As upstream, scheduler and controller manager are probed at their default ports on this machine; components that serve
# elsewhere (those of `weir up`) are reported as unhealthy. Nothing is stored.


COMPONENT_STATUS: Final = by_kind("v1", "ComponentStatus")
HOST: Final = "127.0.0.1"
PORTS: Final = {"scheduler": 10259, "controller-manager": 10257}
STORE: Final = "etcd-0"
TIMEOUT_SECONDS: Final = 20.0
_OK: Final = 200


class ComponentStatuses:
    """Asks the components of one cluster."""

    async def get(self, name: str) -> dict[str, Any]:
        """Return the status of one component; raises 404."""
        if name not in (*PORTS, STORE):
            details = {"name": name, "kind": "componentstatus"}
            raise errors.NotFound(f'componentstatus "{name}" not found', details=details)
        return {
            "kind": COMPONENT_STATUS.kind,
            "apiVersion": COMPONENT_STATUS.api_version,
            **await self._status(name),
        }

    async def select(self, kind: Kind, label_selector: str, field_selector: str) -> dict[str, Any]:
        """Return the components that the selectors choose; raises 400."""
        try:
            by_label, by_field = labels.parse(label_selector), fields.parse(field_selector)
            bound = by_field.bind(kind.group, kind.kind, kind.version)
        except (labels.SelectorError, fields.SelectorError) as error:
            raise errors.BadRequest(str(error)) from None
        found = await asyncio.gather(*(self._status(name) for name in (*PORTS, STORE)))
        items = [
            one
            for one in found
            if by_label.matches({}) and all((get(one) == value) is equal for get, equal, value in bound)
        ]
        return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": {}, "items": items}

    async def _status(self, name: str) -> dict[str, Any]:
        healthy, message = (True, "ok") if name == STORE else await _probe(PORTS[name])
        condition = {"type": "Healthy", "status": "True" if healthy else "False", "message": message}
        return {"metadata": {"name": name}, "conditions": [condition]}


async def _probe(port: int) -> tuple[bool, str]:
    """Return whether the component at *port* is healthy, and its response."""
    url = f"https://{HOST}:{port}/healthz"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
            try:
                writer.write(f"GET /healthz HTTP/1.0\r\nHost: {HOST}:{port}\r\n\r\n".encode())
                answer = await reader.read(1 << 16)
            finally:
                writer.close()
    except ConnectionRefusedError:
        return False, f'Get "{url}": dial tcp {HOST}:{port}: connect: connection refused'
    except (OSError, TimeoutError) as error:
        return False, f'Get "{url}": {error or "context deadline exceeded"}'
    head, _, body = answer.partition(b"\r\n\r\n")
    code = head.split(b" ", 2)[1:2]
    return code == [b"%d" % _OK], body.decode("utf-8", "replace")


# ── API server identity: a Lease in kube-system per server ──
# The name follows from the host, so that a restarted server takes its lease over. Renewed every ten seconds; expired
# leases are removed by any other server.


NAMESPACE: Final = "kube-system"
COMPONENT: Final = "kube-apiserver"
LABEL: Final = "apiserver.kubernetes.io/identity"
HOSTNAME: Final = "kubernetes.io/hostname"
PEER: Final = "kubernetes.io/peer-advertise-address"
DURATION_SECONDS: Final = 3600
RENEW_SECONDS: Final = 10.0
SWEEP_EVERY: Final = 360  #: renewals between two sweeps of expired leases


def server_id(hostname: str, number: int = 1) -> str:
    """Return what the API server of a host is called; Kubernetes knows one for each host.

    >>> server_id("vm")
    'apiserver-wlv32tlttr4jl3gtroqexyxapa'
    """
    parts = (hostname.encode(), COMPONENT.encode(), *((b"%d" % number,) if number > 1 else ()))
    text = b"".join(len(part).to_bytes(2, "big") + part for part in parts)
    return "apiserver-" + base64.b32encode(hashlib.sha256(text).digest()[:16]).decode().rstrip("=").lower()


class IdentityLease:
    """The lease of one server."""

    def __init__(
        self, verbs: Verbs, clock: Clock, hostname: str, address: str, instance: str, number: int = 1
    ) -> None:
        """*address* is where other servers find this one; *instance* distinguishes this run from the one before."""
        self._verbs, self._clock, self._hostname, self._address = verbs, clock, hostname, address
        self.name = server_id(hostname, number)
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


# ── endpoints of the service `kubernetes`: the addresses of live API servers ──


SERVICE: Final = "kubernetes"
DEFAULT: Final = "default"
#: A server that has missed two renewals is taken for gone.
GONE_SECONDS: Final = 2.5 * RENEW_SECONDS
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
            ENDPOINT_SLICES,
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
