"""Would this node take this pod, and if not, why not?

Spec: core.md 3.7: NodeName, NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit,
NodeDeclaredFeatures and the bound volumes of VolumeBinding. Unlike the scheduler, which stops at the first refusing
filter, every filter is asked, because a person wants all the reasons at once. A pod that names its node skips the
scheduler: there the kubelet's admission decides (core.md 6), which looks at NoExecute taints only.
Cost: what is equal is judged once: a taint, a combination of the labels the pod asks about. A cluster of 5,000
nodes has few of either.
Not here: the answer for a whole cluster (weir.explain.pod).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from weir.explain.reasons import (
    Attempt,
    ClaimUnusable,
    Cordoned,
    Gated,
    OtherNode,
    PortTaken,
    Reason,
    TooFew,
    TooManyPods,
    UndeclaredFeatures,
    Unmet,
    UnmetAffinity,
    UnmetTerm,
    UntoleratedTaint,
    VolumeElsewhere,
    VolumeMissing,
    WrongLabel,
)
from weir.explain.verdict import NodeVerdict
from weir.gates import Gates
from weir.objects.core import Node, NodeSelector, PersistentVolumeClaim, Pod, Taint, Toleration
from weir.objects.requests import (
    PODS,
    Amounts,
    host_ports,
    node_allocatable,
    pod_requests,
    says_what_it_has,
    total_requests,
)
from weir.scheduler.plugins.node_declared_features import declared_features, required_features
from weir.scheduler.plugins.node_unschedulable import CORDONED
from weir.selectors.node import (
    NODE_NAME_FIELD,
    match_term,
    pod_selects_node,
    required_selector,
    volume_selects_node,
)
from weir.taints.eviction import Stay, stay
from weir.taints.toleration import BLOCKING, EVICTING, SCORING, Outcome, find_tolerating, tolerates
from weir.world import World

_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"


class Judge(Protocol):
    """Judges nodes for one pod in one world; another engine can stand in for the one here."""

    def __call__(self, node: Node) -> NodeVerdict: ...

    def blockers(self) -> tuple[Reason, ...]:
        """Return what keeps the pod off every node."""
        ...


#: Makes a Judge for a pod in a world.
JudgeFor = Callable[[Pod, World, Gates], Judge]


@dataclass
class Room:
    """What runs on each node of a world, added up when first asked."""

    world: World
    without: str = ""  #: the key of a pod that is not counted: the one being explained
    _used: dict[str, tuple[Amounts, int]] = field(default_factory=dict)

    def used(self, node: str) -> tuple[Amounts, int]:
        """Return what the pods on *node* ask for together, and how many they are."""
        if node not in self._used:
            pods = self.world.pods_on(node)
            if self.without:
                pods = tuple(pod for pod in pods if pod.key != self.without)
            resized = [pod for pod in pods if says_what_it_has(pod)]
            amounts = total_requests([pod for pod in pods if not says_what_it_has(pod)])
            for pod in resized:
                for name, amount in pod_requests(pod, set_aside=True).items():
                    amounts[name] = amounts.get(name, 0) + amount
            self._used[node] = (amounts, len(pods))
        return self._used[node]

    def ports(self, node: str) -> Iterator[tuple[tuple[str, str, int], str]]:
        """Yield the host ports in use on *node* with the pod that holds each."""
        for pod in self.world.pods_on(node):
            if pod.key != self.without:
                for port in host_ports(pod):
                    yield port, pod.key


class Filters:
    """The Judge that asks every filter about every node."""

    def __init__(self, pod: Pod, world: World, gates: Gates, room: Room | None = None) -> None:
        self._pod, self._world, self._gates = pod, world, gates
        self._room = room or Room(world)
        self._requests = dict(sorted(pod_requests(pod, set_aside=True).items(), key=_reported))
        self._ports = tuple(host_ports(pod))
        self._features = required_features(pod)
        self._volumes = tuple(_volumes(pod, world))
        self._keys, self._by_name = _labels_asked(pod, world)
        self._untolerated: dict[tuple[str, str, str], UntoleratedTaint | None] = {}
        self._on_labels: dict[tuple[str | None, ...], tuple[tuple[Reason, ...], tuple[Reason, ...]]] = {}
        self._stays: dict[tuple[tuple[str, str, str], ...], Stay] = {}
        self._passes_cordon = find_tolerating(pod.tolerations, CORDONED, gates) is not None

    def blockers(self) -> tuple[Reason, ...]:
        reasons: list[Reason] = []
        if held := tuple(gate.name for gate in self._pod.spec.scheduling_gates or ()):
            reasons.append(Gated(held))
        reasons += claim_problems(self._pod, self._world)
        return tuple(reasons)

    def __call__(self, node: Node) -> NodeVerdict:
        reasons: list[Reason] = []
        wanted = self._pod.spec.node_name
        if wanted and wanted != node.name:
            reasons.append(OtherNode(wanted))
        # A pod that names this node never meets the scheduler; the kubelet turns away by NoExecute alone.
        named = wanted == node.name
        blocking = EVICTING if named else BLOCKING
        if node.spec.unschedulable and not self._passes_cordon and not named:
            reasons.append(Cordoned())
        disliked: list[Taint] = []
        evicting: list[Taint] = []
        for taint in node.taints:
            refused = self._taint(taint)
            if refused and taint.effect in blocking:
                reasons.append(refused)
            elif refused and taint.effect in SCORING:
                disliked.append(taint)
            if taint.effect in EVICTING:
                evicting.append(taint)
        affinity, volumes = self._labels(node)
        reasons += affinity
        reasons += self._taken_ports(node)
        reasons += self._shortages(node)
        reasons += volumes
        if lacking := self._features - declared_features(node):
            reasons.append(UndeclaredFeatures(tuple(sorted(lacking))))
        return NodeVerdict(
            node.name,
            tuple(reasons),
            self._stay(evicting),
            tuple(disliked),
            self.preemption_may_help(node, reasons),
        )

    def preemption_may_help(self, node: Node, reasons: Sequence[Reason]) -> bool:
        """Return whether *reasons* are all of a kind that fewer pods would solve, and the pod outranks one there."""
        return bool(reasons) and all(reason.preemptible for reason in reasons) and self._outranks(node)

    def _outranks(self, node: Node) -> bool:
        """Return whether a pod on *node* has a lower priority, or might have: a class is not looked up."""
        spec = self._pod.spec
        if spec.priority is None and spec.priority_class_name:
            return bool(self._world.pods_on(node.name))
        return any((pod.spec.priority or 0) < (spec.priority or 0) for pod in self._world.pods_on(node.name))

    # ── taints ──

    def _taint(self, taint: Taint) -> UntoleratedTaint | None:
        """Return why *taint* is not tolerated, or None when it is; each distinct taint is judged once."""
        identity = (taint.key, taint.value, taint.effect)
        if identity not in self._untolerated:
            attempts = []
            for toleration in self._pod.tolerations:
                outcome = tolerates(toleration, taint, self._gates)
                if outcome:
                    self._untolerated[identity] = None
                    break
                attempts.append(_attempt(toleration, taint, outcome))
            else:
                bare = Taint(*identity)  # when it was added does not matter
                self._untolerated[identity] = UntoleratedTaint(bare, tuple(attempts))
        return self._untolerated[identity]

    def _stay(self, taints: list[Taint]) -> Stay:
        if not taints:
            return Stay(None)
        key = tuple((taint.key, taint.value, taint.effect) for taint in taints)
        if key not in self._stays:
            self._stays[key] = stay([Taint(*each) for each in key], self._pod.tolerations, self._gates)
        return self._stays[key]

    # ── labels ──

    def _labels(self, node: Node) -> tuple[tuple[Reason, ...], tuple[Reason, ...]]:
        """Return what the node's labels say to the pod's affinity and to its volumes."""
        if not self._keys and not self._by_name and required_selector(self._pod) is None:
            return (), self._lost_volumes()
        labels = node.labels
        key = (node.name if self._by_name else None, *(labels.get(key) for key in self._keys))
        if key not in self._on_labels:
            self._on_labels[key] = (
                tuple(self._affinity(node)),
                (*self._volume_affinity(node), *self._lost_volumes()),
            )
        return self._on_labels[key]

    def _affinity(self, node: Node) -> Iterator[Reason]:
        if pod_selects_node(self._pod, node.labels, node.name, self._gates):
            return
        for key, wanted in (self._pod.spec.node_selector or {}).items():
            if (found := node.labels.get(key)) != wanted:
                yield WrongLabel(key, wanted, found)
        required = required_selector(self._pod)
        if required is not None:
            terms = unmet_terms(required, node.labels, node.name, self._gates)
            if terms is not None:
                yield UnmetAffinity(terms)

    def _volume_affinity(self, node: Node) -> Iterator[Reason]:
        for claim, name in self._volumes:
            volume = self._world.volumes.get(name)
            if volume is None or volume_selects_node(volume, node.labels, self._gates):
                continue
            affinity = volume.spec.node_affinity
            required = affinity.required if affinity else None
            terms = unmet_terms(required, node.labels, None, self._gates) if required else None
            yield VolumeElsewhere(claim, name, terms or ())
            return  # the scheduler stops at the first, and one volume in the wrong place is enough

    def _lost_volumes(self) -> tuple[Reason, ...]:
        if not self._world.volumes:
            return ()
        return tuple(
            VolumeMissing(claim, name) for claim, name in self._volumes if name not in self._world.volumes
        )

    # ── room ──

    def _shortages(self, node: Node) -> Iterator[Reason]:
        allocatable = node_allocatable(node)
        if allocatable is None:  # the node does not say: not judged, and the answer says so
            return
        used, running = self._room.used(node.name)
        limit = allocatable.get(PODS)
        if limit is not None and running + 1 > limit:
            yield TooManyPods(limit, running)
        for resource, amount in self._requests.items():
            if amount > 0 and resource != PODS:
                total = allocatable.get(resource, 0)
                taken = used.get(resource, 0)
                if amount > total - taken:
                    yield TooFew(resource, amount, total, taken)

    def _taken_ports(self, node: Node) -> Iterator[Reason]:
        if not self._ports:
            return
        taken = list(self._room.ports(node.name))
        for ip, protocol, port in self._ports:
            for (other_ip, other_protocol, other_port), holder in taken:
                same_ip = ip == other_ip or "0.0.0.0" in (ip, other_ip)
                if same_ip and (protocol, port) == (other_protocol, other_port):
                    yield PortTaken(port, protocol, holder)
                    break


def _reported(item: tuple[str, int]) -> tuple[int, str]:
    """Order resources as the scheduler reports them: its own three first."""
    own = ("cpu", "memory", "ephemeral-storage")
    return (own.index(item[0]) if item[0] in own else len(own), item[0])


def _attempt(toleration: Toleration, taint: Taint, outcome: Outcome) -> Attempt:
    """Return how *toleration* met *taint*; an expression also says which part of it decided."""
    if outcome not in (Outcome.EXPRESSION_FALSE, Outcome.EXPRESSION_FAILED):
        return Attempt(toleration, outcome)
    from weir.taints.expression import decide

    judgement = decide(toleration.expression, taint)
    return Attempt(toleration, outcome, judgement.deciding, judgement.error)


# ── node selectors ───────────────────────────────────────────────────────────────────────────────


def unmet_terms(
    selector: NodeSelector, labels: Mapping[str, str], node_name: str | None, gates: Gates
) -> tuple[UnmetTerm, ...] | None:
    """Return what each term of *selector* lacks, or None when one of them selects the node."""
    found: list[UnmetTerm] = []
    for index, term in enumerate(selector.node_selector_terms or ()):
        expressions = len(term.match_expressions or ())
        unmet = []
        for position, (requirement, match) in enumerate(match_term(term, labels, node_name, gates)):
            if match:
                continue
            if position < expressions:
                value = labels.get(requirement.key)
                unmet.append(Unmet("matchExpressions", position, requirement, match, value))
            else:
                unmet.append(Unmet("matchFields", position - expressions, requirement, match, node_name))
        if not unmet and (term.match_expressions or term.match_fields):
            return None
        found.append(UnmetTerm(index, tuple(unmet)))
    return tuple(found)


def _labels_asked(pod: Pod, world: World) -> tuple[tuple[str, ...], bool]:
    """Return the label keys that decide for *pod* and its volumes, and whether node names do too."""
    selectors = []
    if required := required_selector(pod):
        selectors.append(required)
    for _, name in _volumes(pod, world):
        volume = world.volumes.get(name)
        if volume and volume.spec.node_affinity and volume.spec.node_affinity.required:
            selectors.append(volume.spec.node_affinity.required)
    keys = set(pod.spec.node_selector or ())
    by_name = False
    for selector in selectors:
        for term in selector.node_selector_terms or ():
            keys |= {requirement.key for requirement in term.match_expressions or ()}
            by_name |= any(r.key == NODE_NAME_FIELD for r in term.match_fields or ())
    return tuple(sorted(keys)), by_name


# ── claims ───────────────────────────────────────────────────────────────────────────────────────


def pod_claims(pod: Pod) -> Iterator[str]:
    """Yield the names of the PersistentVolumeClaims *pod* uses, in its own namespace."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"


