"""Sentences for every kind of reason.

A comparison always has both sides (`sla=940, needs > 950: refused`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from weir.devices.origin import RuleOrigin, TrackedTaint
from weir.devices.outcome import CANNOT_ALLOCATE, DeviceRefusal, Refusal
from weir.explain.phrases import asks, counted, duration, listed, requires, short, taint_name
from weir.explain.reasons import Gated, Over, Refused
from weir.explain.verdict import NodeVerdict
from weir.gates import TOLERATION_CEL
from weir.objects.core import Taint
from weir.objects.requests import show_amount
from weir.objects.resource import DeviceID
from weir.scheduler.claim_reasons import (
    ClaimTied,
    ClaimUnusable,
    DeviceClaimUnusable,
    DiskInUse,
    DriverMissing,
    NoDevices,
    TooManyVolumes,
    VolumeElsewhere,
    VolumeMissing,
    WrongVolumeZone,
)
from weir.scheduler.reasons import (
    Attempt,
    AvoidedByPodNear,
    AvoidedPodNear,
    Cordoned,
    NoPodNear,
    NoTopologyDomain,
    OtherNode,
    PortTaken,
    Reason,
    TooFew,
    TooManyPods,
    TooSkewed,
    UndeclaredFeatures,
    Unmet,
    UnmetAffinity,
    UnmetTerm,
    UnreadablePreference,
    UntoleratedTaint,
    WrongLabel,
)
from weir.selectors.node import Match
from weir.taints.eviction import Stay
from weir.taints.operators import VERSIONS, find_comparison, find_in_affinity
from weir.taints.toleration import Outcome, gate_of
from weir.values.semver import find_tolerant

#: The heading under which each kind of reason is counted.
HEADINGS: Final = {
    "taint": "a taint is not tolerated",
    "unschedulable": "cordoned, takes no new pods",
    "node-selector": "labels do not match nodeSelector",
    "node-affinity": "labels do not match the required node affinity",
    "node-name": "nodeName asks for another node",
    "resources": "too little room",
    "pods": "runs as many pods as it may",
    "ports": "a host port is taken",
    "volume": "a volume cannot be used there",
    "devices": "no devices for the pod's claims",
    "allocated-claim": "an allocated device claim cannot be used there",
    "topology-spread": "would break the topology spread constraints",
    "pod-affinity": "affinity or anti-affinity between pods",
    "features": "its kubelet lacks a feature the pod needs",
    "filter": "another filter of the scheduler",
}
# ── taints ───────────────────────────────────────────────────────────────────────────────────────


def untolerated_taint(reason: UntoleratedTaint) -> str:
    """Return why a taint is not tolerated, with both sides of every comparison that was tried."""
    taint, name = reason.taint, taint_name(reason.taint)
    tried = [a for a in reason.attempts if a.outcome not in (Outcome.OTHER_KEY, Outcome.OTHER_EFFECT)]
    if tried:
        near = [a for a in tried if not a.toleration.expression]
        if not near:
            return f"{name}, needs {' or '.join(map(_expression, tried))}: refused"
        return f"{name}, needs {' or '.join(asks(a.toleration) for a in near)}: {_why(near, taint)}"
    elsewhere = [
        a for a in reason.attempts if a.outcome is Outcome.OTHER_EFFECT and a.toleration.key == taint.key
    ]
    if elsewhere:
        effects = " and ".join(sorted({a.toleration.effect for a in elsewhere}))
        return f"{name} has the effect {taint.effect}, tolerated only for {effects}: refused"
    return f"{name} ({taint.effect}), no toleration for this key: refused"


def _expression(attempt: Attempt) -> str:
    """Return the part of an expression that decided, and how it came out."""
    if attempt.outcome is Outcome.GATE_OFF:
        expression = short(attempt.toleration.expression, 80)
        return f"{expression} (not evaluated, feature gate {TOLERATION_CEL} is off)"
    expression_text = short(attempt.deciding or attempt.toleration.expression, 80)
    if attempt.outcome is Outcome.EXPRESSION_FAILED:
        return f"{expression_text} (fails: {short(attempt.error, 80)})"
    return f"{expression_text} (false)"


def _why(attempts: Sequence[Attempt], taint: Taint) -> str:
    outcomes = {attempt.outcome for attempt in attempts}
    value = short(taint.value, 40) or "an empty value"
    if Outcome.GATE_OFF in outcomes:
        gates = sorted({gate for a in attempts if (gate := gate_of(a.toleration))})
        return f"not compared, feature gate {' and '.join(gates)} is off: refused"
    if Outcome.NOT_AN_INTEGER in outcomes:
        return f"{value} is not an integer in plain form: refused"
    if Outcome.NOT_A_VERSION in outcomes:
        return f"{value} is not a version: refused"
    if Outcome.TOLERATION_NOT_AN_INTEGER in outcomes:
        return "the toleration's value is not an integer in plain form: refused"
    if Outcome.TOLERATION_NOT_A_VERSION in outcomes:
        return "the toleration's value is not a version: refused"
    if Outcome.UNKNOWN_OPERATOR in outcomes:
        return "an operator nobody knows: refused"
    if Outcome.NOT_GREATER in outcomes and len(attempts) == 1:
        comparison = find_comparison(attempts[0].toleration.operator)
        if comparison is not None and comparison.scale is VERSIONS:
            trap = _prerelease_trap(taint.value, (attempts[0].toleration.value,))
            return f"{trap}: refused" if trap else "refused"
    return "refused"


# ── labels ───────────────────────────────────────────────────────────────────────────────────────


def unmet(unmet: Unmet) -> str:
    """Return why one requirement was not met."""
    requirement = unmet.requirement
    if unmet.field == "matchFields":
        return (
            f"the node's name is not {requires(requirement)}"
            if requirement.operator == "In"
            else (f"the node is excluded by name ({', '.join(requirement.values or ())})")
        )
    has = (
        f"{requirement.key}={short(unmet.found, 40)}"
        if unmet.found is not None
        else f"no label {requirement.key}"
    )
    sides = f"{has}, needs {requires(requirement)}"
    if unmet.match is Match.NOT_GREATER and (trap := _prerelease_trap(unmet.found, requirement.values)):
        return f"{sides}: {trap}"
    match unmet.match:
        case Match.NOT_AN_INTEGER:
            return f"{sides}: not an integer"
        case Match.NOT_A_VERSION:
            return f"{sides}: not a version"
        case Match.UNREADABLE:
            return f"{sides}: this requirement cannot be read, so its term matches no node"
        case Match.GATE_OFF:
            comparison = find_in_affinity(requirement.operator)
            gate = comparison.affinity_gate if comparison is not None else ""
            return f"{sides}: not compared, feature gate {gate} is off"
    return sides


def _prerelease_trap(label: str | None, values: Sequence[str] | None) -> str:
    """Return why a version that looks equal or newer counts as older, or "" when it does not look so."""
    version, limit = find_tolerant(label or ""), find_tolerant((values or ("",))[0])
    if version is None or limit is None or not version.prerelease or limit.prerelease:
        return ""
    if (version.major, version.minor, version.patch) != (limit.major, limit.minor, limit.patch):
        return ""
    return f"its suffix makes it a prerelease, below {limit}"


def terms(unmet_terms: Sequence[UnmetTerm]) -> str:
    """Return what the terms lack; alternatives are joined with "or else"."""
    if not unmet_terms:
        return "it has no terms, which matches no node"
    sentences = []
    for term in unmet_terms:
        sentences.append(" and ".join(map(unmet, term.unmet)) or "an empty term, which matches no node")
    return ", or else ".join(dict.fromkeys(sentences))


# ── everything ───────────────────────────────────────────────────────────────────────────────────


def sentence(reason: Reason) -> str:
    """Return *reason* as one sentence."""
    match reason:
        case UntoleratedTaint():
            return untolerated_taint(reason)
        case Cordoned():
            return "cordoned: takes no new pods"
        case WrongLabel(key, wanted, value):
            has = f"no label {key}" if value is None else f"{key}={short(value, 40)}"
            return f"{has}, needs {short(wanted, 40)}"
        case UnmetAffinity():
            return terms(reason.terms)
        case UndeclaredFeatures(features):
            return f"its kubelet does not declare {listed(features, 5)}"
        case OtherNode(wanted):
            return f"nodeName asks for {wanted}"
        case TooFew():
            return _too_few(reason)
        case TooManyPods(limit, running):
            return f"runs {counted(running, 'pod')}, may run {limit}"
        case PortTaken(port, protocol, holder):
            return f"host port {port}/{protocol} is held by {holder}"
        case VolumeElsewhere(claim, volume, unmet_terms):
            return f"volume {volume} (claim {claim}): {terms(unmet_terms)}"
        case VolumeMissing(claim, volume):
            return f"claim {claim} is bound to volume {volume}, which does not exist"
        case ClaimUnusable():
            return reason.text
        case NoDevices():
            return no_devices(reason)
        case ClaimTied():
            return _tied(reason)
        case DeviceClaimUnusable(text, hint):
            return f"{text}{'; ' if hint else ''}{hint}"
        case TooSkewed():
            return _skewed(reason)
        case NoTopologyDomain(_, key):
            return f"has no label {key}, which the topology spread constraints need"
        case NoPodNear(_, key):
            return f"no pod in its {key} that the affinity asks for"
        case AvoidedPodNear(_, key):
            return f"a pod in its {key} that the anti-affinity avoids"
        case AvoidedByPodNear(key):
            return f"a pod in its {key} avoids this one"
        case DiskInUse():
            return "a pod there uses the same disk"
        case TooManyVolumes(driver, limit, attached):
            return f"{driver} can attach {counted(limit, 'volume')} there, {attached} attached"
        case DriverMissing(driver):
            return f"the CSI driver {driver} is not installed there"
        case WrongVolumeZone(volume, key, wanted, value):
            return f"volume {volume} is in {key}={wanted}, the node in {value or 'none'}"
        case Gated(gates):
            return f"held back by the scheduling gates {listed(gates, 5)}"
        case Over():
            return f"{reason.message()}, so nobody places it"
        case UnreadablePreference():
            preferences = listed(tuple(f"{each.key} {requires(each)}" for each in reason.requirements), 3)
            return (
                f"the scheduler cannot choose between nodes by the preference {preferences}: not an integer"
            )
        case Refused(errors):
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            return f"the API server would refuse it: {short(errors[0], 300)}{more}"
    return (
        reason.message().removeprefix("node(s) ").removeprefix(f'running "{reason.plugin}" filter plugin: ')
    )


def _skewed(reason: TooSkewed) -> str:
    where = f"{reason.topology_key} {reason.domain}"
    few = f"{reason.least} where there are fewest"
    return f"would be {reason.here} in {where}, {few}: more than maxSkew {reason.max_skew} apart"


def no_devices(reason: NoDevices, most: int = 3) -> str:
    """Return what is in the way of every device: taints with their origin first, then the rest counted."""
    tainted = [one for one in reason.refusals if one.taints]
    parts = [f"{one.device}: {_taints(one.taints)}" for one in tainted[:most]]
    if len(tainted) > most:
        parts.append(f"{counted(len(tainted) - most, 'more tainted device')}")
    others = Counter(one.refusal for one in reason.refusals if not one.taints)
    if short := _too_few_devices(reason.refusals):
        parts.append(short)
        del others[Refusal.LEFT_OVER]
    parts += [f"{counted(number, 'device')}: {refusal.value}" for refusal, number in others.items()]
    if not reason.refusals:
        parts = [] if reason.text != CANNOT_ALLOCATE else ["no device of any class there"]
    return f"{reason.text.removeprefix('node(s) ')}" + (f" ({'; '.join(parts)})" if parts else "")


def _too_few_devices(refusals: Sequence[DeviceRefusal]) -> str:
    """Return that more devices are needed than could be used, or "" where their number is not what is missing."""
    usable: dict[DeviceID, None] = {}
    needed: dict[tuple[str, str], int] = {}  # by claim and request; of alternatives the most modest
    for one in refusals:
        request = (one.claim, one.request.partition("/")[0])
        needed[request] = min(needed.get(request, one.needed), one.needed)
        if one.refusal is Refusal.LEFT_OVER:
            usable[one.device] = None
    total = sum(needed.values())
    if not usable or total <= len(usable) or 0 in needed.values():
        return ""
    names = listed(tuple(request for _, request in needed), 3)
    verb = f"request {names} needs" if len(needed) == 1 else f"requests {names} need"
    return f"{verb} {total} devices, {len(usable)} there"


def _taints(taints: Sequence[TrackedTaint]) -> str:
    named = " and ".join(f"{taint.taint} of {_origin(taint)}" for taint in taints)
    return f"{named} is not tolerated" if len(taints) == 1 else f"{named} are not tolerated"


def _origin(taint: TrackedTaint) -> str:
    origin = taint.origin
    return str(origin) if isinstance(origin, RuleOrigin) else f"its driver, in ResourceSlice {origin.slice}"


def _tied(reason: ClaimTied) -> str:
    if not reason.taints:
        return "an allocated claim can only be used elsewhere"
    taints = [f"claim {claim}: {taint.taint} of {_origin(taint)}" for claim, taint in reason.taints]
    return f"pods have to leave the devices of an allocated claim ({'; '.join(taints)})"


def _too_few(reason: TooFew) -> str:
    def say(amount: int) -> str:
        return show_amount(reason.resource, amount)

    if reason.allocatable == 0:
        return f"{reason.resource}: needs {say(reason.requested)}, the node has none"
    free = f"{say(max(reason.free, 0))} free of {say(reason.allocatable)}"
    return f"{reason.resource}: needs {say(reason.requested)}, {free}"


def stay_sentence(stay: Stay) -> str:
    """Return how long the pod could stay, or "" when nothing limits it."""
    if stay.limit is None or stay.taint is None:
        return ""
    if not stay.limit:
        how = "is not tolerated" if stay.toleration is None else "is tolerated for no time"
        return f"deleted at once: {taint_name(stay.taint)} {how}"
    return f"evicted after {duration(stay.limit)}: {taint_name(stay.taint)} is tolerated only that long"


def node_sentence(verdict: NodeVerdict) -> str:
    """Return one node's verdict as one line."""
    if verdict.reasons:
        return "; ".join(map(sentence, verdict.reported_reasons))
    parts = ["fits"]
    if text := stay_sentence(verdict.stay):
        parts.append(text)
    parts += [f"but {text}" for text in verdict.devices_leave]
    if verdict.disliked:
        parts.append(f"would rather not: {', '.join(map(taint_name, verdict.disliked))}")
    return "; ".join(parts)
