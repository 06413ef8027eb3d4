"""Output of `weir explain` as text, and parts shared with other formats."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from shutil import get_terminal_size
from typing import Any, Final

from weir.explain.diff import diff, masked, own_diff
from weir.explain.explanation import Explanation, verdict_line
from weir.explain.fix import Fix
from weir.explain.phrases import counted, listed, short
from weir.explain.ranges import merged, range_sentences
from weir.explain.words import HEADINGS, sentence
from weir.objects.manifest import Document
from weir.objects.text_edits import changed_text
from weir.output import BAD, DIM, GOOD, NOTE, coloured_diff, paint, table, to_yaml

_ROWS: Final = 12
#: Said of nodes that only what keeps the pod off every node speaks against.
_NOTHING_ELSE: Final = "nothing else in the way"


def is_well(answer: Explanation, *, preempting: bool = True) -> bool:
    """Return whether the pod fits somewhere, with *preempting* also after others left, or may stay where it is."""
    here = (verdict for verdict in answer.nodes if verdict.node == answer.placed_on)
    if answer.observed.differs(answer.complete):
        return False  # the cluster itself says that it does not run
    if preempting and answer.preempts:
        return True
    return answer.complete or any(verdict.stay.for_ever for verdict in here)


def width() -> int:
    """Return the terminal's width; 0 without a terminal."""
    return get_terminal_size().columns if sys.stdout.isatty() else 0


def text(
    answer: Explanation,
    assumed: str = "",
    *,
    show_all: bool = False,
    colour: bool = False,
    as_patch: bool = False,
    written: Document | None = None,
) -> Iterator[str]:
    """Yield the lines that answer the question, most important first; *assumed* comes near the end.

    *written* is the document of the file that asked, which the change is shown in.
    """
    good = is_well(answer)
    yield paint(verdict_line(answer), GOOD if good else BAD, bold=True, on=colour)
    differs = answer.observed.differs(answer.complete)
    for note in notes(answer):
        yield paint(f"  {note}", BAD, on=colour and note == differs)
    if answer.counts:
        yield ""
        heading, rows = counts(answer)
        yield heading
        yield from table(rows)
    if answer.groups:
        yield ""
        yield from _groups(answer, show_all, colour)
    if answer.fix:
        yield ""
        yield from _fix(answer, answer.fix, colour, as_patch, written)
    elif not good and answer.nodes:
        yield ""
        yield without_fix(answer)
    yield ""
    for speaker, message in scheduler_messages(answer):
        yield paint(f"{speaker}: {message}", DIM, on=colour)
    if assumed:
        yield paint(assumed, DIM, on=colour)
    yield paint(f"Not considered: {'; '.join(answer.not_considered)}.", DIM, on=colour)


def notes(answer: Explanation) -> Iterator[str]:
    """Yield what the headline leaves out: replicas, victims, the cluster's own words, gaps, further blockers."""
    if answer.replicas is not None and not answer.replicas.short and answer.fits:
        yield f"{answer.replicas.line()}{', as far as is known' if answer.unsure else ''}"
    if answer.preempts:
        yield f"preempted: {listed(answer.attempt.victims, 5)}"
    if differs := answer.observed.differs(answer.complete):
        yield differs
    else:
        yield from (f"the cluster says: {short(each, 300)}" for each in answer.observed.says)
    yield from (f"not known: {each}" for each in answer.unknown[1 if answer.unsure else 0 :])
    yield from (f"also: {sentence(reason)}" for reason in answer.blockers[1:])


