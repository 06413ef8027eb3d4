"""Sentences and table rows of a forecast; colour and columns are in weir.cli._what_if_text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from weir.explain.phrases import counted, duration, listed, short
from weir.whatif.eviction_loops import EvictionLoop
from weir.whatif.forecast import Budget, EvictedPod, Forecast, LockedOut, SchedulabilityChange, Workload
from weir.whatif.history import EVICTIONS

Row = tuple[str, ...]
WORKLOAD_HEAD: Row = ("WHEN", "WORKLOAD", "PODS", "BECAUSE", "THEN")
LOOPS: Final = "evicted and rescheduled in a loop"
POD_HEAD: Row = ("WHEN", "POD", "FROM", "BECAUSE", "THEN")


def title(workload: str) -> str:
    """Return the title of a workload.

    >>> title("shop/Deployment/web"), title("shop/Pod/console")
    ('deployment shop/web', 'pod shop/console')
    """
    namespace, kind, name = workload.split("/", 2)
    return f"{kind.lower()} {namespace}/{name}"


def eviction_loop(loop: EvictionLoop) -> str:
    """Return the sentence on an eviction loop, which comes before everything else."""
    pods = f"{loop.pods} pods of " if loop.pods > 1 else ""
    happens = "is" if loop.pods == 1 else "are"
    where = f" on {listed(loop.nodes, 3)}" if loop.nodes else ""
    ends = ""
    if others := len(loop.other_nodes):
        ends = f" It may end on {listed(loop.other_nodes, 3)}, which {'does' if others == 1 else 'do'} not evict them."
        ends = ends if loop.pods > 1 else ends.replace("evict them", "evict it")
    return f"{pods}{title(loop.workload)} {happens} {LOOPS}{where}, {_pace(loop)}: {loop.cause.say()}.{ends}"


def _pace(found: EvictionLoop) -> str:
    """Return how often a loop comes round."""
    if not found.every:
        return "without a pause"
    often = duration(found.every)
    if found.every < timedelta(seconds=1):
        often = f"{found.every.total_seconds():.1f} s"
    if not found.slower:
        return f"every {often}"
    slower = f"every {often} and ever more slowly"
    if "/Job/" in found.workload:  # Kubernetes' own pause
        return slower
    return f"{slower} (Kubernetes' own controllers do not slow down)"


def headline(forecast: Forecast) -> str:
    """Return the one sentence to remember."""
    number = len(forecast.leaving)
    verb = _verb(forecast.leaving)
    if forecast.ended_early:
        until = f"; until then {_are(number, 'pod')} {verb}" if number else ""
        return f"Cannot say beyond {duration(forecast.looked)}{until}."
    parts = [f"{_are(number, 'pod')} {verb}{_outcome(forecast)}"] if number else []
    if later := len(forecast.later):
        first = "" if later == 1 else ", the first"
        parts.append(f"{_are(later, 'pod')} evicted later{first} after {duration(forecast.later[0][1])}")
    if not parts:
        parts.append("No pod is evicted")
    if more := forecast.others_lost:
        stay = "stays" if more == 1 else "stay"
        parts.append(f"{counted(more, 'more pod' if forecast.lost else 'pod')} {stay} pending")
    if helped := len(forecast.helped):
        parts.append(f"{_are(helped, 'pending pod')} scheduled")
    if hindered := len(forecast.hindered):
        parts.append(f"{counted(hindered, 'pod')} {'becomes' if hindered == 1 else 'become'} unschedulable")
    if any(name.startswith("node/") for name in forecast.changed):
        stay = "stays" if forecast.staying == 1 else "stay"
        until = " until then" if later and forecast.staying else ""
        parts.append(f"{counted(forecast.staying, 'pod')} on the changed nodes {stay}{until}")
    return f"{'; '.join(parts)}."


def _are(number: int, noun: str) -> str:
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'}"


def _verb(pods: Sequence[EvictedPod]) -> str:
    """Return what happens to *pods*: only some causes are evictions."""
    return "evicted" if all(one.cause.why in EVICTIONS for one in pods) else "removed"


def _outcome(forecast: Forecast) -> str:
    """Return what becomes of the pods that go, as the end of a sentence."""
    number, lost = len(forecast.leaving), len(forecast.lost)
    loops = {each.workload for each in forecast.circles}
    looping = sum(one.circles and one.workload in loops for one in forecast.leaving)
    fewer = {each.name for each in forecast.workloads if each.after < each.before}
    unwanted = [one.workload in fewer for one in forecast.leaving if not one.wanted]
    need = "needs" if number == 1 else "need"
    if number == looping:
        return " and rescheduled in a loop"
    if number == lost:
        return f", and {'is not' if number == 1 else 'none is'} rescheduled"
    if number == len(unwanted) and all(unwanted):
        return f" and {need} no replacement"
    if not (lost or looping or any(unwanted)):
        return " and replaced" if number == len(unwanted) else " and rescheduled"
    kinds = (
        (lost, "is not rescheduled", "are not rescheduled"),
        (looping, "is rescheduled in a loop", "are rescheduled in a loop"),
        (sum(unwanted), "needs no replacement", "need no replacement"),
    )
    parts = [(count, one if count == 1 else more) for count, one, more in kinds if count]
    said = [f"{count}{' of them' if not place else ''} {what}" for place, (count, what) in enumerate(parts)]
    return f"; {', '.join(said)}"


def control_plane(found: Forecast) -> str:
    """Return the sentence on an answer that a copy of the whole control plane gave, "" for any other."""
    if not found.control_plane:
        return ""
    return f"Run on a copy of the whole control plane, which takes longer: {found.control_plane}."


def goes_on_anyway(found: Forecast) -> str:
    """Return the sentence on what happens without the change, too; "" when nothing does."""
    loops = len(found.baseline.circles) if found.baseline is not None else 0
    parts = []
    if loops:
        parts.append(f"{_are(loops, 'workload')} {LOOPS} already")
    if found.anyway:
        parts.append(f"{_are(found.anyway, 'pod')} {_verb(found.leaving_anyway)} anyway")
    shown = "it" if loops + found.anyway == 1 else "them"
    return f"{', '.join(parts)}: --baseline shows {shown}." if parts else ""


def workload_row(found: Workload) -> Row:
    """Return a workload's line of the table."""
    return (when(found.first), title(found.name), pods_cell(found), _because(found), _then(found))


