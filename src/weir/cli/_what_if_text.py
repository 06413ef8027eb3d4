"""Output of `weir what-if` as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from weir.explain.phrases import counted, listed
from weir.output import BAD, DIM, GOOD, paint, table, wrapped
from weir.whatif import words
from weir.whatif.forecast import Forecast, Workload
from weir.whatif.upgrade_order import ORDER

#: So many workloads are shown unless all are asked for: the worst, in the order of time.
_ROWS: Final = 20
_LOOPS: Final = 5


def text(
    found: Forecast,
    assumed: str,
    unseen: Sequence[str],
    *,
    show_all: bool = False,
    colour: bool = False,
    width: int | None = None,
) -> Iterator[str]:
    """Yield the lines of the answer, most important first."""

    def colored(sentence: str, tone: str = "reset", *, bold: bool = False) -> Iterator[str]:
        on = colour and tone != "reset"
        return (paint(line, tone, bold=bold, on=on) for line in wrapped(sentence, width))

    if found.differs:
        waiting = counted(len(found.differs), "pending pod")
        placed = listed([f"{each.pod} (on {each.node})" for each in found.differs], 3)
        otherwise = found.differs[0].why_not
        yield from colored(f"The copy places {waiting} before any change: {placed}. {otherwise}", BAD)
        yield ""
    if not found.changed and not found.touches and not found.ended_early:
        for note in found.notes:
            yield from colored(note, BAD)
        yield paint("Nothing would change: the cluster is like that already.", GOOD, on=colour)
        return
    changes = [f"change {said}" if said.startswith("gates ") else said for said in found.said]
    yield from colored(f"If you {'; then '.join(changes)}:")
    yield ""
    for note in found.notes:
        yield from colored(f"{note}.", "reset" if note.startswith(ORDER) else BAD, bold=True)
    loops = found.circles if show_all else found.circles[:_LOOPS]
    for circle in loops:
        yield from colored(words.eviction_loop(circle), BAD, bold=True)
    if more := len(found.circles) - len(loops):
        are = "is" if more == 1 else "are"
        yield from colored(
            f"… and {counted(more, 'more workload')} {are} {words.LOOPS}: --all shows them.", BAD
        )
    if found.notes or found.circles:
        yield ""
    yield from colored(words.headline(found), BAD if found.bad else GOOD, bold=True)
    if found.workloads:
        yield ""
        shown = found.workloads if show_all else _worst(found.workloads)
        yield from table([words.WORKLOAD_HEAD, *(words.workload_row(each) for each in shown)], width=width)
        if rest := words.folded(shown, found.workloads):
            yield from wrapped(rest, width, indent="  ")
    if show_all and found.leaving:
        yield ""
        yield from table([words.POD_HEAD, *(words.pod_row(one) for one in found.leaving)], width=width)
    for title, turns in (
        ("Pending pods that are scheduled", found.helped),
        ("Pods that become unschedulable", found.hindered),
    ):
        if turns:
            yield ""
            yield f"{title}:"
            yield from _grouped(
                words.schedulability_pod_rows(turns) if show_all else words.schedulability_rows(turns),
                show_all,
                width,
            )
    if found.budgets:
        yield ""
        yield "Disruption budgets:"
        for budget in found.budgets:
            yield from wrapped(words.budget(budget), width, indent="  ")
    if found.locked_out:
        yield ""
        many, stay = counted(len(found.locked_out), "pod"), "stays" if len(found.locked_out) == 1 else "stay"
        yield from colored(f"{many} {stay}, but would not be scheduled there again:")
        pods = [(each.pod, each.node, each.why) for each in found.locked_out]
        yield from _grouped(pods if show_all else words.locked_out_rows(found.locked_out), show_all, width)
    if anyway := words.goes_on_anyway(found):
        yield ""
        yield from colored(anyway)
    if found.story:
        yield ""
        yield from found.story
    yield ""
    if ran_on := words.control_plane(found):
        yield from colored(ran_on)
    yield from colored(words.looked(found))
    yield from colored(
        "The same by the numbers: " + " ".join(f"{name}={value}" for name, value in words.numbers(found))
    )
    yield ""
    yield from colored(assumed, DIM)
    yield from colored(f"Not considered: {'; '.join(unseen)}.", DIM)


def _worst(workloads: Sequence[Workload]) -> list[Workload]:
    """Return as many workloads as are shown, the worst of them, in the order they came."""
    names = {each.name for each in sorted(workloads, key=lambda each: each.rank)[:_ROWS]}
    return [each for each in workloads if each.name in names]


def _grouped(rows: Sequence[tuple[str, ...]], show_all: bool, width: int | None) -> Iterator[str]:
    """Yield a table of *rows*; of many only the first, and how many more there are."""
    shown = rows if show_all else rows[:_ROWS]
    yield from table(shown, width=width)
    if rest := len(rows) - len(shown):
        yield f"  … and {rest:,} more: --all shows them"