def _claim(pod: Pod, name: str, world: World) -> PersistentVolumeClaim | None:
    return world.claims.get(f"{pod.metadata.namespace or 'default'}/{name}")


def is_bound(claim: PersistentVolumeClaim, world: World) -> bool:
    """Return whether *claim* has its volume; hand-written claims rarely carry the binder's annotation."""
    name = claim.spec.volume_name
    if not name:
        return False
    if _BIND_COMPLETED in (claim.metadata.annotations or {}) or claim.status.phase == "Bound":
        return True
    volume = world.volumes.get(name)
    reference = volume.spec.claim_ref if volume else None
    return reference is not None and (reference.namespace or "default", reference.name) == (
        claim.metadata.namespace or "default",
        claim.metadata.name,
    )


def _volumes(pod: Pod, world: World) -> Iterator[tuple[str, str]]:
    """Yield (claim, volume) for every claim of *pod* that is bound."""
    for name in pod_claims(pod):
        claim = _claim(pod, name, world)
        if claim is not None and is_bound(claim, world):
            yield name, claim.spec.volume_name


def claim_problems(pod: Pod, world: World) -> Iterator[ClaimUnusable]:
    """Yield the claims that keep *pod* off every node, in the scheduler's words.

    A snapshot without any claims was taken without them: nothing can be said, so nothing is.
    """
    for name in pod_claims(pod) if world.claims else ():
        claim = _claim(pod, name, world)
        if claim is None:
            yield ClaimUnusable(name, f'persistentvolumeclaim "{name}" not found')
        elif claim.status.phase == "Lost":
            text = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
            yield ClaimUnusable(name, f'{text} "{claim.spec.volume_name}"')
        elif claim.metadata.deletion_timestamp:
            yield ClaimUnusable(name, f'persistentvolumeclaim "{name}" is being deleted')
        elif not is_bound(claim, world) and (
            claim.spec.volume_name or binding_mode(claim, world) == "Immediate"
        ):
            yield ClaimUnusable(name, "pod has unbound immediate PersistentVolumeClaims")


def binding_mode(claim: PersistentVolumeClaim, world: World) -> str:
    """Return when *claim* is bound: `Immediate`, `WaitForFirstConsumer`, or "" when its class is unknown."""
    storage_class = world.storage_classes.get(claim.spec.storage_class_name or "")
    return storage_class.volume_binding_mode if storage_class else ""


def uncordoned(node: Node) -> Node:
    """Return *node* as `kubectl uncordon` and the controller that follows it leave it."""
    taints = tuple(t for t in node.taints if (t.key, t.effect) != (CORDONED.key, CORDONED.effect))
    return msgspec.structs.replace(
        node, spec=msgspec.structs.replace(node.spec, unschedulable=None, taints=taints)
    )
