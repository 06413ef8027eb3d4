"""Changes of workloads: another number of replicas, or a restarted rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weir.objects.kind import Kind
from weir.objects.kinds import KINDS
from weir.objects.times import format_time
from weir.whatif.changes.change import ChangedCluster, ChangeError

RESTARTED: Final = "kubectl.kubernetes.io/restartedAt"
_SCALED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
_ROLLED: Final = ("Deployment", "StatefulSet", "DaemonSet")


@dataclass(frozen=True)
class Scale:
    """`kubectl scale`."""

    workload: str  #: deploy/web
    replicas: int
    namespace: str = "default"

    def say(self) -> str:
        return f"scale {self.workload} {self.replicas}{_in(self.namespace)}"

    def make(self, cluster: ChangedCluster) -> list[str]:
        kind, name = _find(cluster, self.workload, self.namespace, _SCALED)
        cluster.patch(kind.kind, name, {"spec": {"replicas": self.replicas}}, self.namespace)
        return []


@dataclass(frozen=True)
class Rollout:
    """`kubectl rollout restart`: the same pods anew, as fast as the strategy allows."""

    workload: str
    namespace: str = "default"

    def say(self) -> str:
        return f"rollout {self.workload}{_in(self.namespace)}"

    def make(self, cluster: ChangedCluster) -> list[str]:
        kind, name = _find(cluster, self.workload, self.namespace, _ROLLED)
        annotations = {RESTARTED: format_time(cluster.now)}
        template = {"template": {"metadata": {"annotations": annotations}}}
        found = cluster.patch(kind.kind, name, {"spec": template}, self.namespace)
        if (found["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
            return [f"{kind.kind}/{name} replaces its pods only when they are deleted (OnDelete)"]
        return []


def _find(cluster: ChangedCluster, text: str, namespace: str, allowed: Sequence[str]) -> tuple[Kind, str]:
    """Return kind and name of the workload that *text* means, `deploy/web`; raises ChangeError."""
    short, slash, name = text.partition("/")
    kind = next(
        (
            k
            for k in KINDS
            if k.stored and short.lower() in (k.kind.lower(), k.plural, k.singular, *k.short_names)
        ),
        None,
    )
    if not slash or not name or kind is None or kind.kind not in allowed:
        raise ChangeError(f"{text!r}: write {' or '.join(f'{each.lower()}/NAME' for each in allowed)}")
    if cluster.get(kind.kind, name, namespace) is None:
        there = sorted(each["metadata"]["name"] for each in cluster.list(kind.kind, namespace))
        known = f"it has {', '.join(there[:5])}" if there else f"no {kind.plural} were collected there"
        raise ChangeError(f"no {kind.singular} {name} in namespace {namespace}: {known}")
    return kind, name


def _in(namespace: str) -> str:
    return "" if namespace == "default" else f" -n {namespace}"
