"""Names and isolation of a story's objects in a shared cluster.

Cluster-scoped names and namespaces get a prefix unique to story and run, which is removed from what is read. Nodes
get a taint and a label; every pod of the story tolerates the one and selects the other. The taint is first and the
toleration last, so that indices in messages stay the story's, and the scheduler names this taint for other stories'
nodes. Its effect is NoSchedule, so it neither evicts nor scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from weir.objects.kind import Document, Kind
from weir.objects.kinds import find_kind
from weir.simulation.demo.story import NodeOf, Story
from weir.simulation.drivers.device_models import read_all
from weir.simulation.kubelet.node_classes import CLASSES

#: Label of everything a run makes: its id. Also the taint and the node label, there with the story's number.
LABEL: Final = "weir.dev/conformance"
STORY: Final = "weir.dev/conformance-story"
HOSTNAME: Final = "kubernetes.io/hostname"
#: Fields that hold the name of an object without a namespace, or of a namespace.
_REFERENCES: Final = frozenset(
    {
        "nodeName", "deviceClassName", "storageClassName", "priorityClassName", "runtimeClassName", "volumeName",
        "driver", "pool", "namespace", HOSTNAME,
    }
)  # fmt: skip
#: Where the isolation stands; what holds nothing else is left out for the story.
_EMPTIED: Final = frozenset({"taints", "tolerations", "nodeSelector", "labels"})
_BY_NAME: Final = (HOSTNAME, "metadata.name")


@dataclass(frozen=True)
class Names:
    """The names of one story in one run."""

    run: str
    number: int
    known: frozenset[str]  #: the story's names that are others in the cluster
    drivers: frozenset[str] = frozenset()
    versions: Mapping[str, str] = field(default_factory=dict)  #: apiVersion to use instead, by kind
    stock: bool = False  #: whether expressions are written as weir's operator reads them

    @property
    def prefix(self) -> str:
        return f"wc-{self.run}-{self.number:02}-"

    @property
    def story(self) -> str:
        """The value of the taint and of the label of this story's nodes."""
        return f"{self.run}-{self.number:02}"

    @property
    def labels(self) -> dict[str, str]:
        return {LABEL: self.run}

    @property
    def taint(self) -> Document:
        return {"key": LABEL, "value": self.story, "effect": "NoSchedule"}

    @property
    def _toleration(self) -> Document:
        return {"key": LABEL, "operator": "Equal", "value": self.story, "effect": "NoSchedule"}

    # ── to the cluster ───────────────────────────────────────────────────────────────────────────

    def name(self, name: str) -> str:
        """Return what a name of the story is called in the cluster."""
        return f"{self.prefix}{name}" if name in self.known else name

    def namespace(self, name: str) -> str:
        return f"{self.prefix}{name or 'default'}"

    def outward(self, document: Document, kind: Kind) -> Document:
        """Return an object of the story as it is written to the cluster."""
        changed = self.changes(document)
        metadata = dict(changed["metadata"])
        if kind.namespaced:
            metadata["namespace"] = self.namespace(document["metadata"].get("namespace", ""))
        else:
            metadata["name"] = f"{self.prefix}{document['metadata']['name']}"
            metadata["labels"] = {**(metadata.get("labels") or {}), **self.labels}
        version = self.versions.get(kind.kind, "")
        if version and not str(changed.get("apiVersion", "")).endswith("/v1alpha4"):
            changed["apiVersion"] = version
        for spec in _pod_specs(changed):
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), STORY: self.story}
            spec["tolerations"] = [*(spec.get("tolerations") or ()), self._toleration]
        return {**changed, "metadata": metadata}

    def changes(self, document: Document) -> Document:
        """Return a document, or a patch of one, with the cluster's names."""
        changed = self._walk(document)
        assert isinstance(changed, dict)
        return changed

    def patch(self, patch: Document) -> Document:
        """Return a merge patch as it is sent: lists of tolerations and of taints stay those of an isolated story."""
        changed = self.changes(patch)
        for spec in _pod_specs(changed):
            if isinstance(spec.get("tolerations"), list):
                spec["tolerations"] = [*spec["tolerations"], self._toleration]
        if isinstance((changed.get("spec") or {}).get("taints"), list):
            changed["spec"]["taints"] = [self.taint, *changed["spec"]["taints"]]
        return changed

    def _walk(self, value: Any, place: str = "") -> Any:
        if isinstance(value, str):
            if place in _REFERENCES:
                return self.name(value)
            if place == "matchAttribute":
                return f"{self.prefix}{value}" if value.partition("/")[0] in self.drivers else value
            return value
        if isinstance(value, list | tuple):
            return [self._walk(each, "") for each in value]
        if not isinstance(value, dict):
            return value
        changed = {name: self._walk(each, name) for name, each in value.items()}
        if place == "pool" and isinstance(changed.get("name"), str):
            changed["name"] = self.name(changed["name"])
        if place == "cel" and isinstance(changed.get("expression"), str):
            changed["expression"] = self._expression(changed["expression"])
        if changed.get("key") in _BY_NAME and isinstance(changed.get("values"), list):
            changed["values"] = [self.name(each) for each in changed["values"]]
        if self.stock and isinstance(changed.get("tolerations"), list):
            changed["tolerations"] = [stock_spelling(each) for each in changed["tolerations"]]
        return changed

    def _expression(self, text: str) -> str:
        for driver in self.drivers:
            for quote in "'\"":
                text = text.replace(f"{quote}{driver}{quote}", f"{quote}{self.prefix}{driver}{quote}")
        return text

    # ── from the cluster ─────────────────────────────────────────────────────────────────────────

    def text(self, text: str) -> str:
        """Return a text of the cluster as the story would have it."""
        return text.replace(self.prefix, "")

    def refusal(self, text: str, kind: str) -> str:
        """Return the API server's words about an object, without what isolates the story."""
        if kind == "Node":  # the taint that isolates comes first
            text = re.sub(r"taints\[(\d+)\]", lambda index: f"taints[{int(index[1]) - 1}]", text)
        return self.text(text)

    def inward(self, document: Document) -> Document:
        """Return an object of the cluster as the story would have it."""
        raw = msgspec.json.encode(document).replace(self.prefix.encode(), b"")
        plain: Document = _without_isolation(msgspec.json.decode(raw))
        return plain


