"""What rules check: one object, and facts of the whole run.

A subject has the tolerations, node requirements and taints of one object with their paths; entries that cannot be
decoded are left out, because W001 reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from weir.compat.customresources.definition import CustomKind, CustomKinds
from weir.fields.documents import document_version, is_known_kind
from weir.gates import Gates
from weir.lint.live import Troubles
from weir.lowering.originals import with_expression
from weir.objects.core import NodeSelectorRequirement, Taint, Toleration, View, ViewError, read
from weir.objects.envelope import mapping
from weir.objects.manifest import Document
from weir.objects.templates import TEMPLATE_PATHS, find_template

if TYPE_CHECKING:
    from weir.compat.policies.files import PolicyFiles

V = TypeVar("V", bound=View)
#: Tolerations of one object that rules look at: some compare each with all others, and with every taint.
MOST_TOLERATIONS: Final = 500
Path = tuple[str | int, ...]  #: keys and positions that lead to a field


@dataclass(frozen=True)
class Subject:
    """One object to check, with its document for places, and the kinds that definitions of the run make."""

    document: Document
    custom_kinds: CustomKinds = field(default_factory=dict)

    @property
    def value(self) -> Any:
        return self.document.value

    @cached_property
    def kind(self) -> str:
        kind = self.value.get("kind") if isinstance(self.value, dict) else None
        return kind if isinstance(kind, str) else ""

    @cached_property
    def api_version(self) -> str:
        """The version it names, or the first that has its kind."""
        if not isinstance(self.value, dict) or not isinstance(self.value.get("apiVersion"), str | None):
            return ""
        return document_version(self.value) if self.kind else str(self.value.get("apiVersion") or "")

    @cached_property
    def is_checked(self) -> bool:
        """Whether weir knows the kind, so that every field was looked at."""
        return self.custom_kind is not None or is_known_kind(self.api_version, self.kind)

    @cached_property
    def custom_kind(self) -> CustomKind | None:
        """What a CustomResourceDefinition of the run says about it."""
        return self.custom_kinds.get((self.api_version, self.kind))

    @property
    def is_written(self) -> bool:
        """Whether it stands in a text, and was not read from a cluster."""
        return bool(self.document.lines)

    def written(self, path: Path) -> str:
        """Return how the scalar at *path* is written in the text, or "" when there is none."""
        place, width = self.document.place_of(path), self.document.width_of(path)
        lines = self.document.lines
        line = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
        return line[place.column - 1 : place.column - 1 + width]

    @cached_property
    def name(self) -> str:
        metadata = mapping(mapping(self.value).get("metadata"))
        name = metadata.get("name") or metadata.get("generateName") or "(no name)"
        if not isinstance(name, str):
            name = self.written(("metadata", "name"))  # `y`, not True
        namespace = metadata.get("namespace")
        return f"{self.kind or 'object'} {f'{namespace}/' if namespace else ''}{name}"

    @cached_property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name, as a live cluster names it."""
        metadata = mapping(mapping(self.value).get("metadata"))
        return self.kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")

    @cached_property
    def owns_pods(self) -> bool:
        """Whether a controller creates pods from this object, and would keep trying."""
        return self.kind in TEMPLATE_PATHS and self.kind not in ("Pod", "PodTemplate")

    @cached_property
    def pod_spec_path(self) -> Path | None:
        """The path of the pod spec inside this object, or None when it describes no pods."""
        if find_template(self.value) is None:
            return None
        return (*TEMPLATE_PATHS[self.kind], "spec")

    @cached_property
    def _pod_spec(self) -> Mapping[str, Any]:
        return mapping(mapping(find_template(self.value)).get("spec"))

    @cached_property
    def tolerations(self) -> list[tuple[Path, Toleration]]:
        """The readable tolerations with their paths, the first `MOST_TOLERATIONS`."""
        if self.pod_spec_path is None:
            return []
        entries = self._pod_spec.get("tolerations")
        if isinstance(entries, list):
            entries = [with_expression(each) for each in entries[:MOST_TOLERATIONS]]
        return list(_read_list(Toleration, entries, (*self.pod_spec_path, "tolerations")))

    @property
    def toleration_count(self) -> int:
        """How many tolerations are written."""
        entries = self._pod_spec.get("tolerations")
        return len(entries) if isinstance(entries, list) else 0

    def written_path(self, path: Path) -> Path:
        """Return where *path* stands in the text: an expression may be spelt as the value of `operator: CEL`."""
        if path[-1:] != ("expression",):
            return path
        entry: Any = self.value
        for part in path[:-1]:
            try:
                entry = entry[part]
            except (KeyError, IndexError, TypeError):
                return path
        return (*path[:-1], "value") if with_expression(entry) is not entry else path

    @cached_property
    def taints(self) -> list[tuple[Path, Taint]]:
        """A Node's readable taints with their paths."""
        if self.kind != "Node":
            return []
        entries = mapping(mapping(self.value).get("spec")).get("taints")
        return list(_read_list(Taint, entries, ("spec", "taints")))

    @cached_property
    def requirements(self) -> list[tuple[Path, NodeSelectorRequirement]]:
        """Every matchExpressions requirement of node affinity, of pods and of volumes, with its path."""
        requirements: list[tuple[Path, NodeSelectorRequirement]] = []
        for path, term in self._terms():
            entries = mapping(term).get("matchExpressions")
            requirements += _read_list(NodeSelectorRequirement, entries, (*path, "matchExpressions"))
        return requirements

    def _terms(self) -> Iterator[tuple[Path, Any]]:
        required, preferred = (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        )
        if self.pod_spec_path is not None:
            path: Path = (*self.pod_spec_path, "affinity", "nodeAffinity")
            affinity = mapping(mapping(self._pod_spec.get("affinity")).get("nodeAffinity"))
            terms = mapping(affinity.get(required)).get("nodeSelectorTerms")
            yield from _enumerate(terms, (*path, required, "nodeSelectorTerms"))
            for at, weighted in _enumerate(affinity.get(preferred), (*path, preferred)):
                yield (*at, "preference"), mapping(weighted).get("preference")
        elif self.kind == "PersistentVolume":
            affinity = mapping(mapping(mapping(self.value).get("spec")).get("nodeAffinity"))
            terms = mapping(affinity.get("required")).get("nodeSelectorTerms")
            yield from _enumerate(terms, ("spec", "nodeAffinity", "required", "nodeSelectorTerms"))


