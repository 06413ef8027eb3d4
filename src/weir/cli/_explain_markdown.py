"""Output of `weir explain` as Markdown, for pull requests.

Names and messages of a cluster are escaped in prose, and a block's fence is longer than any run of backticks in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from weir.cli._explain_text import (
    change,
    counts,
    groups,
    is_well,
    notes,
    other_change,
    scheduler_messages,
    without_fix,
)
from weir.explain.diff import masked
from weir.explain.explanation import Explanation, verdict_line
from weir.explain.fix import Fix
from weir.explain.phrases import listed
from weir.objects.manifest import Document
from weir.output import to_yaml

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(
    answer: Explanation,
    assumed: str = "",
    *,
    show_all: bool = False,
    as_patch: bool = False,
    written: Document | None = None,
) -> Iterator[str]:
    """Yield the lines that answer the question, most important first."""
    good = is_well(answer)
    yield f"### {'✅' if good else '❌'} {plain(verdict_line(answer))}"
    yield ""
    yield from paragraph(f"- {plain(each)}" for each in notes(answer))
    if answer.counts:
        heading, rows = counts(answer)
        yield from paragraph((f"**{plain(heading)}**",))
        yield from grid(("nodes", "why"), rows)
    if answer.groups:
        nodes, rest = groups(answer, show_all)
        cells = [(number, names, f"{'✓' if fits else '✗'} {why}") for number, names, fits, why in nodes]
        yield from paragraph(("**Nodes, closest first**",))
        yield from grid(("", "nodes", "answer"), cells)
        if rest:
            yield from paragraph((plain(rest),))
    if answer.fix:
        yield from _fix(answer, answer.fix, as_patch, written)
    elif not good and answer.nodes:
        yield from paragraph((without_fix(answer),))
    for speaker, message in scheduler_messages(answer):
        yield from paragraph((f"> {speaker}: {plain(message)}",))
    if assumed:
        yield from paragraph((plain(assumed),))
    yield f"Not considered: {plain('; '.join(answer.not_considered))}."


def _fix(answer: Explanation, fix: Fix, as_patch: bool, written: Document | None) -> Iterator[str]:
    subject = answer.subject
    where = plain(listed(fix.nodes, 2))
    yield from paragraph((f"**Smallest change** (checked: it then fits on {where})",))
    yield from paragraph(f"- {plain(edit.say())}" for edit in fix.edits)
    if fix.patch and as_patch:
        yield from paragraph((f"As a merge patch for {plain(subject.title)}:",))
        yield from block("yaml", to_yaml(masked(fix.patch)).split("\n"))
    elif fix.patch:
        yield from block("diff", change(answer, fix, written))
    for other, original in fix.others:
        if original is None or as_patch:
            yield from block("yaml", to_yaml(other).split("\n"))
        else:
            yield from block("diff", other_change(other, original))
    if fix.commands:
        yield from block("sh", fix.commands)
    if fix.patch and subject.stored and not set(fix.patch.get("spec", ())) <= {"tolerations"}:
        yield from paragraph(("A stored pod cannot be changed so: delete it and create it with the change.",))
    yield from paragraph(
        f"- or: {plain('; '.join(edit.say() for edit in edits))}" for edits in fix.alternatives
    )


# ── markup ───────────────────────────────────────────────────────────────────────────────────────


def plain(text: str) -> str:
    """Return *text* so that Markdown shows it as it is, on one line.

    >>> print(plain("a_b | <c>"))
    a\\_b \\| \\<c\\>
    """
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def paragraph(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines and an empty one after them; nothing where there are none."""
    text = list(lines)
    yield from text
    if text:
        yield ""


def grid(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield a table."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(map(plain, row))} |"
    yield ""


def block(language: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield a block of code that nothing in it can end."""
    code = list(lines)
    runs = (len(run) for line in code for run in re.findall("`+", line))
    fence = "`" * max(3, 1 + max(runs, default=0))
    yield f"{fence}{language}"
    yield from code
    yield fence
    yield ""
