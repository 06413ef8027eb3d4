"""Runs lint rules on documents, locates each problem and applies the edits of `--fix`.

Inline comments disable rules: `# weir: ignore=W012` on the line of the finding or the line above it, several codes
with commas, and `# weir: ignore` for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final

from weir.compat.customresources.definition import find_custom_kinds
from weir.fields.documents import show_path
from weir.gates import Gates
from weir.lint.live import Troubles
from weir.lint.rule import Finding, Problem, Rule, Severity
from weir.lint.rules import RULES
from weir.lint.subject import Facts, Subject
from weir.objects.manifest import Document
from weir.objects.text_edits import TextEdit
from weir.objects.text_edits import apply_edits as apply_to_text

if TYPE_CHECKING:
    from weir.compat.policies.files import PolicyFiles

_IGNORE: Final = re.compile(r"#\s*weir:\s*ignore(?:=([\w,\s-]+))?")
#: A message quotes the value it is about; one of megabytes is cut so that a report stays readable.
_LONGEST_MESSAGE: Final = 2000
_LONGEST_LINE: Final = 400
#: Findings of one rule in one object; the last of them says when there are more.
MOST_OF_ONE_RULE: Final = 100
#: Objects between two progress reports.
_TICK: Final = 100


def lint(
    documents: Iterable[Document],
    gates: Gates,
    *,
    known: Iterable[Document] = (),
    policies: Iterable[Document] = (),
    rules: Sequence[Rule] = RULES,
    troubles: Troubles | None = None,
    strict: bool = False,
    stock: bool = False,
    level: Severity = Severity.NOTE,
    tick: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Return what *rules* find in *documents*, by file and line; *known* documents only lend their nodes
    and definitions.

    Admission *policies* (with what else stands beside them) judge the documents.
    With *stock* they are for a cluster that weir's operator extends. *troubles* are a live cluster's, whose objects
    have no lines. *tick* is called with how many objects are done.
    Findings below *level* are only counted by the caller: they get no position.

    >>> from weir.gates import ALL_FEATURES
    >>> from weir.objects.manifest import read_manifest
    >>> pod = "kind: Pod\\nspec: {tolerations: [{operator: Exists}]}"
    >>> [finding.rule.code for finding in lint(read_manifest(pod), ALL_FEATURES) if finding.rule.code != "W001"]
    ['W011']
    """
    items = [item for document in documents for item in document.items()]
    beside = [item for document in known for item in document.items()]
    custom_kinds = find_custom_kinds(item.value for item in (*beside, *items))
    subjects = [Subject(item, custom_kinds) for item in items]
    background = [Subject(item) for item in beside]
    rulings = _policies(policies, [*beside, *items])
    facts = Facts.of([*subjects, *background], gates, troubles, strict=strict, stock=stock, policies=rulings)
    texts = {id(subject.document.lines): subject.document.lines for subject in subjects}
    remarked = {key: any("weir:" in line for line in lines) for key, lines in texts.items()}
    findings: list[Finding] = []
    for done, subject in enumerate(subjects):
        findings += _check(subject, facts, rules, level, remarked[id(subject.document.lines)])
        if tick is not None and done % _TICK == 0:
            tick(done, len(subjects))
    return sorted(findings, key=_order)


def _policies(policies: Iterable[Document], beside: Iterable[Document]) -> PolicyFiles | None:
    """Return the policies to judge by, None without any: expressions are compiled only for who asks."""
    documents = [item.value for document in policies for item in document.items()]
    if not documents:
        return None
    from weir.compat.policies.files import PolicyFiles

    return PolicyFiles(documents, (item.value for item in beside))


def either(off: Sequence[Finding], on: Sequence[Finding], gates: Sequence[str]) -> list[Finding]:
    """Return the findings with *gates* on and off, if unknown; what only one has says so."""
    names, plural = " and ".join(gates), "are" if len(gates) > 1 else "is"
    findings = [one for one in off if one in on]
    for state, own, other in (("off", off, on), ("on", on, off)):
        doubt = f"if {names} {plural} {state} in the cluster (not known): "
        findings += [replace(one, message=doubt + one.message) for one in own if one not in other]
    return sorted(findings, key=_order)


def _order(finding: Finding) -> tuple[str, int, int, str]:
    return finding.file, finding.line, finding.column, finding.rule.code


