"""What would a change to the cluster do? Who leaves, when, because of which taint, and where they could go.

Spec: core.md 4.1–4.5 (eviction by node taints), dra.md 7 (by device taints), core.md 3 (where the replacements fit).
A hypothetical is an ordinary input: the world before and the world after are both judged by the functions that decide
in a running cluster, and what differs is the answer. Nothing is simulated that could be asked.
The pods that leave do so in the order of their times. Each frees its room; what its controller makes in its place is
put where the scheduler's engine would put it, and counts there from then on.
What surprises: a pod that tolerates the taint for a while may come back to the same node, and leave again.
Not here: reading and printing (weir.cli.what_if).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import msgspec

from weir.devices.claims import claims_of
from weir.devices.eviction import Eviction
from weir.devices.inventory import Inventory
from weir.devices.rate import EvictionRate
from weir.explain.devices import born
from weir.explain.engine import Engines, unbound
from weir.explain.phrases import taint_name
from weir.gates import Gates
from weir.objects.core import Node, Pod, PodStatus, Taint
from weir.objects.requests import pod_requests
from weir.objects.resource import ResourceClaimStatus
from weir.scheduler.claims import Claims
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import Diagnosis, NoNodes, PluginError
from weir.taints.eviction import Stay, stay
from weir.taints.toleration import untolerated
from weir.world import World

SCHEMA: Final = "weir.what-if/v1"
#: Controllers that make a new pod somewhere for one that was deleted.
_REPLACING: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})

Tick = Callable[[int, int], None]


@dataclass(frozen=True)
class State:
    """A cluster at one moment: what decides about nodes, and what decides about devices."""

    world: World
    devices: Inventory


@dataclass(frozen=True)
class Cause:
    """Why and when a pod must leave."""

    after: timedelta
    taint: Taint
    of: str  #: what carries the taint: `node n1`, or `device driver/pool/name (rule r)`
    tolerated_for: int | None = None  #: seconds a toleration grants; None: nothing tolerates the taint

    def say(self) -> str:
        """Return the cause as part of a sentence."""
        if self.tolerated_for is None:
            return f"nothing tolerates {taint_name(self.taint)} of {self.of}"
        return f"tolerates {taint_name(self.taint)} of {self.of} for {self.tolerated_for}s"


@dataclass(frozen=True)
class Leaving:
    """A pod that has to leave, and what becomes of it."""

    pod: str
    node: str
    cause: Cause
    owner: str  #: `ReplicaSet/web-5d4`, "" for a pod nobody owns
    goes_to: str = ""  #: the node its replacement would get
    again_after: timedelta | None = None  #: when the replacement has to leave that node too
    why_nowhere: str = ""  #: why there is no replacement, or no room for it

    @property
    def lost(self) -> bool:
        """Whether nothing runs in its place afterwards."""
        return not self.goes_to


@dataclass(frozen=True)
class Turn:
    """A pod that waits, whose chances the change turns."""

    pod: str
    node: str  #: where it fits now, or fitted before
    why_not: str = ""


@dataclass(frozen=True)
class Forecast:
    """What the change does."""

    leaving: tuple[Leaving, ...]
    staying: int  #: pods on the changed nodes and devices that stay
    locked_out: tuple[str, ...]  #: pods that stay though the scheduler would not put them there again
    helped: tuple[Turn, ...]  #: waiting pods that fit after the change and did not before
    hindered: tuple[Turn, ...]  #: the other way round
    changed: tuple[str, ...]  #: what was changed, `node/n1`

    @property
    def lost(self) -> tuple[Leaving, ...]:
        return tuple(one for one in self.leaving if one.lost)


def what_if(before: State, after: State, gates: Gates, now: datetime, tick: Tick | None = None) -> Forecast:
    """Return what turning *before* into *after* at *now* does to the pods."""
    world = after.world
    changed = [name for name, node in world.nodes.items() if before.world.nodes.get(name) != node]
    causes = dict(_by_node_taints(before.world, world, changed, gates))
    for key, cause in _by_device_taints(before.devices, after.devices, now):
        if key in world.pods and (key not in causes or cause.after < causes[key].after):
            causes[key] = cause
    rules = [name for name, rule in after.devices.rules.items() if before.devices.rules.get(name) != rule]
    stays = {pod.key for name in changed for pod in world.pods_on(name)} - causes.keys()
    helped, hindered = _turns(before.world, world, gates)
    return Forecast(
        tuple(_settle(world, causes, gates, tick)),
        len(stays),
        tuple(sorted(_locked_out(before.world, world, changed, stays, gates))),
        helped,
        hindered,
        (*(f"node/{name}" for name in changed), *(f"devicetaintrule/{name}" for name in rules)),
    )


# ── who leaves ───────────────────────────────────────────────────────────────────────────────────


def _by_node_taints(
    before: World, after: World, changed: list[str], gates: Gates
) -> Iterator[tuple[str, Cause]]:
    """Yield the pods that the taints of *changed* nodes drive out, and that could stay longer before."""
    for name in changed:
        node, old = after.nodes[name], before.nodes.get(name)
        for pod in after.pods_on(name):
            if pod.metadata.deletion_timestamp:
                continue
            found = stay(node.taints, pod.tolerations, gates)
            was = stay(old.taints if old else (), pod.tolerations, gates)
            if found.limit is not None and (was.limit is None or found.limit < was.limit):
                yield pod.key, _cause(found, node)


def _cause(found: Stay, node: Node) -> Cause:
    assert found.limit is not None and found.taint is not None
    seconds = None if found.toleration is None else max(found.toleration.toleration_seconds or 0, 0)
    return Cause(found.limit, found.taint, f"node {node.name}", seconds)


def _by_device_taints(before: Inventory, after: Inventory, now: datetime) -> Iterator[tuple[str, Cause]]:
    """Yield the pods whose devices' taints drive them out sooner than before, at the rate the taints allow."""
    was = before.evictions(now)
    found = {
        key: eviction
        for key, eviction in after.evictions(now).items()
        if key not in was or eviction.at < was[key].at
    }
    rate = EvictionRate()
    moment = now
    for key, eviction in sorted(found.items(), key=lambda item: (item[1].at, item[0])):
        moment = max(moment, eviction.at)
        while (again := rate.admit(eviction.due_reasons(moment), moment)) is not None:
            moment = again
        yield key, _device_cause(eviction, moment - now, now)


