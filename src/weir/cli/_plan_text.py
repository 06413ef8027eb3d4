"""Output of `weir plan` as text: a plan, or why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from weir.explain.phrases import counted, duration, listed
from weir.output import BAD, DIM, GOOD, paint, table, wrapped
from weir.whatif.words import title

if TYPE_CHECKING:
    from weir.plan.document import Plan, Wave
    from weir.plan.search import NoPlan

_HEAD: Final = ("WAVE", "NODES", "PODS", "MOVES", "FEWEST RUNNING", "STARTS", "TAKES")
_ROWS: Final = 40


def waves_text(plan: Plan, *, show_all: bool, colour: bool, width: int | None) -> Iterator[str]:
    """Yield the lines that say what a plan does: its size, and a table of its waves."""
    totals = plan.totals
    expensive = f" ({totals.expensive_moves} of them expensive)" if totals.expensive_moves else ""
    over = f" over {counted(totals.nodes, 'node')}" if totals.nodes else ""
    headline = (
        f"{counted(totals.waves, 'wave')}{over}: "
        f"{counted(totals.moved_pods, 'pod')} moved{expensive}, about {_time(totals.seconds)}."
    )
    yield from (paint(line, GOOD, bold=True, on=colour) for line in wrapped(headline, width))
    yield ""
    waves = plan.waves if show_all else plan.waves[:_ROWS]
    yield from table([_HEAD, *(_row(wave, show_all) for wave in waves)], width=width)
    if rest := len(plan.waves) - len(waves):
        yield f"  … and {rest} more: --all shows them"
    yield ""


def plan_text(plan: Plan, assumed: str, *, show_all: bool, colour: bool, width: int | None) -> Iterator[str]:
    """Yield the lines of a plan, most important first."""
    yield from waves_text(plan, show_all=show_all, colour=colour, width=width)
    for wave in plan.waves:
        for note in wave.notes:
            yield from wrapped(f"Wave {wave.number}: {note}.", width)
    yield from wrapped(
        "After each wave wait until its pods are gone, what replaces them runs, and budgets are as before: "
        "-o script writes the commands with these waits, -o yaml the plan.",
        width,
    )
    if plan.searched is not None:
        if plan.searched.bound:
            yield from wrapped(f"{plan.searched.bound[0].upper()}{plan.searched.bound[1:]}.", width)
        tried = plan.searched.tried if show_all else plan.searched.tried[:3]
        more = len(plan.searched.tried) - len(tried)
        names = "; ".join(tried) + (f"; and {more} more" if more else "")
        yield from wrapped(f"Tried in {counted(plan.searched.forecasts, 'forecast')}: {names}.", width)
    yield ""
    yield from (paint(line, DIM, on=colour) for line in wrapped(assumed, width))
    unknown = f"Not known: {'; '.join(plan.not_known)}."
    yield from (paint(line, DIM, on=colour) for line in wrapped(unknown, width))


def _row(wave: Wave, show_all: bool) -> tuple[str, ...]:
    most = 1000 if show_all else 3
    moved = Counter[str]()
    for one in wave.evictions:
        moved[one.workload] += 1
    fewest = [
        f"{title(each.workload)} {each.lowest} of {each.running}"
        for each in sorted(
            wave.wait_for.workloads, key=lambda each: (each.lowest - each.running, each.workload)
        )
        if each.workload in moved and each.lowest < each.running
    ]
    return (
        str(wave.number),
        listed(wave.nodes or [_name(each) for each in wave.manifests] or wave.changes, most),
        str(len(wave.evictions)),
        listed([f"{count} of {title(name)}" for name, count in moved.most_common()], most),
        listed(fewest, 1 if not show_all else most),
        _time(wave.starts_after_seconds),
        _time(wave.ends_after_seconds - wave.starts_after_seconds),
    )


def _name(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind'].lower()}/{manifest['metadata']['name']}"


def none_text(none: NoPlan, assumed: str, *, colour: bool, width: int | None) -> Iterator[str]:
    """Yield the lines that say why there is no plan, and what would make one possible."""
    headline = (
        "There is no plan that keeps all goals." if none.proven else "No plan was found that keeps all goals."
    )
    yield from (paint(line, BAD, bold=True, on=colour) for line in wrapped(headline, width))
    yield ""
    for text in dict.fromkeys(each.text for each in none.breaches[:5]):
        yield from wrapped(f"{text.rstrip('.')}.", width)
    if none.proven:
        yield from wrapped(f"Proven: {none.proven}.", width)
    yield ""
    if none.relaxations:
        yield "A plan is possible with any of these (each was forecast):"
        for each in none.relaxations:
            yield from wrapped(f"- {each}", width, indent="  ")
    else:
        yield from wrapped("No single relaxation that was tried makes one possible.", width)
    yield from wrapped(f"Tried in {counted(none.forecasts, 'forecast')}: {'; '.join(none.tried)}.", width)
    if assumed:
        yield ""
        yield from (paint(line, DIM, on=colour) for line in wrapped(assumed, width))


def _time(seconds: float) -> str:
    return duration(timedelta(seconds=round(seconds)))