@dataclass(frozen=True)
class Facts:
    """What is known beyond one object: the nodes of the run, the gates, and what a live cluster tells."""

    gates: Gates
    taints: tuple[Taint, ...] = ()  #: distinct taints of all known nodes
    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)  #: label key → known values
    nodes: int = 0
    troubles: Troubles = field(default_factory=Troubles)  #: of a live cluster's workloads
    strict: bool = False  #: what was not checked is refused
    stock: bool = False  #: the objects are for a cluster that weir's operator extends
    policies: PolicyFiles | None = None  #: admission policies to judge objects by

    @classmethod
    def of(
        cls,
        subjects: Iterable[Subject],
        gates: Gates,
        troubles: Troubles | None = None,
        *,
        strict: bool = False,
        stock: bool = False,
        policies: PolicyFiles | None = None,
    ) -> Facts:
        """Return the facts that the Nodes among *subjects* tell, beside the *troubles* of a live cluster."""
        taints: dict[Taint, None] = {}
        labels: dict[str, set[str]] = {}
        nodes = 0
        for subject in subjects:
            if subject.kind != "Node":
                continue
            nodes += 1
            for _, taint in subject.taints:
                taints[Taint(taint.key, taint.value, taint.effect)] = None
            metadata = mapping(mapping(subject.value).get("metadata"))
            for key, value in mapping(metadata.get("labels")).items():
                if isinstance(value, str):
                    labels.setdefault(str(key), set()).add(value)
        values_of = {key: frozenset(values) for key, values in labels.items()}
        return cls(gates, tuple(taints), values_of, nodes, troubles or Troubles(), strict, stock, policies)

    @cached_property
    def values_by_key(self) -> Mapping[str, tuple[str, ...]]:
        """Taint key → the distinct values nodes give it, in order of appearance."""
        values: dict[str, dict[str, None]] = {}
        for taint in self.taints:
            values.setdefault(taint.key, {})[taint.value] = None
        return {key: tuple(distinct) for key, distinct in values.items()}

    def taints_for(self, toleration: Toleration) -> list[Taint]:
        """Return the known taints that *toleration* could be about: same key and effect."""
        return [
            taint
            for taint in self.taints
            if (not toleration.key or toleration.key == taint.key)
            and (not toleration.effect or toleration.effect == taint.effect)
        ]


def _enumerate(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    for index, item in enumerate(value if isinstance(value, list) else ()):
        yield (*path, index), item


def _read_list(view: type[V], entries: Any, path: Path) -> Iterator[tuple[Path, V]]:
    for at, entry in _enumerate(entries, path):
        try:
            yield at, read(view, entry)
        except ViewError:
            continue
