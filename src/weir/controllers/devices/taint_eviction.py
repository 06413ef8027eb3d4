"""Device taint eviction controller: evicts pods whose devices have NoExecute taints and reports in the rules' status.

Spec: KEP-5055 "Eviction" and "DeviceTaintRule status", dra.md 7 "Device taint eviction controller"; D-07, D-10, D-13,
D-18, D-19.
Change handlers only queue keys; reconciling brings the state up to the listers', so duplicate, late or reordered
events converge. Eviction times count from the taint's timeAdded, so after a restart elapsed ones are due at once. Due
evictions are rate-limited per taint; cancellations and statuses are not. PodDisruptionBudgets are not consulted.
Evictions of claims are in taint_eviction_claims, the status texts in taint_eviction_status.

Evicts one pod because of a device taint: event, DisruptionTarget condition, deletion guarded by UID. Spec: dra.md 7.4
"Deleting a due pod".
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from weir.client.api import APPLY_PATCH
from weir.client.events import ObjectReference
from weir.controllers.devices import taint_eviction_status as words
from weir.controllers.devices.eviction_queue import EvictionQueue, PodKey
from weir.controllers.devices.taint_eviction_claims import Change, ClaimEvictions
from weir.controllers.devices.taint_eviction_status import PERIOD, EvictionCounts
from weir.controllers.runtime.controller import (
    Action,
    ActionContext,
    Controller,
    Patch,
    Record,
    Steps,
    WakeAt,
)
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.pod_eviction import Evicted, PodEviction, evict_pod
from weir.controllers.runtime.views import Pod
from weir.devices.eviction import Eviction, claim_eviction, pod_eviction
from weir.devices.origin import RuleOrigin, TrackedTaint
from weir.gates import DEVICE_TAINT_RULES, DEVICE_TAINTS, Gates
from weir.objects.core import View, ViewError, read
from weir.objects.kind import Kind
from weir.objects.kinds import PODS, RESOURCE_CLAIMS, by_kind
from weir.objects.resource import DeviceClass, DeviceID, DeviceTaintRule, ResourceClaim, ResourceSlice
from weir.observe.logs import ObjectRef
from weir.taints.expression import STOPPED_REASON, Expressions
from weir.taints.toleration import EVICTING

_VERSION: Final = "resource.k8s.io/v1"
CLASSES: Final = by_kind(_VERSION, "DeviceClass")
RULES: Final = by_kind(_VERSION, "DeviceTaintRule")
SLICES: Final = by_kind(_VERSION, "ResourceSlice")
REMEMBERED: Final = 10_000  # pods whose eviction was started

V = TypeVar("V", bound=View)


EVENT_REASON: Final = "DeviceTaintManagerEviction"
CONDITION_REASON: Final = "DeletionByDeviceTaintManager"
CONDITION_MESSAGE: Final = "Device Taint manager: deleting due to NoExecute taint"


@dataclass(frozen=True, slots=True)
class EvictPod(Steps):
    """Record why, then delete the pod, if it is still the one meant."""

    pod: PodKey
    due: datetime
    rules: tuple[tuple[str, str], ...]  #: names and uids of the rules among the reasons

    async def carry_out(self, context: ActionContext) -> Evicted:
        eviction = PodEviction(
            *self.pod,
            CONDITION_REASON,
            CONDITION_MESSAGE,
            observed_generation=False,
            unless_deleting=True,
            event=(EVENT_REASON, "Marking for deletion"),
        )
        evicted = await evict_pod(context.client, context.clock, context.recorder, eviction)
        if evicted is not Evicted.GONE:  # LEAVING: most likely by us, and the answer was lost
            late = (context.clock.now() - self.due).total_seconds()
            context.metrics.device_pod_deletions.child().inc()
            context.metrics.device_pod_deletion_duration.child().observe(max(late, 0.0))
        return evicted


def about(pod: PodKey) -> ObjectReference:
    """Return the reference for events about a pod; no version of it is meant."""
    return ObjectReference("Pod", pod.name, pod.namespace, pod.uid)


class ObjectKey(NamedTuple):
    """A slice, rule, class or claim that changed, or a rule whose status may be due."""

    kind: Kind
    name: str
    namespace: str = ""


class QueueKey(NamedTuple):
    """The eviction queue may have a due pod."""

    whose: str = "any pod"


Key = ObjectKey | PodKey | QueueKey
TURN: Final = QueueKey()


class DeviceTaintEviction(Controller):
    """The device taint eviction controller."""

    name = "device-taint-eviction-controller"

    def __init__(self, gates: Gates) -> None:
        self.expressions = Expressions()
        self._gates = gates
        kinds: list[Kind] = [SLICES, RESOURCE_CLAIMS, PODS] if gates.enabled(DEVICE_TAINTS) else []
        if gates.enabled(DEVICE_TAINT_RULES):
            kinds[:0] = [CLASSES, RULES]  # so that a rule's first status comes before its pods
        self.kinds = tuple(kinds)
        self.model = ClaimEvictions(gates, self.expressions)
        self.turns = EvictionQueue()
        self.pending: dict[PodKey, Eviction] = {}
        self._admitted: set[PodKey] = (
            set()
        )  # it is their turn; what fails is tried again without another token
        self._evicted: OrderedDict[str, None] = OrderedDict()
        self._rules: dict[str, DeviceTaintRule] = {}
        self._stats: Counter[str] = Counter()  # pods evicted, by the uid of the rule
        self._reported: dict[str, str] = {}  # the last problem of each rule

    def register_metrics(self, metrics: ControllerMetrics) -> None:
        metrics.cel.watch(self.name, self.expressions)

    # ── which changes matter ─────────────────────────────────────────────────────────────────────

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield what a change of an object makes worth looking at."""
        if kind is PODS:
            yield from _pod_changed(old, new)
            return
        metadata = (new if new is not None else old)["metadata"]
        if kind is RESOURCE_CLAIMS and not _concerns_devices(old) and not _concerns_devices(new):
            return
        if kind is RULES and old is not None and new is not None and _same_rule(old, new):
            return  # its status, most likely by ourselves
        yield ObjectKey(kind, metadata["name"], metadata.get("namespace", ""))

    # ── what is to be done ───────────────────────────────────────────────────────────────────────

    def reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what must happen at *now*; safe to repeat."""
        yield from self._reconcile(key, listers, now)
        for name, warning in self.model.take_warnings().items():
            claim = self.model.claims.get(name)
            if claim is not None:
                metadata = claim.metadata
                about_claim = ObjectReference(
                    RESOURCE_CLAIMS.kind,
                    metadata.name,
                    metadata.namespace,
                    metadata.uid,
                    RESOURCE_CLAIMS.api_version,
                )
                yield Record(about_claim, "Warning", STOPPED_REASON, warning)

    def _reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        if isinstance(key, PodKey):
            yield from self._pod(key, listers, now)
        elif isinstance(key, QueueKey):
            yield from self._next_turns(now)
        elif key.kind is RULES:
            yield from self._rule(key, listers, now)
        elif key.kind is RESOURCE_CLAIMS:
            yield from self._claim(key, listers, now)
        elif key.kind is SLICES:
            change = self.model.put_slice(key.name, _read(ResourceSlice, listers, key), now)
            yield from self._follow(change, listers, now)
        else:
            change = self.model.put_class(key.name, _read(DeviceClass, listers, key), now)
            yield from self._follow(change, listers, now)

    # ── claims ───────────────────────────────────────────────────────────────────────────────────

    def _claim(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        name = f"{key.namespace}/{key.name}"
        claim = _read(ResourceClaim, listers, key)
        old, had = self.model.claims.get(name), name in self.model.evictions
        change = self.model.put_claim(name, claim, now)
        if had or change.claims:
            yield from _wake(sorted({*_consumers(old), *_consumers(claim)}), now)

    def _follow(self, change: Change, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the pods of claims whose eviction changed, and the events that follow."""
        pods = {pod for name in change.claims for pod in _consumers(self.model.claims[name])}
        yield from _wake(sorted(pods), now)
        for problem in change.problems:
            rule = listers.get(RULES, problem.rule)
            if rule is None:
                continue
            if self._reported.get(problem.rule) != problem.message:  # once, not with every slice that comes
                self._reported[problem.rule] = problem.message
                reason = problem.reason or "CELCompileError"
                yield Record(_about_rule(rule), "Warning", reason, problem.message)

    # ── pods ─────────────────────────────────────────────────────────────────────────────────────

    def _pod(self, key: PodKey, listers: Listers, now: datetime) -> Iterator[Action]:
        pod = listers.pod(key.namespace, key.name)
        there = pod is not None and pod.metadata.uid == key.uid
        if not there or key.uid in self._evicted:
            self._forget(key)
            return
        assert pod is not None
        if pod.deleting and key in self._admitted:
            begun = self.pending[key]  # its deletion went well, only the answer was lost: count it
            yield EvictPod(key, begun.at, _rules_of(begun))
            return
        eviction = pod_eviction(pod, self.model.claims, self.model.evictions)
        if eviction is None:
            if self._forget(key) and not pod.deleting and not pod.terminated:
                yield Record(about(key), "Normal", EVENT_REASON, "Cancelling deletion")
            return
        if self.pending.get(key) != eviction:
            self.pending[key] = eviction
            for name, _ in _rules_of(eviction):
                yield WakeAt(ObjectKey(RULES, name), now + PERIOD)
        if eviction.at > now:
            self._admitted.discard(key)
            self.turns.leave(key)
        elif key in self._admitted:
            yield EvictPod(key, eviction.at, _rules_of(eviction))
            return
        else:
            self.turns.line_up(key, eviction, now)
            yield WakeAt(TURN, now)
        later = min((reason.due for reason in eviction.reasons if reason.due > now), default=None)
        if later is not None:
            yield WakeAt(key, later)

    def _next_turns(self, now: datetime) -> Iterator[Action]:
        turn, again = self.turns.next(now)
        self._admitted.update(turn)
        yield from _wake(turn, now)
        if again is not None:
            yield WakeAt(TURN, again)

    def _forget(self, key: PodKey) -> bool:
        """Stop waiting for a pod's time; return whether it was waited for."""
        self.turns.leave(key)
        self._admitted.discard(key)
        return self.pending.pop(key, None) is not None

    def carried_out(self, action: Steps, outcome: object, now: datetime) -> Iterator[Action]:
        """A pod is on its way out: note it."""
        assert isinstance(action, EvictPod)
        self._forget(action.pod)
        self._evicted[action.pod.uid] = None
        if len(self._evicted) > REMEMBERED:
            self._evicted.popitem(last=False)
        if outcome is Evicted.GONE:
            return  # not by us
        self.log.v(
            2,
            "Evicted pod because of device taints",
            pod=ObjectRef(action.pod.namespace, action.pod.name),
            rules=" ".join(name for name, _ in action.rules) or None,
        )
        for name, uid in action.rules:
            if name in self._rules and self._rules[name].metadata.uid == uid:
                self._stats[uid] += 1
                yield WakeAt(ObjectKey(RULES, name), now + PERIOD)

    # ── rules ────────────────────────────────────────────────────────────────────────────────────

    def _rule(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        rule, old = _read(DeviceTaintRule, listers, key), self._rules.get(key.name)
        if old is not None and (rule is None or rule.metadata.uid != old.metadata.uid):
            self._stats.pop(old.metadata.uid, None)
            self._reported.pop(key.name, None)
            del self._rules[key.name]
            yield from self._follow(self.model.put_rule(key.name, None, now), listers, now)
            old = None
        if rule is None:
            return
        if old is None or old.spec != rule.spec:
            self._rules[key.name] = rule
            yield from self._follow(self.model.put_rule(key.name, rule, now), listers, now)
        yield from self._status(key, rule, listers, now)

    def _status(
        self, key: ObjectKey, rule: DeviceTaintRule, listers: Listers, now: datetime
    ) -> Iterator[Action]:
        present, generation = words.present(listers.get(RULES, key.name)), rule.metadata.generation
        again = words.too_young(present, generation, now)
        if again is not None:
            yield WakeAt(key, again)
            return
        evicted = self._stats[rule.metadata.uid]
        effect = rule.spec.taint.effect
        if effect in EVICTING:
            state = words.in_progress(self._pending_because_of(rule, listers), evicted)
        elif effect == "None":
            state = self._dry_run(rule, listers, now, evicted)
        else:
            state = words.other_effect(evicted)
        condition = words.changed(present, state, generation, now)
        if condition is not None:
            applied = {
                "apiVersion": RULES.api_version,
                "kind": RULES.kind,
                "metadata": {"name": rule.name, "uid": rule.metadata.uid},
                "status": {"conditions": [condition]},
            }
            yield Patch(
                RULES, rule.name, "", applied, APPLY_PATCH, "status", field_manager=self.name, force=True
            )

    def _pending_because_of(self, rule: DeviceTaintRule, listers: Listers) -> EvictionCounts:
        tracked = self.model.tracker.rule_taint(rule.name)
        leaving = self._evicted_pods(self.model.because_of(tracked.id), self.model.evictions, listers)
        return EvictionCounts.of(
            pod for pod, eviction in leaving if any(each.taint.id == tracked.id for each in eviction.reasons)
        )

    def _dry_run(
        self, rule: DeviceTaintRule, listers: Listers, now: datetime, evicted: int
    ) -> tuple[str, str, str]:
        """Pretend that this rule, and nothing else, had the effect NoExecute."""
        published, held = self.model.selected_by(rule.name)
        taint = msgspec.structs.replace(rule.spec.taint, effect="NoExecute")
        tracked = [TrackedTaint(taint, RuleOrigin(rule.name, rule.metadata.uid), 0)]
        hit = set(held)

        def taints_on(device: DeviceID) -> list[TrackedTaint]:
            return tracked if device in hit else []

        evictions: dict[str, Eviction] = {}
        allocated = 0
        for name in dict.fromkeys(name for device in held for name in self.model.holders(device)):
            claim = self.model.claims[name]
            allocated += sum(result.id in hit for result in claim.results)
            found = claim_eviction(claim, taints_on, self._gates, now, self.expressions.evaluate)
            self.model.note_stopped(name)
            if found is not None:
                evictions[name] = found
        leaving = EvictionCounts.of(pod for pod, _ in self._evicted_pods(evictions, evictions, listers))
        return words.dry_run(published, allocated, leaving, evicted)

    def _evicted_pods(
        self, claims: Iterable[str], evictions: Mapping[str, Eviction], listers: Listers
    ) -> Iterator[tuple[tuple[str, str], Eviction]]:
        """Yield the pods that use these claims and have to leave according to *evictions*."""
        for key in {pod for name in claims for pod in _consumers(self.model.claims[name])}:
            pod = listers.pod(key.namespace, key.name)
            if pod is None or pod.metadata.uid != key.uid:
                continue
            eviction = pod_eviction(pod, self.model.claims, evictions)
            if eviction is not None:
                yield (key.namespace, key.name), eviction


def _pod_changed(old: Pod | None, new: Pod | None) -> Iterator[PodKey]:
    for pod, other in ((old, new), (new, old)):
        if pod is None:
            continue
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            continue
        gone_or_new = other is None or other.metadata.uid != pod.metadata.uid
        if gone_or_new or (pod is new and other is not None and _moved(other, pod)):
            yield _key_of(pod)


def _moved(old: Pod, new: Pod) -> bool:
    """Return whether the pod got a node or claims; everything else is decided by claims and taints."""
    return (
        old.spec.node_name != new.spec.node_name
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
    )


def _concerns_devices(claim: Mapping[str, Any] | None) -> bool:
    return claim is not None and (claim.get("status") or {}).get("allocation") is not None


def _same_rule(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    same: bool = old["metadata"]["uid"] == new["metadata"]["uid"] and old["spec"] == new["spec"]
    return same


def _read(view: type[V], listers: Listers, key: ObjectKey) -> V | None:
    """Return the object as it is known now; None when it is gone, or not what its kind should be."""
    document = listers.get(key.kind, key.name, key.namespace)
    try:
        return read(view, document) if document is not None else None
    except ViewError:
        return None


def _consumers(claim: ResourceClaim | None) -> Iterator[PodKey]:
    for consumer in (claim.status.reserved_for or ()) if claim is not None else ():
        if consumer.resource == "pods" and not consumer.api_group:
            assert claim is not None
            yield PodKey(claim.metadata.namespace, consumer.name, consumer.uid)


def _wake(pods: Iterable[PodKey], now: datetime) -> Iterator[Action]:
    for pod in pods:
        yield WakeAt(pod, now)


def _rules_of(eviction: Eviction) -> tuple[tuple[str, str], ...]:
    origins = (reason.taint.origin for reason in eviction.reasons)
    return tuple((origin.name, origin.uid) for origin in origins if isinstance(origin, RuleOrigin))


def _key_of(pod: Pod) -> PodKey:
    return PodKey(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def _about_rule(rule: Mapping[str, Any]) -> ObjectReference:
    metadata = rule["metadata"]
    return ObjectReference(RULES.kind, metadata["name"], "", metadata["uid"], RULES.api_version)
