"""Facts about the control plane that the confirm step relies on.

Spec: stock.md 7, 11. One kube-controller-manager has to run both taint eviction and endpoint slices. Several API
servers mean that a kube-controller-manager that takes over may list older pods than the one before it had seen.
What a managed control plane hides counts as in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.client.api import Client
from weir.objects.kinds import ENDPOINT_SLICES, PODS

#: The controllers whose common view of pods the confirm step rests on.
TOGETHER: Final = ("taint-eviction-controller", "endpoint-slice-controller")
#: The EndpointSlice in which the API servers write their own addresses.
API_SERVERS: Final = "kubernetes"


@dataclass(frozen=True, slots=True)
class Managers:
    """The kube-controller-managers that run as pods, and what one of them runs without."""

    seen: int
    without: tuple[str, ...]


async def managers(client: Client) -> Managers:
    """Return what is seen of kube-controller-manager. Raises ApiError, Unreachable."""
    found = await client.list(
        PODS, "kube-system", label_selector="component=kube-controller-manager", limit=5
    )
    lists = [_controllers_of(pod) for pod in found.documents()]
    return Managers(
        len(lists), tuple(sorted({each for words in lists for each in TOGETHER if not is_on(each, words)}))
    )


async def api_servers(client: Client) -> int:
    """Return how many API servers say that they are there; 0 when nobody can tell. Raises ApiError, Unreachable."""
    found = await client.find(ENDPOINT_SLICES, API_SERVERS, "default")
    return len(
        {
            address
            for endpoint in (found or {}).get("endpoints") or ()
            for address in endpoint.get("addresses") or ()
        }
    )


def _controllers_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the --controllers of a kube-controller-manager that runs as a pod; ["*"] when it has none."""
    for container in (pod.get("spec") or {}).get("containers") or ():
        for word in (*(container.get("command") or ()), *(container.get("args") or ())):
            if str(word).startswith("--controllers="):
                return str(word).partition("=")[2].split(",")
    return ["*"]


def is_on(name: str, controllers: Iterable[str]) -> bool:
    """Return whether a list of controllers has *name*, as kube-controller-manager reads it: the first word counts.

    >>> is_on("a", ["*", "-a"]), is_on("a", ["*"]), is_on("a", ["b"])
    (False, True, False)
    """
    words = list(controllers)
    return name in words or ("*" in words and f"-{name}" not in words)