def names_of(
    story: Story, run: str, number: int, versions: Mapping[str, str] | None = None, *, stock: bool = False
) -> Names:
    """Return the names that *story* has in a run."""
    documents = [*story.objects]
    nodes = list(story.nodes)
    for step in story.steps:
        documents += [*step.apply, *step.everywhere]
        nodes += step.nodes
    renamed = {node.name for node in nodes} | {"default"}
    drivers: set[str] = set()
    for node in nodes:
        for devices in _devices(node):
            drivers.add(devices.driver)
            renamed |= {devices.pool} - {""}
    for document in documents:
        kind = find_kind(document["apiVersion"], document["kind"])
        if kind is not None and not kind.namespaced:
            renamed.add(document["metadata"]["name"])
        elif document["metadata"].get("namespace"):
            renamed.add(document["metadata"]["namespace"])
        if document["kind"] == "DeviceTaintRule":
            drivers.add(document["spec"]["deviceSelector"]["driver"])
        if document["kind"] == "ResourceSlice":
            drivers.add(document["spec"]["driver"])
            renamed.add(document["spec"]["pool"]["name"])
    return Names(run, number, frozenset(renamed | drivers), frozenset(drivers), dict(versions or {}), stock)


def namespaces_of(story: Story) -> list[str]:
    """Return the namespaces that *story* puts objects into."""
    namespaces = {"default"}
    documents: Iterable[Document] = (
        *story.objects,
        *(each for step in story.steps for each in (*step.apply, *step.everywhere)),
    )
    for document in documents:
        namespaces.add(document["metadata"].get("namespace") or "default")
    return sorted(namespaces)


def _devices(node: NodeOf) -> tuple[Any, ...]:
    if node.devices is not None:
        return read_all(node.devices)
    return CLASSES[node.node_class].devices


def stock_spelling(toleration: Any) -> Any:
    """Return a toleration as it reaches the hooks of weir's operator: a stock server drops `expression`.

    >>> stock_spelling({"expression": "true"})
    {'operator': 'CEL', 'value': 'true'}
    """
    if not isinstance(toleration, dict) or not toleration.keys() <= {"expression", "tolerationSeconds"}:
        return toleration
    rest = {name: value for name, value in toleration.items() if name != "expression"}
    return {"operator": "CEL", "value": toleration.get("expression", ""), **rest}


def _pod_specs(document: Document) -> Iterable[Document]:
    """Yield the pod specs of an object or of a patch: its own, or that of its template."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return
    template = spec.get("template")
    if isinstance(template, dict):
        if isinstance(template.get("spec"), dict):
            yield template["spec"]
    elif isinstance(spec.get("jobTemplate"), dict):
        yield from _pod_specs(spec["jobTemplate"])
    elif "containers" in spec or "tolerations" in spec:
        yield spec


def _without_isolation(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_isolation(each) for each in value if not _isolates(each)]
    if isinstance(value, dict):
        kept = {name: _without_isolation(each) for name, each in value.items() if name not in (LABEL, STORY)}
        # A list or mapping that holds nothing but the isolation was not there in the story.
        return {name: each for name, each in kept.items() if name not in _EMPTIED or each or not value[name]}
    return value


def _isolates(value: Any) -> bool:
    return isinstance(value, dict) and value.get("key") == LABEL