def _check(
    subject: Subject, facts: Facts, rules: Sequence[Rule], level: Severity, remarked: bool
) -> Iterator[Finding]:
    for rule in rules:
        for problem in _first(rule.check(subject, facts)):
            severity = problem.severity or rule.severity
            if severity.weight > level.weight and not remarked:
                yield Finding(
                    rule, severity, subject.document.file, 0, 0, 1, "", subject.name, "", problem.message, ""
                )
                continue
            finding = _place(subject, rule, problem)
            if not _ignored(finding, subject.document.lines):
                yield finding


def _first(problems: Iterable[Problem]) -> list[Problem]:
    """Return the first problems of a rule in an object; the last of them says when there are more."""
    remaining = iter(problems)
    shown = list(islice(remaining, MOST_OF_ONE_RULE))
    if next(remaining, None) is not None:
        message = f"{shown[-1].message} (and more of this rule in this object, not shown)"
        shown[-1] = replace(shown[-1], message=message)
    return shown


def _place(subject: Subject, rule: Rule, problem: Problem) -> Finding:
    document, path = subject.document, subject.written_path(problem.path)
    place = document.place_of(path, key=problem.key)
    if not document.lines:  # read from a cluster, not from text
        place = replace(place, line=0, column=0)
    source = document.lines[place.line - 1] if 0 < place.line <= len(document.lines) else ""
    return Finding(
        rule=rule,
        severity=problem.severity or rule.severity,
        file=place.file,
        line=place.line,
        column=place.column,
        width=len(str(path[-1])) if problem.key else document.width_of(path),
        source=source[:_LONGEST_LINE],
        object=subject.name,
        field=show_path(path),
        message=_cut(problem.message),
        fix=_cut(problem.fix),
        edit=problem.edit,
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]} … ({len(text)} characters)"


def _ignored(finding: Finding, lines: Sequence[str]) -> bool:
    for number in (finding.line, finding.line - 1):
        if not 1 <= number <= len(lines):
            continue
        line = lines[number - 1]
        comment = _IGNORE.search(line)
        if comment is None or (number < finding.line and not line.lstrip().startswith("#")):
            continue  # a comment behind another line's value speaks of that line
        if comment.group(1) is None:
            return True
        names = {name.strip().casefold() for name in comment.group(1).split(",")}
        if finding.rule.code.casefold() in names or finding.rule.name in names:
            return True
    return False


class UnknownRule(ValueError):
    """A rule that does not exist was named; the message lists those that do."""


def choose(only: Iterable[str], ignore: Iterable[str]) -> list[Rule]:
    """Return the rules named in *only* (all when it is empty) without those in *ignore*, by code or name."""
    wanted, unwanted = named_rules(only), named_rules(ignore)
    return [rule for rule in RULES if (not wanted or rule in wanted) and rule not in unwanted]


def named_rules(names: Iterable[str]) -> list[Rule]:
    """Return the rules that *names* mean, by code or name, several in one text with commas. Raises UnknownRule."""
    by_name = {name: rule for rule in RULES for name in (rule.code.casefold(), rule.name)}
    chosen: list[Rule] = []
    for name in (part.strip() for text in names for part in text.split(",")):
        if not name:
            continue
        if name.casefold() not in by_name:
            names_of_rules = ", ".join(f"{rule.code} ({rule.name})" for rule in RULES)
            raise UnknownRule(f"unknown rule {name!r}; the rules are {names_of_rules}")
        chosen.append(by_name[name.casefold()])
    return chosen


def apply_edits(text: str, findings: Iterable[Finding]) -> tuple[str, int]:
    """Return *text* with the edits of *findings*, and how many were applied."""
    begins = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    by_place = {
        (finding.line, finding.column): finding.edit for finding in reversed(list(findings)) if finding.edit
    }
    edits: list[TextEdit] = []
    for (line, column), edit in sorted(by_place.items(), key=lambda each: each[0]):
        if not 1 <= line < len(begins):
            continue
        start = begins[line - 1] + column - 1
        free = not edits or edits[-1].end <= start
        if free and text.startswith(edit.old, start):
            edits.append(TextEdit(start, start + len(edit.old), edit.new))
    return apply_to_text(text, edits), len(edits)
