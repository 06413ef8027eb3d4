"""Admission of a manifest without a server: the pod as it would be stored, or its rejection.

Spec: core.md 7 (admission plugins), apiserver.md 5 "Defaulting and admission".
Runs the server's own defaulting, plugins and strategy on the World: LimitRange, priorities, service account, default
tolerations, RuntimeClass, host ports of hostNetwork, quota. If a snapshot has no classes or accounts, their plugin is
skipped and the result names the unknown. Only documents from files are fully validated: a program may ask about a
fragment of a pod. Webhooks and policies are not called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from weir.apiserver.admission.attributes import CREATE, Attributes
from weir.apiserver.admission.chain import Chain, Settings
from weir.apiserver.auth.authn import User
from weir.apiserver.strategies.core.pod import PodStrategy
from weir.errors import ApiError, BadRequest, DecodeError
from weir.explain.subject import Subject
from weir.fields.documents import document_version, validate_shape
from weir.fields.field import FieldError
from weir.gates import Gates
from weir.lowering.originals import with_expressions
from weir.objects import defaults
from weir.objects.core import Pod, ViewError, read
from weir.objects.document import check
from weir.objects.kind import Kind
from weir.objects.kinds import PODS, PRIORITY_CLASSES, find_kind
from weir.taints.operators import find_comparison
from weir.validate import validate, validate_served
from weir.world import World

#: The parts of a pod spec that decide where it runs; of a fragment only these are judged.
_PLACEMENT: Final = (
    "tolerations",
    "affinity",
    "nodeSelector",
    "nodeName",
    "schedulingGates",
    "overhead",
    "resources",
)
_SYSTEM_CLASSES: Final[Mapping[str, Mapping[str, Any]]] = {
    name: {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"}
    for name, value in (("system-cluster-critical", 2000000000), ("system-node-critical", 2000001000))
}
_ASKER: Final = User("weir:explain")
_NOW: Final = "1970-01-01T00:00:00Z"


@dataclass(frozen=True)
class Admitted:
    """A pod on its way into the cluster."""

    pod: Pod  #: as it would be stored; as far as it came, when it is refused
    document: Mapping[str, Any] = field(default_factory=dict)
    refused: tuple[str, ...] = ()  #: what the API server says against it
    unknown: tuple[str, ...] = ()  #: what admission would read and the world does not hold


class Admission:
    """The API server's view of new pods in one world."""

    def __init__(self, world: World, gates: Gates) -> None:
        self._world, self._gates = world, gates
        self.reader = WorldReader(world)
        self._chains: dict[frozenset[str], Chain] = {}

    def admit(self, subject: Subject, *, quota: bool = True) -> Admitted:
        """Return the pod that *subject* asks for as it would be stored, and what is said against it."""
        plain = subject.pod()
        if subject.stored and subject.kind == "Pod":
            return Admitted(plain)
        problems = [*refused_fields(subject, self._gates)]
        document = subject.pod_document()
        try:
            document, _ = check(deepcopy(document), PODS)
        except (DecodeError, BadRequest):  # a fragment that no server could read: judged as it is
            return Admitted(plain, document, tuple(problems))
        document.setdefault("spec", {})
        unknown, absent = [], set()
        for plugin, text in self._not_known(document):
            absent.add(plugin)
            unknown += [text] if text else []
        if not quota:
            absent.add("ResourceQuota")
        chain = self._chain(frozenset(absent))
        metadata = document.setdefault("metadata", {})
        defaults.default(document, PODS)
        attributes = Attributes(
            CREATE,
            PODS,
            namespace=str(metadata.get("namespace") or "default"),
            name=str(metadata.get("name") or ""),
            object=document,
            user=_ASKER,
            dry_run=True,
        )
        try:
            chain.mutate(attributes)
            PodStrategy().prepare_create(PODS, document, self)
            if subject.strict and not problems:
                problems += map(str, validate_served(document, None, PODS, self._gates))
            chain.validate(attributes)
        except ApiError as error:
            problems.append(error.message)
        try:
            pod = read(Pod, document)
        except ViewError:
            pod = plain
        return Admitted(pod, document, tuple(problems), tuple(unknown))

    # ── what a strategy asks ──

    @property
    def now(self) -> str:
        return _NOW

    @property
    def gates(self) -> Gates:
        return self._gates

    def documents(self, kind: Kind) -> list[dict[str, Any]]:
        return [dict(each) for each in self.reader.list_now(kind, None)]

    # ── available plugins ──

    def _chain(self, absent: frozenset[str]) -> Chain:
        if absent not in self._chains:
            self._chains[absent] = Chain.build(
                self.reader, Settings(disable=absent), new_suffix=lambda: "00000"
            )
        return self._chains[absent]

    def _not_known(self, document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the plugins that cannot be asked in this world, and what is therefore not known."""
        world, spec = self._world, document.get("spec") or {}
        namespace = (document.get("metadata") or {}).get("namespace") or "default"
        if not self._whole("Namespace", "default"):
            yield "NamespaceLifecycle", ""
        if not self._whole("ServiceAccount", f"{namespace}/default"):
            yield "ServiceAccount", ""
        name, classes = spec.get("priorityClassName"), world.documents.get("PriorityClass", {})
        if (
            name
            and name not in {*_SYSTEM_CLASSES, *classes}
            and not self._whole("PriorityClass", *_SYSTEM_CLASSES)
        ):
            yield "Priority", f"the priority of PriorityClass {name} (no PriorityClasses in the snapshot)"
        name = spec.get("runtimeClassName")
        collected = world.knows("RuntimeClass", "ResourceQuota", "LimitRange") or self._whole(
            "PriorityClass", *_SYSTEM_CLASSES
        )
        if name and name not in world.documents.get("RuntimeClass", {}) and not collected:
            yield (
                "RuntimeClass",
                f"what RuntimeClass {name} adds to the pod (no RuntimeClasses in the snapshot)",
            )

    def _whole(self, kind: str, *always: str) -> bool:
        """Return whether every object of *kind* is in the world: it was listed, or has what every cluster has."""
        there = self._world.documents.get(kind, {})
        return kind in self._world.listed or any(name in there for name in always)


def refused_fields(subject: Subject, gates: Gates) -> Iterator[str]:
    """Yield what the API server says against the document itself: the workload's, not the pod's."""
    document = subject.document
    if subject.stored:
        return
    if subject.strict:
        yield from _undecodable(document)
    errors = validate(with_expressions(document), gates=gates)
    for error in errors:
        if subject.strict or _concerns_placement(subject, error):
            yield f"{error}{_gate_off(error, gates)}"


def _gate_off(error: FieldError, gates: Gates) -> str:
    """Return that an operator is refused because of its feature gate, which the API server's words do not say."""
    comparison = find_comparison(str(error.value)) if error.field.endswith(".operator") else None
    if comparison is None:
        return ""
    gate = comparison.affinity_gate if ".matchExpressions" in error.field else comparison.gate
    return f" (the feature gate {gate} is off)" if gate and not gates.enabled(gate) else ""


def _undecodable(document: dict[str, Any]) -> Iterator[str]:
    """Yield what strict decoding says: unknown fields; wrong types are named by validation, with their place."""
    kind = find_kind(document_version(document), str(document.get("kind") or ""))
    if kind is None or any(validate_shape(document)):
        return
    try:
        _, warnings = check(document, kind)
    except (DecodeError, BadRequest) as error:
        yield str(error)
        return
    for warning in warnings:
        yield f"strict decoding error: {warning}"


def _concerns_placement(subject: Subject, error: FieldError) -> bool:
    prefix = ".".join((*subject.path, "spec")) + "."
    place = error.field.removeprefix(prefix)
    parts = place.replace("[", ".").split(".")
    concerns = parts[0] in _PLACEMENT or (parts[0].endswith("ontainers") and "resources" in parts)
    return concerns and place != error.field


class WorldReader:
    """How admission plugins see the objects of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def get_now(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        documents = self._world.documents.get(kind.kind, {})
        stored = documents.get(f"{namespace}/{name}" if kind.namespaced else name)
        if stored is None and kind is PRIORITY_CLASSES:
            return _SYSTEM_CLASSES.get(name)
        return stored

    def list_now(self, kind: Kind, namespace: str | None) -> list[Mapping[str, Any]]:
        documents = self._world.documents.get(kind.kind, {})
        if namespace is None:
            return list(documents.values())
        return [each for key, each in documents.items() if key.rpartition("/")[0] == namespace]

    def version(self, kind: Kind) -> int:
        return 0

    def follow(
        self, kind: Kind, namespace: str, changed: Callable[[str, Mapping[str, Any] | None], None]
    ) -> _Settled:
        if kind is PODS:
            for pod in self._world.pods_like(lambda pod: (pod.metadata.namespace or "default") == namespace):
                changed(pod.metadata.name, msgspec.to_builtins(pod))
        return _Settled()


class _Settled:
    """Nothing changes in a world."""

    def __bool__(self) -> bool:
        return True

    def stop(self) -> None:
        pass
