"""Answer of `weir explain`: reads the cluster and the manifests, explains each pod, prints the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from typing import Any, Final

import click
import msgspec

from weir.cli._explain_markdown import markdown
from weir.cli._explain_text import is_well, text, width, wrapped
from weir.client.cluster_gates import API_SERVER, SCHEDULER
from weir.client.known_gates import OPERATOR
from weir.client.snapshot import CREATION, DEVICES, PLACEMENT, VERSIONS
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE
from weir.explain.explanation import Explanation
from weir.explain.explanation import document as report
from weir.explain.phrases import asks, listed, short
from weir.explain.pod import explain as explain_pod
from weir.explain.subject import Subject, subjects
from weir.gates import Gates
from weir.inputs.certainty import (
    because,
    deciding,
    distinct,
    doubt,
    known_gates,
    needed_kinds,
    through_operator,
)
from weir.inputs.cluster import ClusterObjects, no_workload, read_cluster
from weir.inputs.files import CannotSay, read_documents
from weir.inputs.live import ClusterSource
from weir.lowering.tolerations import read_entry
from weir.objects.core import ViewError
from weir.objects.manifest import Document, ManifestError
from weir.objects.requests import RequestError, pod_requests
from weir.objects.templates import TEMPLATE_PATHS
from weir.observe.interpreter import collect_rarely
from weir.output import (
    NOTE,
    escaped,
    paint,
    progress,
    to_json,
    to_yaml,
    visible,
    wants_colour,
    write_document,
)
from weir.selectors.labels import Selector, SelectorError, parse
from weir.taints.features import needed_gates

#: How long `--watch` waits before it asks again.
_WATCH_SECONDS: Final = 2.0
#: Kinds that decide about pods and may stand in the same manifests.
_BROUGHT: Final = (
    "Namespace", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "ResourceClaim", "ResourceClaimTemplate",
    "DeviceClass", "PriorityClass", "RuntimeClass", "ServiceAccount", "LimitRange", "ResourceQuota",
)  # fmt: skip
_KINDS: Final = {
    "po": "Pod", "pods": "Pod", "deploy": "Deployment", "deployments": "Deployment",
    "rs": "ReplicaSet", "replicasets": "ReplicaSet",
    "sts": "StatefulSet", "statefulsets": "StatefulSet", "ds": "DaemonSet", "daemonsets": "DaemonSet",
    "cj": "CronJob", "jobs": "Job", "cronjobs": "CronJob",
}  # fmt: skip


def answer(
    names: Sequence[str],
    files: Sequence[str],
    where: ClusterSource,
    namespace: str | None,
    all_namespaces: bool,
    selector: str | None,
    output: str,
    show_all: bool,
    watch: bool,
    as_patch: bool,
    fail_on_preemption: bool,
    given: Mapping[str, bool],
) -> int:
    """Return the exit code of `weir explain`, after writing its result."""
    if watch and "-" in (*files, *where.dump):
        raise click.UsageError("--watch asks again, and stdin (-) can be read only once")
    several = _several(names, namespace, all_namespaces, selector)
    shown = ""
    while True:
        lines: list[str] = []
        with collect_rarely(then=False):
            code = _once(
                names,
                files,
                where,
                namespace,
                several,
                output,
                show_all,
                as_patch,
                fail_on_preemption,
                given,
                lines.append,
            )
        if shown != (shown := "\n".join(lines)):
            write_document(shown)
        if not watch or code == FINE:
            return code
        time.sleep(_WATCH_SECONDS)


def _once(
    names: Sequence[str],
    files: Sequence[str],
    where: ClusterSource,
    namespace: str | None,
    several: Several | None,
    output: str,
    show_all: bool,
    as_patch: bool,
    fail_on_preemption: bool,
    given: Mapping[str, bool],
    echo: Callable[[str], object],
) -> int:
    """Answer once; every line goes to *echo*, as it is shown."""
    name = None if several else _name(names)
    kind = several.kind if several else _kind(name or "")
    if not (files or name or several):
        raise click.UsageError("nothing to explain: give -f FILE, or POD, or -A for all pods that wait")
    if [*files, *where.dump].count("-") > 1:
        raise click.UsageError("stdin (-) can be read only once")
    documents = read_documents(files)
    nodes = list(_of_kinds(documents, "Node"))
    # Manifests that hold nodes are a cluster of their own, unless another one is named.
    alone = bool(nodes) and not (name or several or where.dump or where.live.named)
    asked: list[tuple[Subject, Document | None]] = [*_asked(documents, alone)]
    if files and not asked:
        raise no_workload(files, documents)
    if alone:
        held = ClusterObjects.of(((each.file, each.value) for each in documents), keep_gate=True)
    else:
        held = read_cluster(where, _kinds(kind if name or several else ""), stream=True)
        held.documents.extend(nodes)
        # What the manifests bring along is there when their pods are created.
        held.documents.extend(_of_kinds(documents, *_BROUGHT))
    if name or several:
        if missing := held.lacks({kind}):
            raise CannotSay(f"cannot say anything of {name or f'a {kind}'}: {because(missing)}")
        asked += [
            (each, None) for each in (several.of(held) if several else [_named(name or "", namespace, held)])
        ]
        if several and not asked and output in ("text", "markdown"):
            echo(several.none)
            return FINE
    unsaid: dict[str, list[str]] = {}
    for subject, _ in asked:
        if missing := held.lacks({"Node", *needed_kinds(subject.pod_spec)}):
            unsaid.setdefault(because(missing), []).append(subject.title)
    if unsaid:
        raise CannotSay(
            "; ".join(
                f"cannot say where {listed(titles, 3)} {'fits' if len(titles) == 1 else 'fit'}: {why}"
                for why, titles in unsaid.items()
            )
        )
    for subject, source in asked:
        try:
            pod_requests(subject.pod())
        except (ViewError, RequestError) as error:
            raise _placed(error, source) from None
    world = held.world()
    namespaces = [*(subject.namespace for subject, _ in asked), "default"]
    known = known_gates(None if alone else where, given, (API_SERVER, SCHEDULER), namespaces, held.record)
    used = needed_gates([*(subject.document for subject, _ in asked), *(each for _, each in deciding(held))])

    def answers(gates: Gates) -> list[Explanation]:
        with progress("judging nodes:") as tick:
            try:
                return [explain_pod(subject, world, gates, tick=tick) for subject, _ in asked]
            except RequestError as error:  # of another pod: those asked about were read before
                raise held.unreadable(error) from None

    found = distinct(
        known, used, answers, lambda a, b: [each.data() for each in a] == [each.data() for each in b]
    )
    if output in ("text", "markdown"):
        colour = output == "text" and wants_colour()
        for gates, answered in found:
            if len(found) > 1:
                echo(visible(paint(doubt(known, used, gates), NOTE, bold=True, on=colour)))
            for number, answer in enumerate(answered):
                if number:
                    echo("")
                last = number == len(answered) - 1
                written, through = (
                    asked[number][1],
                    _operator_note(through_operator(asked[number][0], known, held)),
                )
                assumed = "; ".join(filter(None, (through, known.line() if last else "")))
                if output == "markdown":
                    lines = markdown(answer, assumed, show_all=show_all, as_patch=as_patch, written=written)
                else:
                    said = text(
                        answer, assumed, show_all=show_all, colour=colour, as_patch=as_patch, written=written
                    )
                    lines = (part for line in said for part in wrapped(escaped(line), width()))
                for line in lines:
                    echo(visible(line))
            if gates is not found[-1][0]:
                echo("")
    else:
        lowered = [through_operator(subject, known, held) for subject, _ in asked]
        document = report(found, known.report(), lowered)
        echo(to_json(document) if output == "json" else to_yaml(document))
    if len(found) > 1:
        return CANNOT_SAY
    ((_, answered),) = found
    if all(answer.unsure or is_well(answer, preempting=not fail_on_preemption) for answer in answered):
        return CANNOT_SAY if any(answer.unsure for answer in answered) else FINE
    return FINDINGS


def _operator_note(lowered: list[dict[str, Any]]) -> str:
    """Return the same as text; "" when there is nothing to report."""
    read = [read_entry(each) for each in lowered]
    words = [asks(each) if each.expression else f"{each.key} {asks(each)}" for each in read]
    return f"Tolerated {OPERATOR}: {short(', '.join(words), 300)}" if words else ""


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def _asked(documents: Iterable[Document], alone: bool) -> Iterator[tuple[Subject, Document]]:
    """Yield what the manifests ask for, each with the document it stands in.

    Where they are the cluster as well (*alone*), a pod that already runs there is not a question.
    """
    for document in documents:
        for path, place in document.duplicates:
            raise ManifestError(place, f"duplicate key {str(path[-1])[:60]!r}")
        for item in document.items():
            for subject in subjects(item.value):
                if not (alone and _runs(item.value)):
                    yield replace(subject, strict=True, source=item.file), item


def _runs(document: dict[str, Any]) -> bool:
    spec, status = document.get("spec"), document.get("status")
    bound = isinstance(spec, dict) and spec.get("nodeName")
    return bool(bound and isinstance(status, dict) and status.get("phase"))


def _waits(pod: dict[str, Any]) -> bool:
    """Return whether the scheduler still looks for a node for a pod."""
    metadata, spec, status = (
        part if isinstance(part := pod.get(name), dict) else {} for name in ("metadata", "spec", "status")
    )
    ended = metadata.get("deletionTimestamp") or status.get("phase") in ("Succeeded", "Failed")
    return not (spec.get("nodeName") or ended)


def _of_kinds(documents: Iterable[Document], *kinds: str) -> Iterator[tuple[str, Any]]:
    """Yield the objects of some kinds among the manifests: a cluster is asked about as if they were there, or so."""
    for document in documents:
        for item in document.items():
            if isinstance(item.value, dict) and item.value.get("kind") in kinds:
                yield item.file, item.value


def _kinds(kind: str) -> tuple[str, ...]:
    """Return the kinds to read from a live cluster: what decides, and the kind asked about."""
    return tuple(
        dict.fromkeys((*PLACEMENT, *DEVICES, *CREATION, *([kind, "Event"] if kind in VERSIONS else [])))
    )


def _name(names: Sequence[str]) -> str | None:
    """Return what was asked for as `kind/name`: kubectl takes both `deployment web` and `deployment/web`."""
    if len(names) > 2 or (len(names) == 2 and "/" in names[0]):
        raise click.UsageError(f"one POD, or KIND NAME: {' '.join(names)[:80]!r} is more")
    return "/".join(names) or None


def _kind(name: str) -> str:
    """Return the kind in `[kind/]name`; without one it is a pod."""
    kind, slash, _ = name.rpartition("/")
    known = {**_KINDS, **{each.lower(): each for each in _KINDS.values()}}
    return known.get(kind.lower(), kind) if slash else "Pod"


@dataclass(frozen=True)
class Several:
    """Workloads of one kind, or pods that wait for a node, of one namespace or of all."""

    kind: str
    namespace: str  #: "" is all
    selector: Selector

    @property
    def none(self) -> str:
        """What is said where there is none."""
        what = "pod that waits for a node" if self.kind == "Pod" else self.kind
        labels = f" with labels {self.selector}" if self.selector else ""
        return f"No {what}{labels} in {f'namespace {self.namespace}' if self.namespace else 'any namespace'}"

    def of(self, held: ClusterObjects) -> Iterator[Subject]:
        """Yield them, of the pods of one controller only the first: the others are like it."""
        documents: Iterable[Any] = (document for _, document in held.documents)
        if self.kind == "Pod":
            pods = ({"kind": "Pod", **msgspec.json.decode(source)} for _, source in held.pod_heads())
            documents = chain(documents, pods)
        controllers: set[str] = set()
        for subject in chain.from_iterable(map(subjects, documents)):
            metadata = subject.document.get("metadata") or {}
            if subject.kind != self.kind or not self._selects(
                subject.namespace, metadata.get("labels") or {}
            ):
                continue
            if self.kind == "Pod":
                owners = metadata.get("ownerReferences") or ()
                controller = next((each.get("uid") for each in owners if each.get("controller")), "")
                if not _waits(subject.document) or controller in controllers:
                    continue
                controllers |= {controller} - {""}
            yield replace(subject, stored=subject.kind == "Pod", in_cluster=True)

    def _selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return self.namespace in ("", namespace) and self.selector.matches(labels)


def _several(
    names: Sequence[str], namespace: str | None, everywhere: bool, selector: str | None
) -> Several | None:
    """Return what -A and -l ask about; None without either."""
    if not everywhere and selector is None:
        return None
    if len(names) > 1 or "/" in "".join(names):
        raise click.UsageError(f"{' '.join(names)[:80]!r} names one; -A and -l are for many")
    try:
        return Several(
            _workload(_kind(f"{names[0]}/") if names else "Pod"),
            "" if everywhere else namespace or "default",
            parse(selector or ""),
        )
    except SelectorError as error:
        raise click.BadParameter(str(error), param_hint="--selector") from None


def _workload(kind: str) -> str:
    """Return the kind as it is spelled; raises where it has no pods."""
    for each in TEMPLATE_PATHS:
        if each.lower() == kind.lower():
            return each
    raise click.UsageError(f"kind {kind[:60]!r} has no pods; expected one of {', '.join(TEMPLATE_PATHS)}")


def _named(name: str, namespace: str | None, held: ClusterObjects) -> Subject:
    """Return what the cluster holds under `[kind/]name`."""
    kind, bare = _workload(_kind(name)), name.rpartition("/")[2]
    wanted = namespace or "default"
    names = []
    for subject in (each for _, document in held.documents for each in subjects(document)):
        if subject.kind == kind:
            if (subject.namespace, subject.name) == (wanted, bare):
                return replace(subject, stored=subject.kind == "Pod", in_cluster=True)
            names.append(f"{subject.namespace}/{subject.name}")
    for head, source in held.pod_heads() if kind == "Pod" else ():
        if head.name == bare and (head.namespace or "default") == wanted:
            document = {"kind": "Pod", **msgspec.json.decode(source)}
            return replace(Subject.of(document, stored=True), in_cluster=True)
        names.append(f"{head.namespace or 'default'}/{head.name or '(no name)'}")
    elsewhere = [each for each in names if each.rpartition("/")[2] == bare]
    by_name = {each.rpartition("/")[2]: each for each in names}
    close = elsewhere or [by_name[each] for each in get_close_matches(bare, by_name, n=1, cutoff=0.6)]
    hint = f"; did you mean {close[0]}?" if close else f" (it holds {len(names)} of that kind)"
    raise click.UsageError(f"no {kind} {wanted}/{bare} in the cluster{hint}")


def _placed(error: ValueError, document: Document | None) -> ValueError:
    """Return *error* with the place in the manifest it is about."""
    if document is None:
        return error
    return ManifestError(document.place_of(getattr(error, "path", ())), str(error))
