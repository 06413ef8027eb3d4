"""Places all replicas of a workload one after the other with the scheduler's engine, on a copy.

Spec: core.md 3 (placing), apps/v1 RollingUpdate, core/v1 ResourceQuota. Each placed replica takes its resources,
ports, devices and share of spread constraints before the next. Quota limits creation. A running workload is rolled
over: a Deployment within maxSurge and maxUnavailable; a StatefulSet from the highest ordinal down to the partition; a
DaemonSet node by node, deleting first unless it may surge. Placed pods are assumed to become ready; a DaemonSet's
pods are assumed to be deleted on all nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weir.explain.admission import Admission, Admitted
from weir.explain.devices import born
from weir.explain.engine import Engines
from weir.explain.storage import made_claims
from weir.explain.subject import Subject
from weir.explain.verdict import NodeVerdict
from weir.explain.words import node_sentence
from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.kinds import PODS, RESOURCE_QUOTAS
from weir.objects.pod_resources import read_amounts
from weir.objects.quota_usage import in_scope, usage_of
from weir.scheduler.cycle import Engine
from weir.scheduler.framework import Diagnosis, NoNodes, PluginError
from weir.values.quantity import parse_quantity
from weir.world import World

_REPLICATED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
#: Filters by which the DaemonSet controller chooses its nodes; what else refuses keeps a pod waiting.
_CHOOSING: Final = frozenset({"NodeName", "TaintToleration", "NodeAffinity"})
_ZERO: Final = parse_quantity("0")


@dataclass(frozen=True)
class Replicas:
    """How many pods a workload wants, and how many of them run."""

    wanted: int
    running: int  #: that run already, of a workload that is in the cluster
    placed: int  #: that would be placed
    why_not: str = ""  #: why the next one is not
    rolled_over: bool = False  #: whether running pods are replaced by new ones

    @property
    def missing(self) -> int:
        """How many of the wanted pods would not run."""
        return max(0, self.wanted - self.running - self.placed)

    @property
    def short(self) -> bool:
        return self.missing > 0

    def line(self) -> str:
        """Return the answer for all replicas, one line."""
        total = f"{self.running + self.placed:,} of {self.wanted:,}"
        if self.rolled_over:
            done = f"{self.placed:,} of {self.wanted:,}"
            return f"{done} pods would be replaced" + (
                f"; the next one fails: {self.why_not}" if self.short else ""
            )
        also = f" ({self.running:,} already do)" if self.running else ""
        return f"{total} would run{also}" + (f"; the next one fails: {self.why_not}" if self.short else "")


def wanted_replicas(document: Mapping[str, Any], kind: str) -> int:
    """Return how many pods *document* wants at once; 1 where it does not say.

    >>> wanted_replicas({"spec": {"parallelism": 5, "completions": 3}}, "Job")
    3
    """
    spec = document.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    if kind == "CronJob":
        return wanted_replicas(spec.get("jobTemplate") or {}, "Job")
    if kind == "Job":
        most = [n for n in (spec.get("parallelism"), spec.get("completions")) if isinstance(n, int)]
        return max(min(most, default=1), 0)
    replicas = spec.get("replicas")
    return replicas if kind in _REPLICATED and isinstance(replicas, int) else 1


def place_replicas(
    subject: Subject, admitted: Admitted, world: World, gates: Gates, *, fits: bool = True
) -> Replicas | None:
    """Return how many replicas of a workload would run, or None for what has one pod, or one for each node.

    *fits* says that one more pod fits now; where none does, only a rolling update may still go on.
    """
    wanted = wanted_replicas(subject.document, subject.kind)
    if subject.kind in ("Pod", "PodTemplate", "DaemonSet"):
        return None
    there = list(owned_pods(subject, world))
    running = [pod for pod in there if pod.spec.node_name]
    in_cluster = subject.stored or subject.in_cluster
    if wanted <= 1 and not running:
        return None
    rolls = bool(running) and not in_cluster and _rolls(subject)
    if not fits and not rolls:
        return None
    waiting = [pod for pod in there if not pod.spec.node_name]
    rows = _Rows(subject, admitted, world.overlay(without=waiting), gates)
    if in_cluster:
        return rows.fill(wanted, len(running))
    if rolls and subject.kind == "StatefulSet":
        return rows.roll_down(wanted, running)
    if rolls:
        return rows.roll_over(wanted, running)
    return rows.fill(wanted, 0)


def places_all(subject: Subject, admitted: Admitted, world: World, gates: Gates) -> bool:
    """Return whether nodes take all replicas of a workload that has no pods in *world*, quotas left aside."""
    wanted = wanted_replicas(subject.document, subject.kind)
    return _Rows(subject, admitted, world, gates).fill(wanted, 0, quotas=False).placed >= wanted


def place_daemons(
    subject: Subject, admitted: Admitted, verdicts: Sequence[NodeVerdict], world: World, gates: Gates
) -> Replicas:
    """Return on how many of the nodes that a DaemonSet is for its pod runs, or would be placed or replaced."""
    old = [pod for pod in owned_pods(subject, world) if pod.spec.node_name]
    there = {pod.spec.node_name for pod in old}
    if old and not (subject.stored or subject.in_cluster) and _rolls(subject):
        if not _share(_rolling_update(subject.document).get("maxSurge", 0), len(there), up=True):
            world = world.overlay(without=old)
            judge = Engines(world)(admitted.pod, world, gates)
            verdicts = [judge(node) for node in world.nodes.values()]
        meant = [each for each in verdicts if not any(reason.plugin in _CHOOSING for reason in each.reasons)]
        kept_out = next((each for each in meant if not each.fits), None)
        why = f"on {kept_out.node}, {node_sentence(kept_out)}" if kept_out is not None else ""
        return Replicas(len(meant), 0, sum(each.fits for each in meant), why, rolled_over=True)
    meant = [
        verdict
        for verdict in verdicts
        if verdict.node in there or not any(reason.plugin in _CHOOSING for reason in verdict.reasons)
    ]
    missing = [verdict for verdict in meant if verdict.node not in there]
    placed = sum(verdict.fits for verdict in missing)
    kept_out = next((verdict for verdict in missing if not verdict.fits), None)
    why = f"on {kept_out.node}, {node_sentence(kept_out)}" if kept_out is not None else ""
    return Replicas(len(meant), len(meant) - len(missing), placed, why)


def owned_pods(subject: Subject, world: World) -> Iterator[Pod]:
    """Return the pods that the workload of this name has in *world*, those that ended left out."""
    return map(world.pods.__getitem__, owned_keys(subject, world))


def owned_keys(subject: Subject, world: World) -> Iterator[str]:
    """Return the keys of the same pods, without reading them."""
    owners = [(subject.kind, subject.name)]
    if subject.kind == "Deployment":
        owners += (("ReplicaSet", name) for name in world.replica_sets_of(subject.namespace, subject.name))
    return world.pod_keys_of(subject.namespace, owners)


class _Rows:
    """The cluster while replicas are placed in it."""

    def __init__(self, subject: Subject, admitted: Admitted, world: World, gates: Gates) -> None:
        self._subject, self._pod, self._world, self._gates = subject, admitted.pod, world, gates
        self._admitted = admitted
        self._engines = Engines(world)
        self._engine: Engine = self._engines.engine(self._pod, gates)
        self._nominated = self._engines.nominated(self._pod, self._engine)
        self._made = 0
        self.why_not = ""

    def fill(self, wanted: int, running: int, *, quotas: bool = True) -> Replicas:
        """Place what is missing."""
        room, refusal = self._quota_room() if quotas else (wanted, "")
        placed = 0
        while running + placed < wanted:
            if placed >= room:
                self.why_not = refusal
                break
            if not self._place_one():
                break
            placed += 1
        return Replicas(wanted, running, placed, self.why_not)

    def roll_over(self, wanted: int, old: list[Pod]) -> Replicas:
        """Replace the pods that run, as a rolling update does."""
        surge, unavailable = _rolling(self._subject.document, wanted)
        room, refusal = self._quota_room()
        left, placed = list(old), 0
        while placed < wanted:
            before = (len(left), placed)
            while len(left) + placed < wanted + surge and placed < wanted:
                if len(left) + placed - len(old) >= room:
                    self.why_not = refusal
                    break
                if not self._place_one():
                    break
                placed += 1
            for _ in range(min(len(left), len(left) + placed - (wanted - unavailable))):
                self._engine.table.remove_pod(left.pop().key)
            if (len(left), placed) == before:
                break
        return Replicas(wanted, 0, placed, self.why_not if placed < wanted else "", rolled_over=True)

    def roll_down(self, wanted: int, old: list[Pod]) -> Replicas:
        """Replace the pods of a StatefulSet that run: missing ones first, then from the highest number down."""
        spec = self._subject.document.get("spec") or {}
        rolling, start = _rolling_update(self._subject.document), _number(spec.get("ordinals"), "start")
        by_number = {_ordinal(pod): pod for pod in old}
        kept = [number for number in by_number if number < start + _number(rolling, "partition")]
        numbers = range(start, start + wanted)
        placed = sum(number in numbers for number in kept)  # left as they are
        missing = [number for number in numbers if number not in by_number]
        outdated = [number for number in reversed(numbers) if number in by_number and number not in kept]
        room, refusal = self._quota_room()
        for made, number in enumerate(missing):
            if made >= room:
                self.why_not = refusal
            if made >= room or not self._place_one(number):
                return Replicas(wanted, 0, placed, self.why_not, rolled_over=True)
            placed += 1
        for number in by_number.keys() - set(numbers):
            self._engine.table.remove_pod(by_number[number].key)
        for number in outdated:
            self._engine.table.remove_pod(by_number[number].key)
            if not self._place_one(number):
                break
            placed += 1
        return Replicas(wanted, 0, placed, self.why_not if placed < wanted else "", rolled_over=True)

    def _place_one(self, number: int | None = None) -> bool:
        """Place the next pod, or of a StatefulSet the one with this *number*."""
        self._made = self._made + 1 if number is None else number + 1
        pod = self._next()
        try:
            answer = self._engine.place(pod, self._nominated)
        except (NoNodes, PluginError) as error:
            self.why_not = str(error)
            return False
        except OverflowError:
            self.why_not = "it asks for more than any node has"
            return False
        if isinstance(answer, Diagnosis):
            self.why_not = answer.message
            return False
        self._engine.assume(pod.key, pod, answer.node)
        if answer.reserves:
            self._engine.reserve(pod, answer.node)
        return True

    def _next(self) -> Pod:
        name = f"{self._pod.metadata.name}-{self._made - 1}"
        metadata = msgspec.structs.replace(self._pod.metadata, name=name, uid=f"{name} to be created")
        pod = msgspec.structs.replace(self._pod, metadata=metadata)
        if self._subject.kind == "StatefulSet":
            pod = self._with_own_claims(pod)
        claims = self._engines.claims(self._gates)
        return pod if claims is None or not pod.spec.resource_claims else born(pod, self._world, claims)

    def _with_own_claims(self, pod: Pod) -> Pod:
        """Return a pod of a StatefulSet with the claims of its own number, which are made."""
        templates = self._subject.claim_templates(self._made - 1)
        if not templates:
            return pod
        first = list(self._subject.claim_templates(0))
        names = dict(zip(first, templates, strict=True))
        volumes = tuple(
            msgspec.structs.replace(
                volume,
                persistent_volume_claim=msgspec.structs.replace(
                    volume.persistent_volume_claim,
                    claim_name=names[volume.persistent_volume_claim.claim_name],
                ),
            )
            if volume.persistent_volume_claim is not None
            and volume.persistent_volume_claim.claim_name in names
            else volume
            for volume in pod.spec.volumes or ()
        )
        storage = self._engines.storage()
        for claim in made_claims(pod, templates, self._world):
            storage.put("claims", None, claim)
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, volumes=volumes))

    def _quota_room(self) -> tuple[int, str]:
        """Return how many such pods the namespace's quotas leave room for, and what is said about one more."""
        room, message = 10**9, ""
        document = dict(self._admitted.document)
        reader = Admission(self._world, self._gates).reader
        quotas = reader.list_now(RESOURCE_QUOTAS, self._subject.namespace)
        if not quotas or not document:
            return room, message
        usage = usage_of(PODS, document)
        pods = [
            msgspec.to_builtins(pod)
            for pod in self._world.pods_like(
                lambda pod: (pod.metadata.namespace or "default") == self._subject.namespace
            )
        ]
        for quota in quotas:
            if not in_scope(quota, PODS, document):
                continue
            for name, hard in sorted(read_amounts((quota.get("spec") or {}).get("hard")).items()):
                each = usage.get(name)
                if each is None or each.sign <= 0:
                    continue
                used = _ZERO
                for pod in pods:
                    if in_scope(quota, PODS, pod):
                        used = used + usage_of(PODS, pod).get(name, _ZERO)
                left = max(int(((hard - used).as_float() + 1e-9) // each.as_float()), 0)
                if left < room:
                    quota_name = (quota.get("metadata") or {}).get("name")
                    room = left
                    message = (
                        f"exceeded quota: {quota_name}, requested: {name}={each}, limited: {name}={hard}"
                    )
        return room, message


def _rolls(subject: Subject) -> bool:
    """Return whether pods that run are replaced by themselves when the template changes."""
    if subject.kind == "Deployment":
        return True
    strategy = (subject.document.get("spec") or {}).get("updateStrategy") or {}
    return subject.kind in ("StatefulSet", "DaemonSet") and strategy.get("type") != "OnDelete"


def _rolling_update(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a StatefulSet or a DaemonSet says about its rolling update."""
    strategy = (document.get("spec") or {}).get("updateStrategy") or {}
    settings = strategy.get("rollingUpdate")
    return settings if isinstance(settings, dict) else {}


def _number(part: Any, name: str) -> int:
    number = part.get(name) if isinstance(part, dict) else None
    return number if isinstance(number, int) else 0


def _ordinal(pod: Pod) -> int:
    """Return the number of a StatefulSet's pod; -1 for a name without one."""
    number = pod.metadata.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _rolling(document: Mapping[str, Any], wanted: int) -> tuple[int, int]:
    """Return how many pods a rolling update may have too many, and how many too few."""
    strategy = (document.get("spec") or {}).get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return 0, wanted
    rolling = strategy.get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def _share(value: Any, total: int, *, up: bool) -> int:
    """Return a number or a share of *total*.

    >>> _share("25%", 10, up=True), _share("25%", 10, up=False), _share(2, 10, up=True)
    (3, 2, 2)
    """
    if isinstance(value, int):
        return value
    text = str(value).removesuffix("%")
    percent = int(text) if text.isdigit() else 0
    return -(-percent * total // 100) if up else percent * total // 100