def pods_cell(found: Workload) -> str:
    """Return how many pods of a workload leave, those that leave without the change told apart."""
    own = found.pods - found.anyway
    if not found.anyway:
        return str(own)
    return f"{own} + {found.anyway} anyway" if own else f"{found.anyway} anyway"


def folded(shown: Sequence[Workload], every: Sequence[Workload]) -> str:
    """Return the line on workloads that are not shown, with what they add up to; "" when all are."""
    names = {each.name for each in shown}
    rest = [each for each in every if each.name not in names]
    if not rest:
        return ""
    own, lost = (
        sum(each.pods - each.anyway for each in rest),
        sum(each.lost - each.lost_anyway for each in rest),
    )
    pending = f", {lost:,} of them not rescheduled" if lost else ""
    return (
        f"… and {counted(len(rest), 'more workload')} with {counted(own, 'pod')}{pending}: --all shows them"
    )


def schedulability_rows(turns: Sequence[SchedulabilityChange]) -> list[Row]:
    """Return a line for each workload and reason: who, how many pods, why not, and where they run."""
    groups: dict[tuple[str, str], list[SchedulabilityChange]] = {}
    for turn in turns:
        groups.setdefault((turn.workload, reason(turn.why_not or turn.waited_for)), []).append(turn)
    return [
        (
            title(workload) if workload else members[0].pod,
            str(len(members)),
            why if members[0].why_not or not why else f"was pending: {why}",
            "" if members[0].why_not else f"→ {listed(sorted({each.node for each in members}), 2)}",
        )
        for (workload, why), members in groups.items()
    ]


def schedulability_pod_rows(turns: Sequence[SchedulabilityChange]) -> list[Row]:
    """Return a line for each pod."""
    return [(each.pod, reason(each.why_not) or f"→ {each.node}") for each in turns]


def locked_out_rows(pods: Sequence[LockedOut]) -> list[Row]:
    """Return a line for each workload and reason with pods that would not be scheduled again where they are."""
    groups = Counter((each.workload, each.why) for each in pods)
    return [(title(workload), str(number), why) for (workload, why), number in groups.items()]


def _because(found: Workload) -> str:
    first, *others = found.causes or ("",)
    return (
        f"{first} and {counted(len(others), 'more reason')}"
        if len(others) > 1
        else "; ".join((first, *others))
    )


