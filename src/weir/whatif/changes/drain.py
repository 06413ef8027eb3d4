"""Drains nodes: cordons them and evicts all their pods at once.

A drain is not done when it is made: like kubectl it retries every five seconds the evictions that a budget refuses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from weir.errors import ApiError, NotFound
from weir.objects.kinds import PODS
from weir.whatif.changes.change import ChangedCluster
from weir.whatif.changes.nodes import Cordon, Nodes

Document = dict[str, Any]
RETRY_SECONDS: Final = 5.0
MIRROR: Final = "kubernetes.io/config.mirror"


@dataclass(frozen=True)
class Drain:
    """`kubectl drain --ignore-daemonsets --delete-emptydir-data`; pods without a controller only with *force*."""

    nodes: Nodes
    force: bool = False
    blocked: dict[str, str] = field(
        default_factory=dict, compare=False
    )  #: pod → the budget that refuses its eviction

    def say(self) -> str:
        return f"drain {self.nodes}{' --force' if self.force else ''}"

    def make(self, cluster: ChangedCluster) -> list[str]:
        names = {node["metadata"]["name"] for node in self.nodes.find(cluster)}
        Cordon(self.nodes).make(cluster)
        going, bare = [], []
        for pod in cluster.list("Pod"):
            if pod["spec"].get("nodeName") not in names or MIRROR in (
                pod["metadata"].get("annotations") or {}
            ):
                continue
            owner = next(
                (o for o in pod["metadata"].get("ownerReferences") or () if o.get("controller")), None
            )
            ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
            if owner is None and not ended and not self.force:
                bare.append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
            elif owner is None or owner["kind"] != "DaemonSet":
                going.append(pod)
        if bare:
            return [
                f"kubectl drain cordons, then stops and evicts nothing: {', '.join(sorted(bare)[:5])}"
                f"{' …' if len(bare) > 5 else ''} declare no controller (--force deletes them)"
            ]
        for pod in going:
            cluster.background(_evict(cluster, pod, self.blocked))
        return []


async def _evict(cluster: ChangedCluster, pod: Document, blocked: dict[str, str]) -> None:
    """Ask for the eviction of *pod* until it is granted, or the pod is gone; note meanwhile what refuses it."""
    metadata = pod["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}"
    while True:
        found = await cluster.client.find(PODS, metadata["name"], metadata["namespace"])
        if found is None or found["metadata"]["uid"] != metadata["uid"]:
            break
        try:
            await cluster.client.evict(metadata["name"], metadata["namespace"])
            break
        except NotFound:
            break
        except ApiError as error:
            causes = (error.details or {}).get("causes") or ()
            named = next((n[1] for c in causes if (n := _BUDGET.search(c.get("message", "")))), "")
            blocked[key] = f"{metadata['namespace']}/{named}" if named else str(error)
            await cluster.clock.sleep(RETRY_SECONDS)
    blocked.pop(key, None)


_BUDGET: Final = re.compile(r"disruption budget (\S+) needs")
