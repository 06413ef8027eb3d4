"""Run of `weir lint`: reads files or the cluster, runs the rules, fixes files, prints the findings."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import click

import weir
from weir.cli._lint_config import find_config, version_gates
from weir.cli._lint_inputs import document_of, own_documents, read_cluster, read_files, read_policies
from weir.client.cluster_gates import API_SERVER
from weir.client.snapshot import Missing
from weir.compat.customresources.definition import find_custom_kinds
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE
from weir.gates import EXTENDED, Gates, parse_settings
from weir.inputs.certainty import because, known_gates
from weir.inputs.cluster import find_kind_mistake
from weir.inputs.files import GZIP, CannotSay, is_address, read_documents
from weir.inputs.live import ClusterSource, Live
from weir.lint import formats
from weir.lint.check import apply_edits, choose, either
from weir.lint.check import lint as check
from weir.lint.formats import Run
from weir.lint.live import Troubles
from weir.lint.rule import Finding, Rule, Severity
from weir.lint.subject import Subject
from weir.objects.manifest import Document
from weir.output import BAD, DIM, NOTE, paint, progress, say, say_lines, wants_colour, write_document
from weir.taints.features import needed_gates

_COLOURS: Final = {"error": BAD, "warning": NOTE, "note": DIM}
#: What `--cluster` without a file means.
LIVE: Final = ""


def answer(
    files: tuple[str, ...],
    more: tuple[str, ...],
    cluster: tuple[str, ...],
    policies: tuple[str, ...],
    live: Live,
    namespace: str,
    all_namespaces: bool,
    output: str,
    rules: tuple[str, ...],
    ignore: tuple[str, ...],
    level: str | None,
    quiet: bool,
    statistics: bool,
    strict: bool,
    mend: bool,
    kubernetes_version: str,
    target: str | None,
    given: Mapping[str, bool],
    explain_code: str | None,
) -> int:
    """Return the exit code of `weir lint`, after writing its result."""
    if explain_code is not None:
        (rule,) = choose([explain_code], [])
        write_document(rule.page(), nl=False)
        return FINE
    config = find_config(Path.cwd())
    ask_live = LIVE in cluster
    _refuse_contradictions(ask_live, live, namespace, all_namespaces)
    files = (*files, *more) or (() if ask_live else config.paths)
    if not files and not ask_live:
        raise click.UsageError(
            "nothing to check: name files, folders, addresses, or - for standard input; or give --cluster"
        )
    if mend and (not files or "-" in files):
        raise click.UsageError("--fix changes files: name them")
    version = kubernetes_version or config.kubernetes_version
    stock = (target or config.target) == "stock"
    settings = {
        **(version_gates(version) if version else {}),
        **(dict.fromkeys(EXTENDED, True) if stock else {}),
        **parse_settings(config.feature_gates),
        **given,
    }
    checks = _Checks(
        choose(rules or config.rules, ignore or config.ignore),
        settings,
        config.levels,
        strict or config.strict,
        Severity(level or config.level or "warning"),
        stock,
        read_policies(policies),
    )
    gc.disable()  # documents and findings have no cycles, and looking for some takes half the time
    try:
        run, code = _run(checks, files, config.exclude, cluster, live, namespace)
        mended = 0
        while mend and (now := _mend(run.findings)):
            # A wrong type hides what else is wrong with an object, so one round may bring another.
            mended += now
            run, code = _run(checks, files, config.exclude, cluster, live, namespace)
        if mend:
            say(f"fixed {mended} finding{'s' if mended != 1 else ''}", err=True)
    finally:
        gc.enable()
    _report(run, output, quiet=quiet, statistics=statistics)
    return code


class _Checks(NamedTuple):
    """What a run looks for."""

    rules: list[Rule]
    gates: Mapping[str, bool]
    levels: Mapping[str, Severity]
    strict: bool
    level: Severity
    stock: bool
    policies: list[Document]


def _refuse_contradictions(ask_live: bool, live: Live, namespace: str, all_namespaces: bool) -> None:
    if not ask_live and (live.named or namespace or all_namespaces):
        raise click.UsageError("--kubeconfig, --context, -n and -A are for the live cluster: add --cluster")
    if namespace and all_namespaces:
        raise click.UsageError("give either -n or -A, not both")


# ── running ──────────────────────────────────────────────────────────────────────────────────────


def _run(
    checks: _Checks,
    files: tuple[str, ...],
    exclude: tuple[str, ...],
    cluster: tuple[str, ...],
    live: Live,
    namespace: str,
) -> tuple[Run, int]:
    """Return what the checks find, and the exit code."""
    known = read_documents(place for place in cluster if place != LIVE)
    for document in known:
        if problem := find_kind_mistake(document.value):
            raise CannotSay(f"the cluster's dump cannot be read: {document.file}: {problem}")
    missing: tuple[Missing, ...] = ()
    troubles: Troubles | None = None
    unreadable: list[Finding] = []
    ask_live = LIVE in cluster
    if ask_live:
        found, missing = read_cluster(live, namespace, workloads=not files)
        known += [document_of(each) for each in found if each["kind"] == "Node"]
    if files:
        documents, names, unreadable = read_files(files, exclude)
    else:
        documents, troubles = own_documents(found)
        names = [document.file for document in documents]
    gates = known_gates(
        ClusterSource((), live) if ask_live else None, checks.gates, (API_SERVER,), [namespace or "default"]
    )
    items = [item for document in documents for item in document.items()]
    used = needed_gates(item.value for item in items)
    answers = [_check(checks, documents, known, each, troubles) for each in gates.possible(used)]
    doubtful = [name for name in gates.unknown if name in used]
    both = answers[0] if len(answers) == 1 else either(answers[0], answers[1], doubtful)
    findings = _weighed([*unreadable, *both], checks)
    run = Run(
        [each for each in findings if each.severity.weight <= checks.level.weight],
        len(items),
        sorted(names),
        _unchecked(items, known),
        [each for each in findings if each.severity.weight > checks.level.weight],
        not files,
        str(gates.possible(())[0]),
        gates.report(),
        gates.line(),
    )
    _say_unjudged(findings)
    if missing:
        say(f"not looked at: {because(missing)}", err=True)
    if missing or (len(answers) > 1 and answers[0] != answers[1]):
        return run, CANNOT_SAY
    return run, FINDINGS if any(each.severity.fails for each in findings) else FINE


def _say_unjudged(findings: Iterable[Finding]) -> None:
    """Report how many objects a policy could not be evaluated for, since notes are shown only on request."""
    unjudged = [each for each in findings if each.message.startswith("not judged by ")]
    if unjudged:
        objects = len({(each.file, each.object) for each in unjudged})
        word = "object" if objects == 1 else "objects"
        say(f"not judged by some policies: {objects} {word} (--level note says why)", err=True)


def _unchecked(items: list[Document], known: list[Document]) -> int:
    """Return how many of *items* are of kinds that neither weir nor a definition of the run knows."""
    beside = (item for document in known for item in document.items())
    custom = find_custom_kinds(item.value for item in (*beside, *items))
    return sum(1 for item in items if (subject := Subject(item, custom)).kind and not subject.is_checked)


def _check(
    checks: _Checks, documents: list[Document], known: list[Document], gates: Gates, troubles: Troubles | None
) -> list[Finding]:
    with progress("checking objects:") as tick:
        return check(
            documents,
            gates,
            known=known,
            policies=checks.policies,
            rules=checks.rules,
            troubles=troubles,
            strict=checks.strict,
            stock=checks.stock,
            level=Severity.NOTE if checks.levels else checks.level,
            tick=tick,
        )


def _weighed(findings: Iterable[Finding], checks: _Checks) -> list[Finding]:
    """Return the findings with the severities that the project gives them."""
    return [
        replace(each, severity=checks.levels.get(each.rule.code, each.severity)) if checks.levels else each
        for each in findings
    ]


def _mend(findings: Iterable[Finding]) -> int:
    """Return how many findings were fixed in their files."""
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.edit is not None and not is_address(finding.file):
            by_file.setdefault(finding.file, []).append(finding)
    done = 0
    for file, own in by_file.items():
        if (content := Path(file).read_bytes()).startswith(GZIP):  # shown, and left to whoever packed it
            continue
        text, number = apply_edits(content.decode(), own)
        if number:
            _replace(Path(file), text.encode())
        done += number
    return done


def _replace(file: Path, content: bytes) -> None:
    """Put *content* in place of what *file* holds; an interrupt leaves either the one or the other."""
    file = file.resolve()
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        new.write_bytes(content)
        shutil.copymode(file, new)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


# ── reporting ────────────────────────────────────────────────────────────────────────────────────


def _report(run: Run, output: str, *, quiet: bool, statistics: bool) -> None:
    match output:
        case "json":
            write_document(formats.as_json(run))
        case "sarif":
            write_document(formats.sarif(run, weir.__version__))
        case "junit":
            write_document(formats.junit(run))
        case "github":
            say_lines(formats.github(run))
        case _ if statistics:
            say_lines(formats.statistics(run))
        case _:
            colour = wants_colour()
            say_lines(
                formats.text(run.findings, lambda text, style: _paint(text, style, colour), quiet=quiet)
            )
    if output == "text" and not quiet:
        say(formats.summary(run))
        say(run.gates_line, err=True)


def _paint(text: str, style: str, on: bool) -> str:
    return paint(text, _COLOURS.get(style, "reset"), bold=style == "bold", on=on)
