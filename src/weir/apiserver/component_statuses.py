"""ComponentStatus (deprecated): health of scheduler, controller manager and store.

As upstream, scheduler and controller manager are probed at their default ports on this machine; components that serve
elsewhere (those of `weir up`) are reported as unhealthy. Nothing is stored.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

from weir import errors
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.selectors import fields, labels

__all__ = ["COMPONENT_STATUS", "ComponentStatuses"]

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
