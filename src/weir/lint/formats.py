"""How are findings written down? Text for people; JSON, SARIF and JUnit for machines.

Every function is pure: findings in, text out. The JSON has a versioned schema (`weir.lint/v1`): fields are only
ever added to it. Colour is the caller's: text marks its parts through `paint`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from xml.etree import ElementTree

from weir.lint.rule import Finding, Rule, Severity
from weir.lint.rules import RULES

JSON_SCHEMA: Final = "weir.lint/v1"
_SARIF_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}

Paint = Callable[[str, str], str]


def plain(text: str, style: str) -> str:
    """Return *text* without any colour."""
    return text


def text(findings: Sequence[Finding], paint: Paint = plain) -> Iterator[str]:
    """Yield lines for people: place, message, the source line with a caret, and the fix."""
    for found in findings:
        at = f"{found.file}:{found.line}:{found.column}:" if found.line else f"{found.file} {found.field}:"
        place = paint(at, "bold")
        severity = paint(found.severity.value, found.severity.value)
        yield f"{place} {severity} {found.rule.code}: {found.message}"
        if found.source.strip():
            number = str(found.line)
            yield f" {number} | {found.source}"
            caret = "^" * max(1, min(found.width, len(found.source) - found.column + 1))
            indent = "".join(_blank(char) for char in found.source[: found.column - 1])
            yield f" {' ' * len(number)} | {indent}{paint(caret, found.severity.value)}"
        if found.fix:
            yield f"   {paint('fix:', 'bold')} {found.fix}"


def _blank(char: str) -> str:
    """Return a blank as wide as *char*, so that the caret stands under its value."""
    if char == "\t":
        return "\t"
    return "  " if unicodedata.east_asian_width(char) in "WF" else " "


def summary(findings: Sequence[Finding], objects: int, files: int, *, live: bool = False) -> str:
    """Return the one line that ends a text report; *live* objects stand in no files."""
    counts = {s: sum(found.severity is s for found in findings) for s in Severity}
    words = [f"{n} {s.value}{'s' if n != 1 else ''}" for s, n in counts.items() if n]
    looked = f"{objects} object{'s' if objects != 1 else ''} in "
    looked += "the cluster" if live else f"{files} file{'s' if files != 1 else ''}"
    return f"{', '.join(words) if words else 'no findings'} ({looked})"


def as_json(findings: Sequence[Finding], gates: str, known: Mapping[str, Any] | None = None) -> str:
    """Return the findings in weir's own versioned JSON."""
    document = {
        "schema": JSON_SCHEMA,
        "featureGates": gates,
        "gates": dict(known or {}),
        "findings": [_as_object(found) for found in findings],
        "summary": {s.value: sum(found.severity is s for found in findings) for s in Severity},
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _as_object(found: Finding) -> dict[str, Any]:
    return {
        "code": found.rule.code,
        "name": found.rule.name,
        "severity": found.severity.value,
        "file": found.file,
        "line": found.line,
        "column": found.column,
        "object": found.object,
        "field": found.field,
        "message": found.message,
        "fix": found.fix,
    }


def sarif(findings: Sequence[Finding], version: str) -> str:
    """Return the findings as SARIF 2.1.0, which code hosts show beside the lines."""
    rules = [rule for rule in RULES if any(found.rule is rule for found in findings)]
    run = {
        "tool": {
            "driver": {
                "name": "weir",
                "version": version,
                "rules": [_sarif_rule(rule) for rule in rules],
            }
        },
        "results": [_sarif_result(found, rules) for found in findings],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.help, "markdown": rule.help},
        "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
    }


def _sarif_result(found: Finding, rules: Sequence[Rule]) -> dict[str, Any]:
    line, column = max(found.line, 1), max(found.column, 1)  # of a live object there is only the beginning
    region = {"startLine": line, "startColumn": column, "endColumn": column + found.width}
    location = {"physicalLocation": {"artifactLocation": {"uri": found.file}, "region": region}}
    return {
        "ruleId": found.rule.code,
        "ruleIndex": rules.index(found.rule),
        "level": _SARIF_LEVELS[found.severity],
        "message": {"text": f"{found.message}\nFix: {found.fix}" if found.fix else found.message},
        "locations": [location],
    }


def junit(findings: Sequence[Finding], files: Sequence[str]) -> str:
    """Return the findings as a JUnit report: one case a file, failed when it has an error or warning."""
    failing = [found for found in findings if found.severity.fails]
    suite = ElementTree.Element(
        "testsuite", name="weir lint", tests=str(len(files)), failures=str(len({f.file for f in failing}))
    )
    for file in files:
        case = ElementTree.SubElement(suite, "testcase", classname="weir.lint", name=_xml(file))
        own = [found for found in findings if found.file == file]
        problems = [found for found in own if found.severity.fails]
        if problems:
            failure = ElementTree.SubElement(
                case, "failure", type=problems[0].rule.code, message=_xml(problems[0].message)
            )
            failure.text = _xml("\n".join(text(problems)))
        if notes := [found for found in own if not found.severity.fails]:
            ElementTree.SubElement(case, "system-out").text = _xml("\n".join(text(notes)))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _xml(text: str) -> str:
    """Return *text* without the characters XML cannot carry."""
    return "".join(char if char in "\t\n\r" or ord(char) >= 0x20 else "?" for char in text)
