"""The skew matrix: one workload in every mix of old and new components.

Spec: core.md 8.2 "Effect of a gate being off", 8.3 "Skew scenarios", 8.4.
Each row is a set of components, each with its gates on or off, or from before the KEP, and runs in a cluster of its own
under virtual time: a pod that runs with everything on meets the row's components (is it kept?), then the same pod is
created anew (is it accepted, scheduled, admitted by the kubelet?). Nothing is imitated: the components decide.
A cell is dangerous where something goes wrong without a warning before: a pod lands where it must not, is rejected
after it was bound, is evicted, or its controller creates it again and again in vain.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from weir.errors import ApiError
from weir.gates import ALL_FEATURES, TOLERATION_CEL, TOLERATION_COMPARISON
from weir.objects.core import NodeSelector, NodeSelectorTerm, Pod, read
from weir.objects.templates import find_template
from weir.selectors.node import Match, match_requirement, required_selector
from weir.simulation.cluster import Cluster, ComponentGates
from weir.simulation.component_gates import COMPONENTS
from weir.taints.features import needed_gates
from weir.taints.notation import parse_taint
from weir.taints.operators import find_operator

Document = dict[str, Any]
COLUMNS: Final = ("accepted", "scheduled", "admitted", "kept")
CURRENT: Final = "on"
OFF: Final = "off"
OLDER: Final = "older"
_AGES: Final = {OLDER: "older", f"{OLDER}=1.35": "of 1.35"}
#: What of a node counts besides its name; more distinct nodes than this say nothing new.
MOST_NODES: Final = 20
#: How long a row is given: to place a pod, and to evict one.
PLACE_SECONDS: Final = 20.0
KEEP_SECONDS: Final = 60.0


class SkewError(ValueError):
    """A question that cannot be answered, with what to add."""


@dataclass(frozen=True)
class Cell:
    """One answer: whether it goes well, what is seen, and whether that is dangerous."""

    fine: bool | None  #: None: not asked, because an earlier column said no
    seen: str = ""
    danger: str = ""  #: why it is dangerous


@dataclass(frozen=True)
class Row:
    """One set of components and what becomes of the workload in it."""

    components: Mapping[str, str]  #: component → on, off, older, or older=1.35
    cells: Mapping[str, Cell]

    @property
    def name(self) -> str:
        """The components that are not up to date.

        >>> Row({"apiserver": "on", "scheduler": "off"}, {}).name
        'scheduler off'
        """
        old = {name: age for name, age in self.components.items() if age != CURRENT}
        if len(old) == len(COMPONENTS) and set(old.values()) == {OFF}:
            return "everything off"
        return ", ".join(f"{name} {_AGES.get(age, age)}" for name, age in old.items()) or "everything on"

    @property
    def dangerous(self) -> bool:
        return any(cell.danger for cell in self.cells.values())


@dataclass(frozen=True)
class Matrix:
    """The rows of one workload, and the gates it needs."""

    subject: str
    gates: tuple[str, ...]
    nodes: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def dangerous(self) -> bool:
        return any(row.dangerous for row in self.rows)


@dataclass(frozen=True)
class NodeShape:
    """What of a node decides about a pod's tolerations and affinity."""

    name: str
    taints: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


def node_shapes(documents: Iterable[Document]) -> list[NodeShape]:
    """Return the distinct nodes of a cluster: of those that differ in nothing but their name, the first."""
    found: dict[Any, NodeShape] = {}
    for document in documents:
        if document.get("kind") != "Node":
            continue
        metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
        taints = tuple(
            sorted(
                f"{each.get('key')}{'=' + each['value'] if each.get('value') else ''}:{each.get('effect')}"
                for each in spec.get("taints") or ()
                if not str(each.get("key")).startswith("node.kubernetes.io/")
            )
        )
        labels = tuple(
            sorted(
                (key, value)
                for key, value in (metadata.get("labels") or {}).items()
                if key != "kubernetes.io/hostname"
            )
        )
        found.setdefault((taints, labels), NodeShape(str(metadata.get("name")), taints, labels))
    return list(found.values())[:MOST_NODES]


