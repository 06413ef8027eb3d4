"""Taint eviction controller: deletes pods that do not tolerate their node's NoExecute taints.

Spec: core.md 4.1 to 4.4; KEP-5471, KEP-5721 and KEP-5500, each where it speaks of NoExecute.
tolerationSeconds limits a toleration that *matches*; when a value stops matching, the pod is deleted at once. A timer
keeps the time it was first set to: later changes of the seconds do not move it. Timers start when a pod is processed,
not at the taint's timeAdded, so a restart starts them again. Deleting the node stops no timer. PodDisruptionBudgets
are not consulted. How long a pod may stay is computed in weir.taints.eviction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from weir.client.events import ObjectReference
from weir.controllers.runtime.controller import Action, Controller, Evict, Record, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.pod_eviction import PodEviction
from weir.controllers.runtime.views import Node, Pod
from weir.gates import Gates
from weir.objects.core import Taint
from weir.objects.kind import Kind
from weir.objects.kinds import NODES, PODS
from weir.observe.logs import ObjectRef
from weir.observe.unreadable import UnreadableValues
from weir.taints.eviction import stay
from weir.taints.expression import STOPPED_REASON, Expressions
from weir.taints.toleration import EVICTING, Evaluate

EVENT_REASON: Final = "TaintManagerEviction"
CONDITION_REASON: Final = "DeletionByTaintManager"
CONDITION_MESSAGE: Final = "Taint manager: deleting due to NoExecute taint"


class NodeKey(NamedTuple):
    """A node whose NoExecute taints changed, or that came or went."""

    node: str


class PodKey(NamedTuple):
    """A pod that came, went, or changed its node or tolerations."""

    namespace: str
    name: str
    node: str


class TimerKey(NamedTuple):
    """A pod whose eviction may be due."""

    namespace: str
    name: str


Key = NodeKey | PodKey | TimerKey


@dataclass(frozen=True, slots=True)
class Timer:
    """When a pod's stay was first limited, and when it ends."""

    uid: str  #: of the pod: another one of the same name has a timer of its own
    created_at: datetime
    fire_at: datetime