def scheduler_messages(answer: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the scheduler's message, and that of Kubernetes where it differs, each with its introduction."""
    attempt = answer.attempt
    if attempt.message:
        yield "The scheduler would say", short(attempt.message, 600)
        if attempt.upstream != attempt.message:
            yield "In the words of Kubernetes 1.35 and later", short(attempt.upstream, 600)


def counts(answer: Explanation) -> tuple[str, list[tuple[str, str]]]:
    """Return how many nodes there are, and how many of them say what."""
    total = len(answer.nodes)
    rows = [(str(number), HEADINGS.get(kind, kind)) for kind, number in answer.counts.items()]
    if answer.fitting:
        rows.insert(0, (str(len(answer.fitting)), _NOTHING_ELSE if answer.blockers else "fit"))
    overlap = sum(answer.counts.values()) + len(answer.fitting) > total
    return f"Of {counted(total, 'node')}" + (" (a node can have several reasons):" if overlap else ":"), rows


def without_fix(answer: Explanation) -> str:
    """Return what is said where no change is proposed."""
    kinds = {reason.kind for reason in answer.blockers}
    if "over" in kinds:
        return "Nothing brings this pod back; ask about its workload, or about the pod's manifest."
    if "invalid" in kinds:
        return "First correct what the API server refuses, then ask again."
    return "None of the changes to the pod that were tried helps: what is missing is in the cluster."


def _groups(answer: Explanation, show_all: bool, colour: bool) -> Iterator[str]:
    yield "Nodes, closest first:"
    rows, rest = groups(answer, show_all)
    yield from table(
        [
            (number, names, f"{paint('✓' if fits else '✗', GOOD if fits else BAD, on=colour)} {why}")
            for number, names, fits, why in rows
        ]
    )
    if rest:
        yield f"  {rest}"


def groups(answer: Explanation, show_all: bool) -> tuple[list[tuple[str, str, bool, str]], str]:
    """Return a row for each group of nodes (how many, some names, whether they fit, why), and what is left out."""
    rows_of_groups = merged(answer.groups)
    shown = rows_of_groups if show_all else rows_of_groups[:_ROWS]
    rows = []
    for group, why in zip(shown, range_sentences(rows_of_groups), strict=False):
        most = len(group.nodes) if show_all else 2
        names = ", ".join(group.nodes[:most]) + (", …" if len(group.nodes) > most else "")
        if answer.blockers and group.verdict.fits:  # what keeps the pod off every node stands above
            why = why.replace("fits", _NOTHING_ELSE, 1)
        rows.append((f"×{len(group.nodes):,}", names, group.verdict.fits, why))
    rest = rows_of_groups[len(shown) :]
    nodes = sum(len(group.nodes) for group in rest)
    left = (
        f"… {counted(nodes, 'node')} more in {counted(len(rest), 'group')}: --all shows them" if rest else ""
    )
    return rows, left


def wrapped(line: str, width: int) -> Iterator[str]:
    """Yield *line* in as many as the terminal is wide for; words stay whole, and so do manifests."""
    if not width or len(line) <= width or line.startswith("    "):
        yield line
        return
    indent = min(len(line) - len(line.lstrip()) + 6, width // 2)
    yield from textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def _fix(
    answer: Explanation, fix: Fix, colour: bool, as_patch: bool, written: Document | None
) -> Iterator[str]:
    subject = answer.subject
    yield paint(f"Smallest change (checked: it then fits on {listed(fix.nodes, 2)}):", NOTE, on=colour)
    for edit in fix.edits:
        yield f"  - {edit.say()}"
    if fix.patch and as_patch:
        yield f"  as a merge patch for {subject.title}:"
        yield ""
        yield from to_yaml(masked(fix.patch), indent=4).split("\n")
    elif fix.patch:
        yield ""
        yield from coloured_diff(change(answer, fix, written), colour)
    for other, original in fix.others:
        yield f"  as {_title(other)}:"
        yield ""
        if original is None or as_patch:
            yield from to_yaml(other, indent=4).split("\n")
        else:
            yield from coloured_diff(other_change(other, original), colour)
    for command in fix.commands:
        yield f"    {command}"
    if fix.patch and subject.stored and not set(fix.patch.get("spec", ())) <= {"tolerations"}:
        yield "  A stored pod cannot be changed so: delete it and create it with the change."
    for edits in fix.alternatives:
        yield f"  or: {'; '.join(edit.say() for edit in edits)}"


def _title(document: Mapping[str, Any]) -> str:
    metadata = document["metadata"]
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{document['kind']} {namespace}{metadata['name']}"


def other_change(patch: Mapping[str, Any], original: Mapping[str, Any]) -> Iterator[str]:
    """Yield the merge patch of another object as a diff of it."""
    yield from diff(original, {**original, **patch}, _title(patch), to_yaml)


def change(answer: Explanation, fix: Fix, written: Document | None) -> Iterator[str]:
    """Yield the change as a diff of the user's own file, or of the document where there is none."""
    subject = answer.subject
    name = subject.source or subject.title
    changed = changed_text(written, fix.after) if written is not None else None
    yield from own_diff(changed, name) if changed else diff(subject.document, fix.after, name, to_yaml)