def nodes_for(pod: Document) -> list[NodeShape]:
    """Return nodes that the pod's tolerations and affinity are about, one for each term of its required affinity.

    Raises SkewError where they cannot be guessed.
    """
    spec = pod.get("spec") or {}
    taints = []
    for toleration in spec.get("tolerations") or ():
        if toleration.get("expression"):
            raise SkewError(
                "an expression does not say which taint it is about: name one with --taint KEY=VALUE:EFFECT, or give "
                "--cluster"
            )
        if (key := toleration.get("key")) is None or str(key).startswith("node.kubernetes.io/"):
            continue
        value = _accepted(toleration.get("operator") or "", str(toleration.get("value") or ""))
        effect = toleration.get("effect") or "NoExecute"
        taints.append(f"{key}{'=' + value if value else ''}:{effect}")
    terms = (required_selector(read(Pod, pod)) or NodeSelector()).node_selector_terms or (NodeSelectorTerm(),)
    selected = {str(key): str(value) for key, value in (spec.get("nodeSelector") or {}).items()}
    shapes = []
    for number, term in enumerate(terms):
        labels = {**_labels_for(term), **selected}
        name = next((field.values[0] for field in term.match_fields or () if field.values), "")
        default = "node" if len(terms) == 1 else f"node-{number}"
        shapes.append(NodeShape(name or default, tuple(dict.fromkeys(taints)), tuple(labels.items())))
    return shapes


def _labels_for(term: NodeSelectorTerm) -> dict[str, str]:
    """Return labels that meet a term as far as its requirements name values."""
    found: dict[str, str] = {}
    for requirement in term.match_expressions or ():
        same = [each for each in term.match_expressions or () if each.key == requirement.key]
        offered = [
            _accepted(each.operator, value) for each in same for value in each.values or ("",) if each.key
        ]
        fitting = (
            value
            for value in offered
            if all(match_requirement(each, {each.key: value}, ALL_FEATURES) is Match.MATCHES for each in same)
        )
        if (value := next(fitting, None)) is not None:
            found[requirement.key] = value
    return found


def _accepted(name: str, value: str) -> str:
    """Return a value of a taint or a label that the operator accepts.

    >>> _accepted("Gt", "900"), _accepted("SemverLt", "1.2.3"), _accepted("Equal", "a"), _accepted("Exists", "")
    ('901', '1.2.2', 'a', '')
    """
    operator = find_operator(name)
    return value if operator is None else operator.value_for(value)


def component_sets(gates: Iterable[str], *, every: bool = False) -> list[dict[str, str]]:
    """Return the rows: everything on, one component old at a time, the steps of an upgrade, everything off.

    With *every*, all combinations of on and off, and of components that never heard of a field.
    """
    wanted = set(gates)
    ages: dict[str, list[str]] = {name: [CURRENT, OFF] for name in COMPONENTS}
    ages["apiserver"].append(OLDER)
    if TOLERATION_COMPARISON in wanted:
        ages["apiserver"].append(f"{OLDER}=1.35")
    if TOLERATION_CEL in wanted:
        for name in COMPONENTS[1:]:
            ages[name].append(OLDER)
    if every:
        return [
            dict(zip(COMPONENTS, row, strict=True)) for row in product(*(ages[name] for name in COMPONENTS))
        ]
    new = dict.fromkeys(COMPONENTS, CURRENT)
    rows = [new]
    rows += [{**new, name: age} for name in COMPONENTS for age in ages[name][1:]]
    order = ("kubelet", "controllers", "scheduler", "apiserver")
    rows += [{name: CURRENT if name in order[:n] else OFF for name in COMPONENTS} for n in range(3)]
    return list({tuple(row.items()): row for row in rows}.values())


def component_gates(row: Mapping[str, str], gates: Iterable[str]) -> ComponentGates:
    """Return the gates of a row's components."""
    off = ALL_FEATURES.replace(dict.fromkeys(gates, False))
    older = frozenset(
        f"{name}{age.removeprefix(OLDER)}" for name, age in row.items() if age.startswith(OLDER)
    )
    found = {name: off if row[name] == OFF else ALL_FEATURES for name in COMPONENTS}
    return replace(ComponentGates.of(found), older=older)


def skew(
    document: Document, nodes: Sequence[NodeShape] = (), *, every: bool = False, seed: int = 0
) -> Matrix:
    """Return the matrix of a Pod or workload; raises SkewError for what cannot be judged."""
    template = find_template(document)
    if template is None or not isinstance(template.get("spec"), dict):
        raise SkewError(
            f"{document.get('kind') or 'the document'} has no pod template: give a Pod or a workload"
        )
    name = (document.get("metadata") or {}).get("name") or "pod"
    pod: Document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "before", "labels": (template.get("metadata") or {}).get("labels") or {}},
        "spec": copy.deepcopy(template["spec"]),
    }
    gates = tuple(sorted(needed_gates([pod])))
    if not gates:
        raise SkewError(
            f"{document['kind']}/{name} needs none of the KEPs' features: every mix treats it alike"
        )
    shapes = list(nodes) or nodes_for(pod)
    may_use = _run_with_everything_on(pod, shapes, seed)
    rows = [
        Row(row, _simulate_row(pod, shapes, component_gates(row, gates), may_use, seed))
        for row in component_sets(gates, every=every)
    ]
    return Matrix(f"{document['kind']}/{name}", gates, tuple(shape.name for shape in shapes), tuple(rows))