class TaintEviction(Controller):
    """The taint eviction controller."""

    name = "taint-eviction-controller"
    kinds: Sequence[Kind] = (NODES, PODS)
    reads = {PODS: ("spec",)}

    def __init__(self, gates: Gates, evaluate: Evaluate | None = None) -> None:
        self.expressions = Expressions()  # a cache of its own, as every component has
        self._gates, self._evaluate = gates, evaluate or self.expressions.evaluate
        self._unreadable = UnreadableValues(self.log, self.expressions)
        self.timers: dict[TimerKey, Timer] = {}
        self._evicting: set[str] = set()  # nodes with taints that make pods leave
        self._deleting: set[TimerKey] = set()  # deletions under way
        # what each deletion at once was decided on, until the pod is gone
        self._begun: dict[TimerKey, object] = {}

    def register_metrics(self, metrics: ControllerMetrics) -> None:
        metrics.cel.watch(self.name, self.expressions)

    def eviction_ended(self, action: Evict) -> None:
        """A deletion has ended, successful or not."""
        self._deleting.discard(TimerKey(action.eviction.namespace, action.eviction.name))

    # ── which changes matter ─────────────────────────────────────────────────────────────────────

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield what a change of an object makes worth looking at."""
        if kind is NODES:
            name = (new or old).name
            if new is not None and evicting(new):
                self._evicting.add(name)
            else:
                self._evicting.discard(name)
            if old is None or new is None or evicting(old) != evicting(new):
                yield NodeKey(name)
            return
        if new is None:
            if (key := timer_key(old)) in self.timers or key in self._begun or key in self._deleting:
                yield PodKey(*key, old.spec.node_name)
        elif (
            new.spec.node_name in self._evicting  # a node that gets such a taint later looks at its pods then
            and (old is None or old.spec is not new.spec)
            and (
                old is None or old.tolerations != new.tolerations or old.spec.node_name != new.spec.node_name
            )
        ):
            yield PodKey(new.metadata.namespace, new.metadata.name, new.spec.node_name)

    # ── what is to be done ───────────────────────────────────────────────────────────────────────

    def reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what must happen at *now*; safe to repeat."""
        if isinstance(key, NodeKey):
            yield from self._node(key.node, listers, now)
        elif isinstance(key, PodKey):
            yield from self._pod(key, listers, now)
        else:
            yield from self._timer(key, now)

    def _node(self, name: str, listers: Listers, now: datetime) -> Iterator[Action]:
        node = listers.node(name)
        if node is None:
            return  # timers stay: the pods still have nowhere to be
        taints = evicting(node)
        for pod in listers.pods_on(name):
            if taints:
                yield from self._process(pod, taints, now)
            else:
                yield from self._cancel(timer_key(pod))

    def _pod(self, key: PodKey, listers: Listers, now: datetime) -> Iterator[Action]:
        pod = listers.pod(key.namespace, key.name)
        if pod is None:
            yield from self._cancel(TimerKey(key.namespace, key.name))
            return
        node = listers.node(pod.spec.node_name) if pod.spec.node_name else None
        if pod.spec.node_name != key.node or node is None:
            return
        if taints := evicting(node):
            yield from self._process(pod, taints, now)

    def _timer(self, key: TimerKey, now: datetime) -> Iterator[Action]:
        timer = self.timers.get(key)
        if timer is None:
            return
        if now < timer.fire_at:
            yield WakeAt(key, timer.fire_at)
            return
        del self.timers[key]
        self.log.v(2, "Toleration seconds are over, evicting pod", pod=ObjectRef(key.namespace, key.name))
        yield from self._evict(key, timer.uid, timer.fire_at)

    def _process(self, pod: Pod, taints: tuple[Taint, ...], now: datetime) -> Iterator[Action]:
        key = timer_key(pod)
        allowed = stay(taints, pod.tolerations, self._gates, self._evaluate)
        about, node = ObjectRef(key.namespace, key.name), pod.spec.node_name
        self._unreadable.look(
            pod.tolerations, taints, self._gates, self._evaluate, now=now.timestamp(), pod=about, node=node
        )
        if warning := self.expressions.warning(pod.metadata.uid, pod.tolerations):
            yield Record(ObjectReference("Pod", key.name, key.namespace), "Warning", STOPPED_REASON, warning)
        if allowed.for_ever:
            yield from self._cancel(key)
            return
        assert allowed.limit is not None
        if allowed.toleration is None:  # a taint that nothing tolerates
            decided_on = (pod.metadata.uid, taints, pod.tolerations)
            if self._begun.get(key) == decided_on:
                return  # seen by its node already, as every pod is when the controller starts
            yield from self._cancel(key)
            self.log.v(
                2, "Not all taints are tolerated, evicting pod", pod=about, node=node, taint=allowed.taint
            )
            yield from self._evict(key, pod.metadata.uid, now)
            self._begun[key] = decided_on
            return
        timer = self.timers.get(key)
        wanted = Timer(pod.metadata.uid, now, _later(now, allowed.limit))
        if timer is not None:
            if timer.uid == wanted.uid and (timer.created_at < now or timer == wanted):
                return  # it keeps the time it was first given
            yield from self._cancel(key)
        if key in self._deleting:
            return
        self.log.v(
            2,
            "Pod tolerates taint for a limited time",
            pod=about,
            node=node,
            taint=allowed.taint,
            seconds=allowed.limit.total_seconds(),
        )
        if not allowed.limit:
            yield from self._evict(key, pod.metadata.uid, now)
            return
        self.timers[key] = wanted
        yield WakeAt(key, wanted.fire_at)

    def _cancel(self, key: TimerKey) -> Iterator[Action]:
        self._deleting.discard(key)
        self._begun.pop(key, None)
        if self.timers.pop(key, None) is not None:
            self.log.v(2, "Cancelling deletion of pod", pod=ObjectRef(key.namespace, key.name))
            yield _record(key, f"Cancelling deletion of Pod {key.namespace}/{key.name}")

    def _evict(self, key: TimerKey, uid: str, due: datetime) -> Iterator[Action]:
        self._deleting.add(key)
        yield _record(key, f"Marking for deletion Pod {key.namespace}/{key.name}")
        yield Evict(PodEviction(key.namespace, key.name, uid, CONDITION_REASON, CONDITION_MESSAGE), due)


def evicting(node: Node) -> tuple[Taint, ...]:
    """Return the taints of *node* that make pods leave."""
    return tuple(taint for taint in node.taints if taint.effect in EVICTING)


def timer_key(pod: Pod) -> TimerKey:
    """Return the name under which the pod's timer is kept."""
    return TimerKey(pod.metadata.namespace, pod.metadata.name)


_END_OF_TIME: Final = datetime.max


def _later(now: datetime, by: timedelta) -> datetime:
    try:
        return now + by
    except OverflowError:  # tolerationSeconds may be any 64-bit number
        return _END_OF_TIME.replace(tzinfo=now.tzinfo)


def _record(key: TimerKey, message: str) -> Record:
    about = ObjectReference("Pod", key.name, key.namespace)
    return Record(about, "Normal", EVENT_REASON, message)
