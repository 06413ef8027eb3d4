"""What can be asked about? The changes people make to a cluster, each as a value that carries itself out on a copy.

Each does what the command of the same name does: `kubectl taint`, `label`, `drain`, `cordon`, `delete node`, `scale`,
`apply -f`, `rollout restart`; `add-nodes` makes nodes as a cluster autoscaler would, `gates` restarts the components.
What surprises: a drain is not done when it is made. Like kubectl it cordons, asks for every eviction at once, and asks
again every five seconds for those that a budget refuses.
Not here: reading them from a command line (weir.cli.what_if), what comes of them (weir.whatif.forecast).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

from weir.apiserver.older_release import RELEASES
from weir.errors import ApiError, NotFound
from weir.gates import FEATURES, Gates
from weir.objects import core
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS, by_kind
from weir.objects.templates import TEMPLATE_PATHS
from weir.objects.times import format_time
from weir.selectors.labels import parse
from weir.simulation.cluster import Cluster
from weir.simulation.component_gates import ComponentGates
from weir.taints.notation import taint_document
from weir.validate import validate
from weir.whatif.upgrade_order import advice

Document = dict[str, Any]
NODES: Final = by_kind("v1", "Node")
PODS: Final = by_kind("v1", "Pod")
RETRY_SECONDS: Final = 5.0
HOSTNAME: Final = "kubernetes.io/hostname"
MIRROR: Final = "kubernetes.io/config.mirror"
RESTARTED: Final = "kubectl.kubernetes.io/restartedAt"
COMPONENTS: Final = ("apiserver", "scheduler", "controllers", "kubelet")
_SCALED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
_ROLLED: Final = ("Deployment", "StatefulSet", "DaemonSet")


class ChangeError(ValueError):
    """A change that cannot be made to this cluster; says why."""


class Change(Protocol):
    """One thing somebody does to the cluster."""

    def say(self) -> str:
        """Return what is done, as a command says it."""

    def make(self, cluster: Cluster) -> list[str]:
        """Do it to *cluster*; return what there is to say about it. Raises ChangeError."""


@dataclass(frozen=True)
class Nodes:
    """The nodes that a change is made to: by name, by label, or all."""

    names: tuple[str, ...] = ()
    selector: str = ""

    def find(self, cluster: Cluster) -> list[Document]:
        """Return the nodes, in the order they were named; raises ChangeError when one is not there."""
        nodes = {each["metadata"]["name"]: each for each in cluster.list("Node")}
        for name in self.names:
            if name not in nodes:
                raise ChangeError(f"no node {name} in the cluster (it has {len(nodes)})")
        if self.names:
            return [nodes[name] for name in self.names]
        chosen = parse(self.selector)
        found = [node for node in nodes.values() if chosen.matches(node["metadata"].get("labels") or {})]
        if not found:
            raise ChangeError(
                f"no node has the labels {self.selector}" if self.selector else "the cluster has no nodes"
            )
        return found

    def __str__(self) -> str:
        if self.names:
            return " ".join(self.names)
        return f"-l {self.selector}" if self.selector else "--all-nodes"


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class TaintEdit:
    """One taint that is set, or taken away."""

    taint: core.Taint
    removes: bool = False

    def __str__(self) -> str:
        return f"{self.taint}{'-' if self.removes else ''}"


@dataclass(frozen=True)
class Taint:
    """`kubectl taint nodes`: one with the same key and effect is replaced."""

    nodes: Nodes
    edits: tuple[TaintEdit, ...]

    def say(self) -> str:
        return f"taint {self.nodes} {' '.join(map(str, self.edits))}"

    def make(self, cluster: Cluster) -> list[str]:
        cluster.patch_all(
            "Node",
            {
                node["metadata"]["name"]: {"spec": {"taints": self._taints(node) or None}}
                for node in self.nodes.find(cluster)
            },
        )
        return []

    def _taints(self, node: Document) -> list[Document]:
        kept = list((node.get("spec") or {}).get("taints") or ())
        for edit in self.edits:
            key, effect = edit.taint.key, edit.taint.effect
            same = [
                taint for taint in kept if taint.get("key") == key and effect in ("", taint.get("effect"))
            ]
            if edit.removes and not same:
                name = node["metadata"]["name"]
                raise ChangeError(f"node {name} has no taint {key}{':' + effect if effect else ''}")
            kept = [taint for taint in kept if taint not in same]
            if not edit.removes:
                kept.append(taint_document(edit.taint))
        _check_taints(kept)
        return kept


def _check_taints(taints: Sequence[Document]) -> None:
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": list(taints)}}
    if wrong := validate(bare):
        raise ChangeError("; ".join(" ".join(str(error).split()) for error in wrong))


@dataclass(frozen=True)
class Label:
    """`kubectl label nodes`; None takes a label away."""

    nodes: Nodes
    labels: tuple[tuple[str, str | None], ...]

    def say(self) -> str:
        words = (f"{key}-" if value is None else f"{key}={value}" for key, value in self.labels)
        return f"label {self.nodes} {' '.join(words)}"

    def make(self, cluster: Cluster) -> list[str]:
        patch = {"metadata": {"labels": dict(self.labels)}}
        nodes = {node["metadata"]["name"]: patch for node in self.nodes.find(cluster)}
        _refusable(partial(cluster.patch_all, "Node", nodes))
        return []


@dataclass(frozen=True)
class Cordon:
    """`kubectl cordon`, or `uncordon`."""

    nodes: Nodes
    on: bool = True

    def say(self) -> str:
        return f"{'cordon' if self.on else 'uncordon'} {self.nodes}"

    def make(self, cluster: Cluster) -> list[str]:
        patch = {"spec": {"unschedulable": self.on or None}}
        cluster.patch_all("Node", {node["metadata"]["name"]: patch for node in self.nodes.find(cluster)})
        return []


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

    def make(self, cluster: Cluster) -> list[str]:
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


async def _evict(cluster: Cluster, pod: Document, blocked: dict[str, str]) -> None:
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


@dataclass(frozen=True)
class DeleteNode:
    """`kubectl delete node`."""

    nodes: Nodes

    def say(self) -> str:
        return f"delete-node {self.nodes}"

    def make(self, cluster: Cluster) -> list[str]:
        for node in self.nodes.find(cluster):
            cluster.delete("Node", node["metadata"]["name"])
        return []


@dataclass(frozen=True)
class AddNodes:
    """New nodes, each like one that is there."""

    count: int
    like: str
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[core.Taint, ...] | None = None  #: None: as the model has

    def say(self) -> str:
        return f"add-nodes {self.count} --like {self.like}"

    def make(self, cluster: Cluster) -> list[str]:
        (model,) = Nodes((self.like,)).find(cluster)
        there = {each["metadata"]["name"] for each in cluster.list("Node")}
        names = (f"{self.like}-new-{number}" for number in itertools.count(1))
        for name in itertools.islice((name for name in names if name not in there), self.count):
            cluster.create(self._node(model, name, format_time(cluster.now)))
        return []

    def _node(self, model: Document, name: str, now: str) -> Document:
        labels = {**(model["metadata"].get("labels") or {}), **dict(self.labels)}
        if HOSTNAME in labels:
            labels[HOSTNAME] = name
        spec = {key: value for key, value in (model.get("spec") or {}).items() if key == "taints"}
        if self.taints is not None:
            spec["taints"] = [
                {"key": t.key, "effect": t.effect} | ({"value": t.value} if t.value else {})
                for t in self.taints
            ]
            _check_taints(spec["taints"])
        status = {
            key: value
            for key, value in (model.get("status") or {}).items()
            if key in ("allocatable", "capacity", "nodeInfo")
        }
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {**status, "conditions": [ready]},
        }


# ── workloads ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Scale:
    """`kubectl scale`."""

    workload: str  #: deploy/web
    replicas: int
    namespace: str = "default"

    def say(self) -> str:
        return f"scale {self.workload} {self.replicas}{_in(self.namespace)}"

    def make(self, cluster: Cluster) -> list[str]:
        kind, name = find_workload(cluster, self.workload, self.namespace, _SCALED)
        cluster.patch(kind.kind, name, {"spec": {"replicas": self.replicas}}, self.namespace)
        return []


@dataclass(frozen=True)
class Rollout:
    """`kubectl rollout restart`: the same pods anew, as fast as the strategy allows."""

    workload: str
    namespace: str = "default"

    def say(self) -> str:
        return f"rollout {self.workload}{_in(self.namespace)}"

    def make(self, cluster: Cluster) -> list[str]:
        kind, name = find_workload(cluster, self.workload, self.namespace, _ROLLED)
        annotations = {RESTARTED: format_time(cluster.now)}
        template = {"template": {"metadata": {"annotations": annotations}}}
        found = cluster.patch(kind.kind, name, {"spec": template}, self.namespace)
        if (found["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
            return [f"{kind.kind}/{name} replaces its pods only when they are deleted (OnDelete)"]
        return []


def find_workload(cluster: Cluster, text: str, namespace: str, allowed: Sequence[str]) -> tuple[Kind, str]:
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


# ── anything ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Apply:
    """`kubectl apply -f`."""

    documents: tuple[Document, ...] = field(hash=False)

    def say(self) -> str:
        names = [
            f"{d.get('kind', '?').lower()}/{(d.get('metadata') or {}).get('name', '?')}"
            for d in self.documents
        ]
        return f"apply {' '.join(names)}"

    def make(self, cluster: Cluster) -> list[str]:
        for document in self.documents:
            if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
                raise ChangeError("a document without a kind and an apiVersion cannot be applied")
            if not (document.get("metadata") or {}).get("name"):
                raise ChangeError(f"a {document['kind']} without metadata.name cannot be applied")
            try:
                by_kind(document["apiVersion"], document["kind"])
            except KeyError:
                raise ChangeError(
                    f"{document['apiVersion']} {document['kind']} is no kind that weir knows"
                ) from None
            _refusable(partial(cluster.apply, _managed(document)))
        return []


def _managed(document: Document) -> Document:
    """Return *document* as it can be applied: without what only a server writes."""
    dropped = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation")
    metadata = {name: value for name, value in document["metadata"].items() if name not in dropped}
    return {**document, "metadata": metadata}


def _refusable(act: Callable[[], object]) -> None:
    try:
        act()
    except ApiError as error:
        raise ChangeError(f"the server would refuse it: {' '.join(str(error).split())}") from None


@dataclass(frozen=True)
class SetGates:
    """Restart components with other feature gates, or as an older release."""

    settings: tuple[tuple[str, bool], ...]
    components: tuple[str, ...] = ()  #: all of them unless named
    before: Gates = field(default_factory=Gates)
    to: str = ""  #: an older release: components that never heard of the KEPs' fields

    def say(self) -> str:
        words = ",".join(f"{name}={str(value).lower()}" for name, value in self.settings)
        named = "".join(f" --component {name}" for name in self.components)
        return " ".join(filter(None, ("gates", words, named.strip(), f"--to {self.to}" if self.to else "")))

    def make(self, cluster: Cluster) -> list[str]:
        """Restart them, and say what should have been done before."""
        held = [
            {"kind": kind, **document}
            for kind in (*TEMPLATE_PATHS, "DeviceTaintRule")
            for document in cluster.list(kind)
        ]
        gates: Mapping[str, Any] = {name: self.gates_of(name) for name in COMPONENTS}
        older = frozenset(
            f"{name}={self.to}" if name == "apiserver" else name
            for name in COMPONENTS
            if self.to and self._changes(name)
        )
        cluster.set_gates(replace(ComponentGates.of(gates), older=older))
        chosen = next(filter(self._changes, COMPONENTS))
        after = self.gates_of(chosen)
        going = [name for name in FEATURES if self.before.enabled(name) and not after.enabled(name)]
        coming = [name for name in FEATURES if after.enabled(name) and not self.before.enabled(name)]
        return advice(held, going, coming, self.components, self.to)

    def _changes(self, component: str) -> bool:
        return not self.components or component in self.components

    def gates_of(self, component: str) -> Gates:
        """Return the gates that *component* has afterwards."""
        if not self._changes(component):
            return self.before
        if self.to:
            return RELEASES[self.to].gates(self.before).replace(dict(self.settings))
        return self.before.replace(dict(self.settings))


@dataclass(frozen=True)
class Wait:
    """Let time pass before the next change."""

    seconds: float

    def say(self) -> str:
        return f"wait {self.seconds:g}s"

    def make(self, cluster: Cluster) -> list[str]:
        cluster.advance(self.seconds)
        return []
