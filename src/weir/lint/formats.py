"""Output formats of findings: text, JSON, SARIF, JUnit and pull request annotations.

Pure functions. The JSON schema is versioned (`weir.lint/v1`, docs/reference/lint.schema.json): fields are only added.
Every format states how many objects were not checked. Text marks its parts through `paint`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from xml.etree import ElementTree

from weir.lint.rule import Finding, Rule, Severity
from weir.lint.rules import RULES
from weir.values.printable import printable, printable_json

JSON_SCHEMA: Final = "weir.lint/v1"
_SARIF_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_GITHUB_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
#: Where the page of a rule is found, relative to the documentation that SARIF and annotations point to.
#: What the rules are about; the page of each rule travels with it, as `help`.
_CONCEPT: Final = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"

#: How far apart the stops of a tab are in the source lines shown.
_TAB: Final = 4

#: Where the CEL compiler begins a line of its message; other line breaks are part of the source.
_COMPILER_LINES: Final = re.compile(r"\n(?= \| |ERROR: )")

Paint = Callable[[str, str], str]


@dataclass(frozen=True)
class Run:
    """What one run looked at and found."""

    findings: Sequence[Finding]
    objects: int
    files: Sequence[str]
    not_checked: int = 0  #: objects of kinds that are not known
    hidden: Sequence[Finding] = ()  #: below the level that was asked for
    live: bool = False  #: the objects stand in a cluster, not in files
    gates: str = ""
    known_gates: Mapping[str, Any] = field(default_factory=dict)
    gates_line: str = ""

    def count(self, severity: Severity) -> int:
        """Return how many findings there are of a severity, shown or not."""
        return sum(finding.severity is severity for finding in (*self.findings, *self.hidden))


def plain(text: str, style: str) -> str:
    """Return *text* without any colour."""
    return text


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def text(findings: Sequence[Finding], paint: Paint = plain, *, quiet: bool = False) -> Iterator[str]:
    """Yield text lines: position and message; unless *quiet*, the source line with a caret, and the fix."""
    for finding in findings:
        at = (
            f"{finding.file}:{finding.line}:{finding.column}:"
            if finding.line
            else f"{finding.file} {finding.field}:"
        )
        place = paint(at, "bold")
        severity = paint(finding.severity.value, finding.severity.value)
        message, *shown = _COMPILER_LINES.split(finding.message)
        yield f"{place} {severity} {finding.rule.code}: {message}"
        if quiet:
            continue
        yield from (f"   {line}" for line in shown)
        if finding.source.strip():
            number = str(finding.line)
            yield f" {number} | {printable(finding.source.expandtabs(_TAB))}"
            caret = "^" * max(1, min(finding.width, len(finding.source) - finding.column + 1))
            before = printable(finding.source[: finding.column - 1].expandtabs(_TAB))
            indent = "".join(map(_blank, before))
            yield f" {' ' * len(number)} | {indent}{paint(caret, finding.severity.value)}"
        if finding.fix:
            yield f"   {paint('fix:', 'bold')} {finding.fix}"


def _blank(char: str) -> str:
    """Return a blank as wide as *char*, so that the caret stands under its value."""
    return "  " if unicodedata.east_asian_width(char) in "WF" else " "


def statistics(run: Run) -> Iterator[str]:
    """Yield how often each rule found something, most often first; what is not shown is counted too."""
    counts = Counter((each.rule.code, each.severity) for each in (*run.findings, *run.hidden))
    names = {rule.code: rule.name for rule in RULES}
    for (code, severity), number in sorted(counts.items(), key=lambda item: (-item[1], item[0][0])):
        yield f"{number:>6}  {code}  {severity.value:<7}  {names[code]}"


def summary(run: Run) -> str:
    """Return the one line that ends a text report."""
    words = [_counted(run.count(each), each.value) for each in Severity if run.count(each)]
    looked = f"{_counted(run.objects, 'object')} in "
    looked += "the cluster" if run.live else _counted(len(run.files), "file")
    if run.not_checked:
        looked += f", {run.not_checked} not checked: unknown kinds"
    line = f"{', '.join(words) if words else 'no findings'} ({looked})"
    if run.hidden:
        lowest = max((finding.severity for finding in run.hidden), key=lambda each: each.weight)
        line += f"; {len(run.hidden)} not shown: --level {lowest.value}"
    return line


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


# ── for machines ─────────────────────────────────────────────────────────────────────────────────


def as_json(run: Run) -> str:
    """Return the findings in weir's own versioned JSON."""
    document = {
        "schema": JSON_SCHEMA,
        "featureGates": run.gates,
        "gates": dict(run.known_gates),
        "findings": [_as_object(finding) for finding in run.findings],
        "summary": {
            **{severity.value: run.count(severity) for severity in Severity},
            "objects": run.objects,
            "notChecked": run.not_checked,
            "notShown": len(run.hidden),
        },
    }
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False))


