"""Sentences and table rows of a forecast; colour and columns are in weir.cli._what_if_text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta

from weir.explain.phrases import counted, duration, listed, short
from weir.whatif.circles import Circle
from weir.whatif.forecast import Budget, Forecast, Leaving, LockedOut, Turn, Workload

Row = tuple[str, ...]
WORKLOAD_HEAD: Row = ("WHEN", "WHO", "PODS", "BECAUSE", "THEN")
POD_HEAD: Row = ("WHEN", "POD", "FROM", "BECAUSE", "THEN")


def title(workload: str) -> str:
    """Return a workload as people call it.

    >>> title("shop/Deployment/web"), title("shop/Pod/console")
    ('deployment shop/web', 'pod shop/console')
    """
    namespace, kind, name = workload.split("/", 2)
    return f"{kind.lower()} {namespace}/{name}"


def circle(found: Circle) -> str:
    """Return the sentence that comes before everything else."""
    pods = f"{found.pods} pods of " if found.pods > 1 else ""
    goes = "go" if found.pods > 1 else "goes"
    where = f" on {listed(found.nodes, 3)}" if found.nodes else ""
    return f"{pods}{title(found.workload)} {goes} in circles{where}, {_pace(found)}: {found.cause.say()}."


def _pace(found: Circle) -> str:
    """Return how often a circle comes round."""
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


def headline(found: Forecast) -> str:
    """Return the one sentence to remember."""
    number, lost = len(found.leaving), len(found.lost)
    said = "No pod leaves"
    if found.ended_early:
        far = duration(found.looked)
        until = (
            f"until then {counted(number, 'pod')} {'leaves' if number == 1 else 'leave'}" if number else ""
        )
        return f"Cannot say beyond {far}{f'; {until}' if until else ''}."
    if number:
        said = f"{counted(number, 'pod')} {'leaves' if number == 1 else 'leave'}"
        if not lost:
            said += ", and finds a place" if number == 1 else ", and all find a place"
        elif lost == number:
            said += ", and has nowhere to go" if number == 1 else ", and none finds a place"
        else:
            said += f"; {lost} of them {'has' if lost == 1 else 'have'} nowhere to go"
    if later := len(found.later):
        leave = "leaves later," if later == 1 else "leave later, the first"
        leave = f"{counted(later, 'pod')} {leave} after {duration(found.later[0][1])}"
        said = f"{said}; {leave}" if number else leave
    if more := found.others_lost:
        said += (
            f"; {counted(more, 'more pod' if lost else 'pod')} {'has' if more == 1 else 'have'} nowhere to go"
        )
    if helped := len(found.helped):
        said += f"; {counted(helped, 'waiting pod')} {'runs' if helped == 1 else 'run'} then"
    if hindered := len(found.hindered):
        said += f"; {counted(hindered, 'pod')} {'loses its place' if hindered == 1 else 'lose their place'}"
    if any(name.startswith("node/") for name in found.changed):
        stay = "stays" if found.staying == 1 else "stay"
        said += f"; {counted(found.staying, 'pod')} on the changed nodes {stay}"
        if later and found.staying:
            said += " until then"
    return f"{said}."


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
        parts.append(f"{counted(loops, 'workload')} {'goes' if loops == 1 else 'go'} in circles already")
    if found.anyway:
        parts.append(f"{counted(found.anyway, 'pod')} {'leaves' if found.anyway == 1 else 'leave'} anyway")
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
    nowhere = f", {lost:,} of them with nowhere to go" if lost else ""
    pods = f"{counted(own, 'pod')} that {'leaves' if own == 1 else 'leave'}"
    return f"… and {counted(len(rest), 'more workload')} with {pods}{nowhere}: --all shows them"


def turn_rows(turns: Sequence[Turn]) -> list[Row]:
    """Return a line for each workload and reason: who, how many pods, why not, and where they run."""
    groups: dict[tuple[str, str], list[Turn]] = {}
    for turn in turns:
        groups.setdefault((turn.workload, reason(turn.why_not or turn.waited_for)), []).append(turn)
    return [
        (
            title(workload) if workload else members[0].pod,
            str(len(members)),
            why if members[0].why_not or not why else f"waited: {why}",
            "" if members[0].why_not else f"→ {listed(sorted({each.node for each in members}), 2)}",
        )
        for (workload, why), members in groups.items()
    ]


def turn_pods(turns: Sequence[Turn]) -> list[Row]:
    """Return a line for each pod."""
    return [(each.pod, reason(each.why_not) or f"→ {each.node}") for each in turns]


def locked_out_rows(pods: Sequence[LockedOut]) -> list[Row]:
    """Return a line for each workload and reason with pods that could not come back."""
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
    for _, node, count in _to(found)[:3]:
        parts.append(f"→ {node}" if count == 1 and found.pods == 1 else f"{count} → {node}")
    if (more := len(_to(found)) - 3) > 0:
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


def pod_row(one: Leaving) -> Row:
    """Return a pod's line of the table."""
    then = f"→ {one.goes_to}" if one.goes_to else f"✗ {reason(one.why_nowhere)}"
    if one.again_after is not None:
        then += (
            f", to leave again {'at once' if not one.again_after else 'after ' + duration(one.again_after)}"
        )
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
        return f"Looked {far} ahead; the circles go on."
    if not found.settled:
        return f"Looked {far} ahead; something still goes on there (--until looks further)."
    if found.later:
        leave = "leaves" if len(found.later) == 1 else "leave"
        return f"Looked {far} ahead; {counted(len(found.later), 'pod')} {leave} after that (--until looks further)."
    return f"Looked {far} ahead, and all is quiet there."