def _then(found: Workload) -> str:
    parts = []
    if found.circle is not None:
        parts.append(f"↻ {listed(found.circle.nodes, 2)}")
    elif found.loops_anyway:
        parts.append("↻ anyway")
    in_a_loop = found.circle.pods if found.circle is not None else found.pods if found.loops_anyway else 0
    ends = _to(found) if in_a_loop < found.pods else []  # where a loop is at the end says nothing
    for _, node, count in ends[:3]:
        parts.append(f"→ {node}" if count == 1 and found.pods == 1 else f"{count} → {node}")
    if (more := len(ends) - 3) > 0:
        parts.append(f"and {counted(more, 'more node')}")
    own = found.lost - found.lost_anyway
    if found.lost and found.circle is None:
        number = "" if found.lost == 1 and found.pods == 1 else f"{own or found.lost} "
        mark = "✗" if own else "✗ anyway:"
        parts.append(f"{number}{mark} {reason(found.why)}")
        if own and found.lost_anyway:
            parts.append(f"{found.lost_anyway} more ✗ anyway")
    if not parts:
        parts.append(
            f"{found.before} → {found.after} pods"
            if found.before != found.after
            else f"{found.after} pods run"
        )
    return "; ".join(parts)


def _to(found: Workload) -> list[tuple[str, str, int]]:
    """Return where the pods end, most first."""
    counts: dict[str, int] = {}
    for _, node, count in found.moves:
        counts[node] = counts.get(node, 0) + count
    return [("", node, count) for node, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def pod_row(one: EvictedPod) -> Row:
    """Return a pod's line of the table."""
    then = f"→ {one.goes_to}" if one.goes_to else f"✗ {reason(one.why_nowhere)}"
    if one.again_after is not None:
        then += f", to be evicted again {'at once' if not one.again_after else 'after ' + duration(one.again_after)}"
        if one.ends_on:
            then += f", in the end on {one.ends_on}"
    elif one.goes_to and not one.ends_on and one.wanted:
        then += f" ✗ {reason(one.why_nowhere)}"
    elif one.ends_on and one.ends_on != one.goes_to:
        then += f", in the end on {one.ends_on}"
    return when(one.after), one.pod, one.node, one.cause.say(), then


def when(moment: timedelta) -> str:
    return duration(moment) if moment >= timedelta(seconds=1) else "at once"


def reason(text: str) -> str:
    """Return the scheduler's words without what it says about preemption when that does not help."""
    return short(text.partition(" preemption: ")[0], 200)


def budget(found: Budget) -> str:
    """Return what becomes of a budget."""
    parts = []
    if found.broken_for is not None:
        how_long = (
            "to the end"
            if found.until_the_end
            else f"for {duration(max(found.broken_for, timedelta(seconds=1)))}"
        )
        parts.append(f"broken {how_long}: {found.lowest} healthy of {found.desired} wanted at the lowest")
    if found.blocks:
        parts.append(
            f"keeps {counted(len(found.blocks), 'pod')} from being evicted: {listed(found.blocks, 3)}"
        )
    return f"{found.name} {'; '.join(parts)}"


def numbers(found: Forecast) -> Iterator[tuple[str, str]]:
    """Yield the answer as names and numbers."""
    yield "leaving", str(len(found.leaving))
    yield "lost", str(len(found.lost))
    yield "othersLost", str(found.others_lost)
    yield "leavingAnyway", str(found.anyway)
    yield "circles", str(len(found.circles))
    yield "workloads", str(len(found.workloads))
    yield "staying", str(found.staying)
    yield "lockedOut", str(len(found.locked_out))
    yield "helped", str(len(found.helped))
    yield "hindered", str(len(found.hindered))
    yield "budgetsBroken", str(sum(each.broken_for is not None for each in found.budgets))
    yield "budgetsBlocking", str(sum(bool(each.blocks) for each in found.budgets))
    yield "freeCpu", f"{found.room.get('cpu', 0):g}"
    yield "freeMemoryBytes", f"{found.room.get('memory', 0):.0f}"
    yield "freePods", f"{found.room.get('pods', 0):.0f}"
    yield "lookedSeconds", f"{found.looked.total_seconds():g}"


def looked(found: Forecast) -> str:
    """Return how far the copy was run, and whether it came to rest."""
    far = duration(found.looked)
    if found.circles and not found.settled:
        return f"Looked {far} ahead; the eviction loops go on."
    if not found.settled:
        return f"Looked {far} ahead; something still goes on there (--until looks further)."
    if found.later:
        pods = _are(len(found.later), "pod")
        return f"Looked {far} ahead; {pods} evicted after that (--until looks further)."
    return f"Looked {far} ahead; nothing more follows from the change."
