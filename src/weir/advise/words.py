"""Text form of advice: a heading per workload, its thresholds, the changes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from weir.advise.taints import UntoleratedTaint
from weir.advise.thresholds import Thresholds
from weir.advise.workload import Advice, Change
from weir.explain.phrases import asks, counted, listed, short, taint_name
from weir.objects.core import Toleration


def heading(advice: Advice) -> str:
    """Return the verdict about one workload."""
    title = advice.subject.title
    if advice.refused:
        return f"{title}: refused by the API server: {short(advice.refused[0], 200)}"
    if not advice.nodes:
        return f"{title}: fits on none of {counted(advice.total, 'node')}"
    if advice.resting_on is not None:
        all_of = (
            "its only node has" if len(advice.nodes) == 1 else f"all its {len(advice.nodes):,} nodes have"
        )
        return f"{title}: one value away from nowhere, {all_of} {taint_name(advice.resting_on)}"
    if len(advice.nodes) < advice.keep:
        return f"{title}: {counted(len(advice.nodes), 'node')} of the {advice.keep:,} wanted"
    return f"{title}: {counted(len(advice.nodes), 'node')} of {advice.total:,}"


def room(advice: Advice) -> str:
    """Return how many nodes and zones there are for the workload, and how many are wanted."""
    zones = (
        f", in {counted(len(advice.zones), 'zone')}: {listed(sorted(advice.zones), 4)}"
        if advice.zones
        else ""
    )
    return f"{len(advice.nodes):,} of {counted(advice.total, 'node')} take it, {advice.keep:,} wanted{zones}"


def threshold_lines(each: Thresholds, keep: int) -> Iterator[str]:
    """Yield what one threshold decides."""
    name = f"{each.toleration.key} {asks(each.toleration)}"
    if not each.steps:
        yield f"{name}: no node has a value that it could be about"
        return
    if each.tightest is None:
        yield f"{name}: no value gives it {counted(keep, 'node')}"
    else:
        yield (
            f"{name}: the tightest for {counted(keep, 'node')} is {_with(each.toleration, each.tightest.value)} "
            f"({counted(len(each.tightest.nodes), 'node')})"
        )
    if each.loosest is not None:
        yield (
            f"  looser than {_with(each.toleration, each.loosest.value)} wins nothing more "
            f"({counted(len(each.loosest.nodes), 'node')})"
        )
    lost: dict[str, list[str]] = {}
    for zone, value in each.zones:
        lost.setdefault(value, []).append(short(zone, 60))
    for value, zones in lost.items() if len(each.zones) > 1 else ():
        noun = "zone" if len(zones) == 1 else "zones"
        last = ", the last" if value == each.zones[-1][1] else ""
        yield f"  tighter than {_with(each.toleration, value)} loses {noun} {listed(zones, 4)}{last}"


def change_line(change: Change, before: frozenset[str]) -> str:
    """Return one change as an imperative sentence, with what was found when it was tried."""
    entry = change.toleration
    if change.kind == "remove":
        return f"remove the toleration {toleration_text(entry)}: no node has a taint that needs it"
    more = len(change.nodes) - len(before)
    return (
        f"tolerate {entry.key} {_with(entry, change.value)} instead of {asks(entry)} "
        f"(checked: {counted(len(change.nodes), 'node')} then take it, {more:,} more)"
    )


def toleration_text(entry: Toleration) -> str:
    """Return a toleration in a few words."""
    effect = f" ({entry.effect})" if entry.effect else ""
    return f"{entry.key} {asks(entry)}{effect}".strip()


def untolerated_line(each: UntoleratedTaint) -> str:
    return f"{each.taint}: {counted(len(each.nodes), 'node')} ({listed(each.nodes, 3)})"


def _with(entry: Toleration, value: str) -> str:
    return asks(msgspec.structs.replace(entry, value=value))
