"""Edits for host port conflicts: another free port, or none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from weir.explain.edits.edit import Edit
from weir.objects.core import Pod
from weir.objects.requests import host_ports
from weir.scheduler.reasons import PortTaken
from weir.world import World

_LAST_PORT: Final = 65535


@dataclass(frozen=True)
class ChangeHostPort(Edit):
    """Use another port of the node, or none."""

    protocol: str
    before: int
    after: int  #: 0: no port of the node
    host_network: bool

    @property
    def cost(self) -> float:
        return 28 if self.after else 40

    def say(self) -> str:
        if not self.after:
            return f"use no host port instead of {self.before}/{self.protocol}"
        return f"use host port {self.after} instead of {self.before}/{self.protocol}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        for part in ("containers", "initContainers"):
            if part in spec:
                spec[part] = [self._in_container(container) for container in spec[part] or ()]

    def _in_container(self, container: Any) -> Any:
        if not isinstance(container, dict) or not container.get("ports"):
            return container
        return {**container, "ports": [self._in_port(port) for port in container["ports"]]}

    def _in_port(self, port: dict[str, Any]) -> dict[str, Any]:
        number = port.get("hostPort") or (port.get("containerPort") if self.host_network else 0)
        if number != self.before or (port.get("protocol") or "TCP") != self.protocol:
            return port
        changed = {key: value for key, value in port.items() if key not in ("hostPort", "hostIP")}
        if self.host_network:
            # On the host's network both are one; only what was written is written again.
            changed["containerPort"] = self.after
            return changed | ({"hostPort": self.after} if "hostPort" in port else {})
        return {**port, "hostPort": self.after} if self.after else changed


def for_port(reason: PortTaken, pod: Pod, world: World) -> Iterator[tuple[Edit, ...]]:
    """Yield another port of the same protocol that no pod uses, and doing without one."""
    taken = {port for other in (*world.pods.values(), pod) for _, protocol, port in host_ports(other)}
    host_network = bool(pod.spec.host_network)
    free = next((port for port in range(reason.port + 1, _LAST_PORT + 1) if port not in taken), 0)
    if free:
        yield (ChangeHostPort(reason.protocol, reason.port, free, host_network),)
    if not host_network:
        yield (ChangeHostPort(reason.protocol, reason.port, 0, host_network),)