def _as_object(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.rule.code,
        "name": finding.rule.name,
        "severity": finding.severity.value,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "object": finding.object,
        "field": finding.field,
        "message": finding.message,
        "fix": finding.fix,
        "fixable": finding.edit is not None,
    }


def sarif(run: Run, version: str) -> str:
    """Return the findings as SARIF 2.1.0, which code hosts show beside the lines."""
    rules = [rule for rule in RULES if any(finding.rule is rule for finding in run.findings)]
    document = {
        "tool": {
            "driver": {
                "name": "weir",
                "version": version,
                "informationUri": _CONCEPT,
                "rules": [_sarif_rule(rule) for rule in rules],
            }
        },
        "results": [_sarif_result(finding, rules) for finding in run.findings],
        "properties": {"objects": run.objects, "notChecked": run.not_checked, "featureGates": run.gates},
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    whole = {"$schema": schema, "version": "2.1.0", "runs": [document]}
    return printable_json(json.dumps(whole, indent=2, ensure_ascii=False))


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.help, "markdown": rule.help},
        "helpUri": _CONCEPT,
        "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
    }


def _sarif_result(finding: Finding, rules: Sequence[Rule]) -> dict[str, Any]:
    line, column = (
        max(finding.line, 1),
        max(finding.column, 1),
    )  # of a live object there is only the beginning
    region = {"startLine": line, "startColumn": column, "endColumn": column + finding.width}
    location = {"physicalLocation": {"artifactLocation": {"uri": finding.file}, "region": region}}
    return {
        "ruleId": finding.rule.code,
        "ruleIndex": rules.index(finding.rule),
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": f"{finding.message}\nFix: {finding.fix}" if finding.fix else finding.message},
        "locations": [location],
    }


def github(run: Run) -> Iterator[str]:
    """Yield the findings as workflow commands, which GitHub shows beside the lines of a pull request."""
    for finding in run.findings:
        message = f"{finding.message} (fix: {finding.fix})" if finding.fix else finding.message
        place = {"file": finding.file, "line": max(finding.line, 1), "col": max(finding.column, 1)}
        place["title"] = f"{finding.rule.code} {finding.rule.name}"
        values = ",".join(f"{key}={_escaped(str(value), ',:')}" for key, value in place.items())
        yield f"::{_GITHUB_LEVELS[finding.severity]} {values}::{_escaped(message)}"
    if run.not_checked:
        yield f"::notice title=weir lint::{_counted(run.not_checked, 'object')} not checked: unknown kinds"


def _escaped(text: str, more: str = "") -> str:
    for char in "%\r\n" + more:
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def junit(run: Run) -> str:
    """Return the findings as a JUnit report: one case a file, failed when it has an error or warning."""
    by_file: dict[str, list[Finding]] = {file: [] for file in run.files}
    for finding in run.findings:
        by_file.setdefault(finding.file, []).append(finding)
    failing = {file for file, own in by_file.items() if any(finding.severity.fails for finding in own)}
    suite = ElementTree.Element(
        "testsuite", name="weir lint", tests=str(len(by_file)), failures=str(len(failing))
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, number in (("objects", run.objects), ("notChecked", run.not_checked)):
        ElementTree.SubElement(properties, "property", name=name, value=str(number))
    for file, own in by_file.items():
        case = ElementTree.SubElement(suite, "testcase", classname="weir.lint", name=printable(file))
        problems = [finding for finding in own if finding.severity.fails]
        if problems:
            failure = ElementTree.SubElement(
                case, "failure", type=problems[0].rule.code, message=printable(problems[0].message)
            )
            failure.text = "\n".join(map(printable, text(problems)))
        if notes := [finding for finding in own if not finding.severity.fails]:
            ElementTree.SubElement(case, "system-out").text = "\n".join(map(printable, text(notes)))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")