def _cluster(shapes: Sequence[NodeShape], seed: int, gates: ComponentGates | None = None) -> Cluster:
    cluster = Cluster(seed=seed, gates=gates, controllers=("taint-eviction", "node-lifecycle"))
    for shape in shapes:
        cluster.add_node(shape.name, taints=shape.taints, labels=dict(shape.labels))
    cluster.advance(5)
    return cluster


def _run_with_everything_on(pod: Document, shapes: Sequence[NodeShape], seed: int) -> frozenset[str]:
    """Return the nodes that the pod may use when every component knows everything; raises SkewError for none."""
    with _cluster(shapes, seed) as cluster:
        try:
            cluster.create(pod)
        except ApiError as error:
            raise SkewError(
                f"the API server refuses it even with every feature on: {error.message}"
            ) from None
        cluster.advance(PLACE_SECONDS)
        answer = cluster.explain("before")
        found = cluster.get("Pod", "before") or {}
    if (found.get("status") or {}).get("phase") not in ("Running", "Succeeded"):
        conditions = (found.get("status") or {}).get("conditions") or ()
        why = next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
        raise SkewError(f"it does not run even with every feature on: {why or 'no node takes it'}")
    return frozenset(each.node for each in answer.nodes if not each.reasons)


def _simulate_row(
    pod: Document, shapes: Sequence[NodeShape], gates: ComponentGates, may_use: frozenset[str], seed: int
) -> dict[str, Cell]:
    with _cluster(shapes, seed) as cluster:
        cluster.create(pod)
        cluster.advance(PLACE_SECONDS)
        cluster.set_gates(gates)
        cluster.advance(KEEP_SECONDS)
        kept = _existing_pod_cell(cluster.get("Pod", "before"))
        cells = dict(_new_pod_cells(cluster, pod, may_use))
    return {**{name: cells.get(name, Cell(None)) for name in COLUMNS[:3]}, "kept": kept}


def _existing_pod_cell(found: Document | None) -> Cell:
    if (
        found is not None
        and not found["metadata"].get("deletionTimestamp")
        and found["status"]["phase"] == "Running"
    ):
        return Cell(True)
    return Cell(False, "evicted", "a pod that ran well is evicted as soon as this component starts")


def _new_pod_cells(cluster: Cluster, pod: Document, may_use: frozenset[str]) -> Iterator[tuple[str, Cell]]:
    try:
        cluster.create({**pod, "metadata": {**pod["metadata"], "name": "anew"}})
    except ApiError as error:
        text = error.message.partition("is invalid: ")[2] or error.message
        yield (
            "accepted",
            Cell(False, text, "controllers ask for pods of stored templates again and again, in vain"),
        )
        return
    yield "accepted", Cell(True)
    cluster.advance(PLACE_SECONDS)
    found = cluster.get("Pod", "anew")
    status = (found or {}).get("status") or {}
    node = ((found or {}).get("spec") or {}).get("nodeName", "")
    if found is None:
        yield "scheduled", Cell(True)
        yield (
            "admitted",
            Cell(False, "evicted", "it was bound and evicted at once; its controller makes the next"),
        )
        return
    if not node:
        conditions = status.get("conditions") or ()
        why = next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
        yield "scheduled", Cell(False, why.partition(". ")[0] or "pending")
        return
    wrong = "" if node in may_use else f"it lands on {node}, whose taints it does not tolerate"
    yield "scheduled", Cell(True, node if wrong else "", wrong)
    if status.get("phase") == "Failed":
        reason = status.get("reason") or status.get("message") or "rejected"
        yield (
            "admitted",
            Cell(False, reason, "it was bound and then rejected; its controller makes the next, for ever"),
        )
    else:
        yield "admitted", Cell(True)


def check_taints(texts: Iterable[str]) -> NodeShape:
    """Return a node with the taints that were named; raises what weir.taints.notation raises."""
    found = tuple(texts)
    for text in found:
        parse_taint(text)
    return NodeShape("node", found)
