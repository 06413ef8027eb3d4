"""Answer of `weir advise`: thresholds for workloads, and workloads that depend on one value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import click
import msgspec

from weir.advise import report
from weir.advise.question import Cluster, Question, read_tolerations
from weir.advise.taints import UntoleratedTaint, untolerated_taints
from weir.advise.words import change_line, heading, room, threshold_lines, untolerated_line
from weir.advise.workload import Advice
from weir.advise.workload import advise as ask
from weir.client.cluster_gates import API_SERVER, SCHEDULER
from weir.client.snapshot import CREATION, DEVICES, PLACEMENT
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE
from weir.explain.diff import diff, own_diff
from weir.explain.phrases import counted
from weir.explain.subject import Subject, subjects
from weir.gates import Gates
from weir.inputs.certainty import because, distinct, doubt, known_gates, needed_kinds
from weir.inputs.cluster import ClusterObjects, no_workload, read_cluster
from weir.inputs.files import CannotSay, read_documents, refuse_long_tolerations
from weir.inputs.live import ClusterSource
from weir.objects.manifest import Document
from weir.objects.text_edits import changed_text
from weir.observe.interpreter import collect_rarely
from weir.output import (
    BAD,
    DIM,
    GOOD,
    NOTE,
    coloured_diff,
    emit,
    paint,
    progress,
    say,
    to_yaml,
    wants_colour,
)
from weir.taints.features import needed_gates
from weir.world import World

_ROWS: Final = 20
_WORKLOADS: Final = ("Deployment", "DaemonSet", "Job", "CronJob")
#: Of one workload: each is tried with other values, and without it.
MOST_TOLERATIONS: Final = 50

Asked = list[tuple["Subject", "Document | None"]]
Answer = tuple[list[tuple["Advice", "Document | None"]], list["UntoleratedTaint"]]


def answer(
    files: Sequence[str],
    everything: bool,
    where: ClusterSource,
    keep: int | None,
    output: str,
    given: Mapping[str, bool],
) -> int:
    """Return the exit code of `weir advise`, after writing its result."""
    if bool(files) == everything:
        raise click.UsageError("say which workloads: -f FILE, or --all for those of the cluster")
    if [*files, *where.dump].count("-") > 1:
        raise click.UsageError("stdin (-) can be read only once")
    manifests = read_documents(files)
    asked: Asked = [*_from_files(manifests)]
    if files and not asked:
        raise no_workload(files, manifests)
    with collect_rarely(then=False):
        held = read_cluster(where, _kinds(), stream=True)
    if everything:
        asked = [(subject, None) for subject in _in_cluster(held)]
    needed = frozenset(kind for subject, _ in asked for kind in needed_kinds(subject.pod_spec)) | {
        "Node",
        "Pod",
    }
    if missing := held.lacks(needed | (frozenset(_WORKLOADS) if everything else frozenset())):
        raise CannotSay(f"cannot advise: {because(missing)}")
    with collect_rarely(then=False):
        world = held.world()
    known = known_gates(
        where,
        given,
        (API_SERVER, SCHEDULER),
        {subject.namespace for subject, _ in asked} | {"default"},
        held.record,
    )
    used = needed_gates(subject.document for subject, _ in asked)
    found = distinct(known, used, lambda gates: _answer(asked, world, gates, keep or 0), _same)
    if output == "text":
        for gates, (advice, untolerated) in found:
            if len(found) > 1:
                say(paint(doubt(known, used, gates), NOTE, bold=True, on=wants_colour()))
            for line in text(advice, untolerated, colour=wants_colour()):
                say(line)
        say(paint(known.line(), DIM, on=wants_colour()))
    else:
        documents = [
            report.document((each for each, _ in advice), untolerated, gates, known.report())
            for gates, (advice, untolerated) in found
        ]
        emit(documents[0] | ({"otherwise": documents[1]} if len(documents) > 1 else {}), output)
    if unmeasured := _unmeasured(asked, world):
        say(unmeasured, err=True)
    if len(found) > 1:
        return CANNOT_SAY
    if any(each.rank[0] < 3 or each.refused for each, _ in found[0][1][0]):
        return FINDINGS
    return CANNOT_SAY if unmeasured else FINE


def _unmeasured(asked: Asked, world: World) -> str:
    """Return the sentence on nodes that do not say what room they have, if a workload asks for some; else ""."""
    silent = [
        each
        for each in world.nodes.values()
        if each.status.allocatable is None and each.status.capacity is None
    ]
    if not silent or not any(b'"requests"' in msgspec.json.encode(subject.pod_spec) for subject, _ in asked):
        return ""
    what = f"how much room {counted(len(silent), 'node')} {'has' if len(silent) == 1 else 'have'}"
    return f"Not certain: it is not known {what} (no allocatable in the snapshot)."


def _answer(asked: Asked, world: World, gates: Gates, keep: int) -> Answer:
    cluster, advised = Cluster(world, gates), []
    with collect_rarely(then=False), progress("trying thresholds, workload:") as tick:
        for done, (subject, source) in enumerate(asked, 1):
            advised.append((ask(Question(subject, cluster), keep), source))
            tick(done, len(asked))
    tolerations = [
        read_tolerations((subject.pod_spec or {}).get("tolerations") or ()) for subject, _ in asked
    ]
    return sorted(advised, key=lambda each: each[0].rank), untolerated_taints(world, tolerations, gates)


def _same(one: Answer, other: Answer) -> bool:
    first, second = (
        report.document((each for each, _ in advice), untolerated, Gates(), {})
        for advice, untolerated in (one, other)
    )
    return first == second


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def _kinds() -> tuple[str, ...]:
    return tuple(dict.fromkeys((*PLACEMENT, *DEVICES, *CREATION, *_WORKLOADS)))


def _from_files(documents: Sequence[Document]) -> Iterator[tuple[Subject, Document]]:
    """Yield the workloads of the manifests, each with the document it stands in."""
    for document in documents:
        for item in document.items():
            for subject in subjects(item.value):
                subject.pod()  # a wrong shape is named now
                refuse_long_tolerations(subject.pod_spec, f"{item.file}: {subject.name}", MOST_TOLERATIONS)
                yield replace(subject, source=item.file), item


def _in_cluster(held: ClusterObjects) -> Iterator[Subject]:
    """Yield the workloads of the cluster that nothing else controls."""
    pods = (
        Subject.of({"kind": "Pod", **msgspec.json.decode(source)})
        for head, source in held.pod_heads()
        if not any(owner.controller for owner in head.owner_references or ())
    )
    for subject in chain((each for _, document in held.documents for each in subjects(document)), pods):
        metadata = subject.document.get("metadata") or {}
        owners = metadata.get("ownerReferences") or ()
        if any(isinstance(owner, dict) and owner.get("controller") for owner in owners):
            continue
        try:
            refuse_long_tolerations(subject.pod_spec, subject.name, MOST_TOLERATIONS)
        except click.UsageError as error:
            say(f"left out: {error.message}", err=True)
        else:
            yield replace(subject, in_cluster=True)


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def text(
    advice: Sequence[tuple[Advice, Document | None]],
    untolerated: Sequence[UntoleratedTaint],
    *,
    colour: bool = False,
) -> Iterator[str]:
    """Yield the lines of the answer, the most fragile workload first."""
    for each, source in advice:
        well = each.rank[0] == 3 and not each.refused
        yield paint(heading(each), GOOD if well else BAD, bold=True, on=colour)
        if not each.refused:
            yield f"  {room(each)}"
        for threshold in each.thresholds:
            for line in threshold_lines(threshold, each.keep):
                yield f"  {line}"
        for change in each.changes:
            yield paint(f"  Advice: {change_line(change, each.nodes)}", NOTE, on=colour)
            yield from coloured_diff(_diff(each.subject, change.after, source), colour)
        yield ""
    if untolerated:
        yield paint("Taints that nobody tolerates:", NOTE, bold=True, on=colour)
        for taint in untolerated[:_ROWS]:
            yield f"  {untolerated_line(taint)}"
        if rest := untolerated[_ROWS:]:
            yield f"  … and {counted(len(rest), 'taint')} more: -o json has them all"
        yield ""


def _diff(before: Subject, after: Subject, source: Document | None) -> Iterator[str]:
    """Yield the change as a diff of the user's own file, or of the object as kubectl would write it."""
    name = before.source or before.title
    change = changed_text(source, after.document) if source is not None else None
    shown: dict[str, Any] = {key: value for key, value in before.document.items() if key != "status"}
    then = {key: value for key, value in after.document.items() if key != "status"}
    yield from own_diff(change, name) if change else diff(shown, then, name, to_yaml)