def _device_cause(eviction: Eviction, after: timedelta, now: datetime) -> Cause:
    first = min(eviction.reasons, key=lambda reason: reason.due)
    granted = int((first.due - now).total_seconds())
    taint = Taint(first.taint.taint.key, first.taint.taint.value, first.taint.taint.effect)
    return Cause(after, taint, str(first.taint.origin), granted if granted > 0 else None)


def _locked_out(
    before: World, after: World, changed: list[str], stays: set[str], gates: Gates
) -> Iterator[str]:
    """Yield the pods that stay on a node whose taints would now keep them out."""
    for name in changed:
        old = before.nodes.get(name)
        for pod in after.pods_on(name):
            was_welcome = not untolerated(old.taints if old else (), pod.tolerations, gates)
            is_welcome = not untolerated(after.nodes[name].taints, pod.tolerations, gates)
            if pod.key in stays and was_welcome and not is_welcome:
                yield pod.key


# ── where they go ────────────────────────────────────────────────────────────────────────────────


def _settle(after: World, causes: Mapping[str, Cause], gates: Gates, tick: Tick | None) -> Iterator[Leaving]:
    """Yield the leaving pods in the order they go, each with the place of what is made instead."""
    engines = Engines(after, resources=_resources(after))
    order = sorted(causes, key=lambda key: (causes[key].after, -(after.pods[key].spec.priority or 0), key))
    for done, key in enumerate(order):
        pod = after.pods[key]
        owner = next((o for o in pod.metadata.owner_references or () if o.controller), None)
        title = f"{owner.kind}/{owner.name}" if owner else ""
        found = Leaving(key, pod.spec.node_name, causes[key], title)
        engine, claims = engines.engine(pod, gates), engines.claims(gates)
        engine.table.remove_pod(key)
        if claims is not None:
            _let_go(pod, claims)
        if owner is None:
            found = replace(found, why_nowhere="nobody makes it again: it has no controller")
        elif owner.kind == "DaemonSet":
            found = replace(found, why_nowhere="its DaemonSet makes it again when the node takes it")
        elif owner.kind not in _REPLACING:
            found = replace(found, why_nowhere=f"weir does not know what {title} does then")
        else:
            fresh = _with_claims(_replacement(pod), engines, gates)
            answer = place(engine, fresh)
            if isinstance(answer, Placement):
                engine.assume(fresh.key, fresh, answer.node)
                engine.reserve(fresh, answer.node)
                again = stay(after.nodes[answer.node].taints, pod.tolerations, gates).limit
                found = replace(found, goes_to=answer.node, again_after=again)
            else:
                found = replace(found, why_nowhere=answer)
        yield found
        if tick and done % 100 == 99:
            tick(done + 1, len(order))


