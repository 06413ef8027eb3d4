"""Changes of nodes: taints and labels, cordons, deleted and added nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from weir.objects import core
from weir.objects.kinds import RESOURCE_SLICES
from weir.objects.times import format_time
from weir.selectors.labels import parse
from weir.taints.notation import taint_document
from weir.validate import validate
from weir.whatif.changes.change import ChangedCluster, ChangeError, unless_refused

Document = dict[str, Any]
HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True)
class Nodes:
    """The nodes that a change is made to: by name, by label, or all."""

    names: tuple[str, ...] = ()
    selector: str = ""

    def find(self, cluster: ChangedCluster) -> list[Document]:
        """Return the nodes, in the order they were named; raises ChangeError when one is not there."""
        return self.among(cluster.list("Node"))

    def among(self, documents: Iterable[Document]) -> list[Document]:
        """Return those of a cluster's nodes that are meant; raises ChangeError when one is not there."""
        nodes = {each["metadata"]["name"]: each for each in documents}
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

    def make(self, cluster: ChangedCluster) -> list[str]:
        nodes = self.nodes.find(cluster)
        self.check_removals(nodes)
        patches = {}
        for node in nodes:
            taints = self.change(_node_taints(node))
            _check_taints(taints)
            patches[node["metadata"]["name"]] = {"spec": {"taints": taints or None}}
        cluster.patch_all("Node", patches)
        return []

    def check_removals(self, nodes: Sequence[Document]) -> None:
        """Raise ChangeError when a taint to remove is not there: on a named node, or on none of those selected."""
        for edit in self.edits:
            lacking = [
                node["metadata"]["name"] for node in nodes if not _same(_node_taints(node), edit.taint)
            ]
            if edit.removes and lacking and (self.nodes.names or len(lacking) == len(nodes)):
                effect = f":{edit.taint.effect}" if edit.taint.effect else ""
                where = f"node {lacking[0]} has no" if self.nodes.names else "none of these nodes has a"
                raise ChangeError(f"{where} taint {edit.taint.key}{effect}")

    def edits_for(self, node: Document) -> tuple[TaintEdit, ...]:
        """Return the edits that change the taints of *node*."""
        taints, found = _node_taints(node), []
        for edit in self.edits:
            after = replace(self, edits=(edit,)).change(taints)
            if {*map(_triple, after)} != {*map(_triple, taints)}:
                found.append(edit)
            taints = after
        return tuple(found)

    def change(self, taints: Sequence[Document]) -> list[Document]:
        """Return the taints of a node that had *taints* before."""
        for edit in self.edits:
            replaced = _same(taints, edit.taint)
            taints = [taint for taint in taints if taint not in replaced]
            if not edit.removes:
                taints = [*taints, taint_document(edit.taint)]
        return list(taints)


def _node_taints(node: Document) -> list[Document]:
    return list((node.get("spec") or {}).get("taints") or ())


def _triple(taint: Document) -> tuple[str, str, str]:
    return taint["key"], taint.get("value") or "", taint.get("effect", "")


def _same(taints: Sequence[Document], taint: core.Taint) -> list[Document]:
    """Return those with the key and the effect of *taint*, or with any effect when it has none."""
    return [
        each for each in taints if each.get("key") == taint.key and taint.effect in ("", each.get("effect"))
    ]


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

    def make(self, cluster: ChangedCluster) -> list[str]:
        patch = {"metadata": {"labels": dict(self.labels)}}
        nodes = {node["metadata"]["name"]: patch for node in self.nodes.find(cluster)}
        unless_refused(partial(cluster.patch_all, "Node", nodes))
        return []


def _slice_of(model: Document, node: str, number: int) -> Document:
    """Return a slice of *node* with devices like those of the *model*, healthy ones."""
    spec = model["spec"]
    pool = spec.get("pool") or {}
    own = node if pool.get("name") == spec["nodeName"] else f"{pool.get('name', '')}-{node}"
    return {
        "apiVersion": RESOURCE_SLICES.api_version,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{number}"},
        "spec": {
            **spec,
            "nodeName": node,
            "pool": {**pool, "name": own},
            "devices": [
                {key: value for key, value in each.items() if key != "taints"}
                for each in spec.get("devices") or ()
            ],
        },
    }


@dataclass(frozen=True)
class Cordon:
    """`kubectl cordon`, or `uncordon`."""

    nodes: Nodes
    on: bool = True

    def say(self) -> str:
        return f"{'cordon' if self.on else 'uncordon'} {self.nodes}"

    def make(self, cluster: ChangedCluster) -> list[str]:
        patch = {"spec": {"unschedulable": self.on or None}}
        cluster.patch_all("Node", {node["metadata"]["name"]: patch for node in self.nodes.find(cluster)})
        return []


@dataclass(frozen=True)
class DeleteNode:
    """`kubectl delete node`."""

    nodes: Nodes

    def say(self) -> str:
        return f"delete-node {self.nodes}"

    def make(self, cluster: ChangedCluster) -> list[str]:
        for node in self.nodes.find(cluster):
            cluster.delete("Node", node["metadata"]["name"])
        return []


@dataclass(frozen=True)
class AddNodes:
    """New nodes, each like one that is there, with as many devices of its own."""

    count: int
    like: str
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[core.Taint, ...] | None = None  #: None: as the model has

    def say(self) -> str:
        return f"add-nodes {self.count} --like {self.like}"

    def make(self, cluster: ChangedCluster) -> list[str]:
        (model,) = Nodes((self.like,)).find(cluster)
        there = {each["metadata"]["name"] for each in cluster.list("Node")}
        names = (f"{self.like}-new-{number}" for number in itertools.count(1))
        for name in itertools.islice((name for name in names if name not in there), self.count):
            cluster.create(self._node(model, name, format_time(cluster.now)))
            for number, each in enumerate(self._slices(cluster)):
                cluster.create(_slice_of(each, name, number))
        return []

    def _slices(self, cluster: ChangedCluster) -> list[Document]:
        """Return the slices of the model's own devices."""
        held = cluster.list("ResourceSlice")
        return [each for each in held if (each.get("spec") or {}).get("nodeName") == self.like]

    def _node(self, model: Document, name: str, now: str) -> Document:
        labels = {**(model["metadata"].get("labels") or {}), **dict(self.labels)}
        if HOSTNAME in labels:
            labels[HOSTNAME] = name
        spec = {key: value for key, value in (model.get("spec") or {}).items() if key == "taints"}
        if self.taints is not None:
            spec["taints"] = [taint_document(taint) for taint in self.taints]
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