def _resources(world: World) -> frozenset[str]:
    return frozenset(name for pod in world.pods.values() for name in pod_requests(pod))


def _let_go(pod: Pod, claims: Claims) -> None:
    """Take *pod* off its claims: those made for it go with it, those it shared are free once nobody else uses them."""
    for use in list(claims_of(pod, claims.claims)):
        claim = use.claim
        if claim is None:
            continue
        claims.remove_claim(claim.key)
        if any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references or ()):
            continue
        rest = tuple(one for one in claim.status.reserved_for or () if one.uid != pod.metadata.uid)
        left = msgspec.structs.replace(claim.status, reserved_for=rest) if rest else ResourceClaimStatus()
        claims.put_claim(msgspec.structs.replace(claim, status=left))


def _replacement(pod: Pod) -> Pod:
    """Return the pod a controller makes for *pod*: the same, not yet placed, under another name."""
    fresh = unbound(pod)
    name = f"{pod.metadata.name}-again"
    metadata = msgspec.structs.replace(fresh.metadata, name=name, uid=f"{pod.metadata.uid}-again")
    return msgspec.structs.replace(fresh, metadata=metadata, status=PodStatus(phase="Pending"))


def _with_claims(pod: Pod, engines: Engines, gates: Gates) -> Pod:
    """Return *pod* as it is once the claims of its templates are made."""
    claims = engines.claims(gates)
    return pod if claims is None else born(pod, engines.world, claims)


def place(engine: Engine, pod: Pod) -> Placement | str:
    """Return where *pod* goes, or in the scheduler's words why nowhere."""
    try:
        answer = engine.place(pod)
    except (NoNodes, PluginError) as nothing:
        return str(nothing)
    if isinstance(answer, Diagnosis):
        return answer.message
    return answer


# ── who waits ────────────────────────────────────────────────────────────────────────────────────


def _turns(before: World, after: World, gates: Gates) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """Return the waiting pods that the change helps, and those it hinders; each judged as if it were the only one."""
    waiting = [
        pod
        for pod in after.pods.values()
        if not pod.spec.node_name
        and not pod.terminated
        and not pod.metadata.deletion_timestamp
        and not pod.spec.scheduling_gates
    ]
    if not waiting:
        return (), ()
    names = _resources(after)
    then, now = Engines(before, resources=names), Engines(after, resources=names)
    helped, hindered = [], []
    for pod in waiting:
        was, will = (place(each.engine(pod, gates), _with_claims(pod, each, gates)) for each in (then, now))
        if isinstance(will, Placement) and not isinstance(was, Placement):
            helped.append(Turn(pod.key, will.node))
        elif isinstance(was, Placement) and not isinstance(will, Placement):
            hindered.append(Turn(pod.key, was.node, will))
    return tuple(helped), tuple(hindered)
