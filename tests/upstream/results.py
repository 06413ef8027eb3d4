"""Results of the specs: Ginkgo's JSON report read, counted for each group, and shown as a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.upstream.specs import CONFORMANCE, GROUPS, Selection, group_of

PASSED, SKIPPED = "passed", "skipped"
HEAD = """\
| group | specs | run | passed | failed | left out | conformance: passed of all |
|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Result:
    """What one spec came to."""

    name: str
    state: str  #: as Ginkgo says it: passed, failed, skipped, timedout …
    message: str = ""
    seconds: float = 0.0
    again: bool = False  #: it failed before, beside others

    @property
    def passed(self) -> bool:
        return self.state == PASSED

    def line(self) -> str:
        """Return the result in one line, with the reason if it is no success."""
        if self.passed:
            return f"passed   {self.seconds:6.1f} s  {self.name}"
        state = "skipped itself" if self.state == SKIPPED else self.state
        return f"{state:8} {self.seconds:6.1f} s  {self.name}: {' '.join(self.message.split())[:400]}"


def spec_results(report: Any, asked: Sequence[str]) -> list[Result]:
    """Return what came of the specs that were asked for.

    One that skipped itself is no success: its reason belongs into left-out.yaml. One that the report does not know, or
    left pending, failed, too.
    """
    found: dict[str, Result] = {}
    for suite in report:
        for spec in suite.get("SpecReports") or ():
            if spec["LeafNodeType"] != "It":
                continue
            name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
            failure = (spec.get("Failure") or {}).get("Message", "")
            found[name] = Result(name, spec["State"], failure, spec["RunTime"] / 1e9)
    return [found.get(name, Result(name, "missing", "it is not in the report")) for name in asked]


def read_results(path: Path, asked: Sequence[str]) -> list[Result]:
    """Return what a run wrote, or that it ended without writing."""
    try:
        report = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        return [Result(name, "missing", f"the run left no report: {error}") for name in asked]
    return spec_results(report, asked)


def counts(selection: Selection, results: Iterable[Result]) -> dict[str, Any]:
    """Return the numbers of one group, as they are kept."""
    results = list(results)
    passed = [result.name for result in results if result.passed]
    return {
        "specs": len(selection.names),
        "run": len(results),
        "passed": len(passed),
        "passedAgain": sorted(result.name for result in results if result.passed and result.again),
        "failed": sorted(result.name for result in results if not result.passed),
        "leftOut": dict(Counter(pattern.reason for pattern in selection.left_out.values()).most_common()),
        "conformance": sum(CONFORMANCE in name for name in selection.names),
        "conformancePassed": sum(CONFORMANCE in name for name in passed),
    }


def table(groups: dict[str, dict[str, Any]]) -> str:
    """Return the numbers of all groups as a table of Markdown, with their sums."""
    rows = [(group, groups[group]) for group in GROUPS if group in groups]
    columns = ("specs", "run", "passed", "failed", "leftOut", "conformancePassed", "conformance")
    lines, sums = [], Counter[str]()
    for group, row in rows:
        numbers = {key: _number(row[key]) for key in columns}
        sums.update(numbers)
        lines.append(_row(group, numbers))
    if len(rows) > 1:
        lines.append(_row("all", sums))
    return HEAD + "\n".join(lines) + "\n"


def reasons(groups: dict[str, dict[str, Any]]) -> str:
    """Return a table of why specs are left out, the most frequent first."""
    sums = Counter[str]()
    for row in groups.values():
        sums.update(row["leftOut"])
    lines = [
        f"| {reason} | {count:,} |" for reason, count in sorted(sums.items(), key=lambda x: (-x[1], x[0]))
    ]
    return "| left out because it … | specs |\n|---|---|\n" + "\n".join(lines) + "\n"


def _number(value: Any) -> int:
    if isinstance(value, dict):
        return sum(value.values())
    return value if isinstance(value, int) else len(value)


def _row(group: str, numbers: Any) -> str:
    cells = [f"{numbers[key]:,}" for key in ("specs", "run", "passed", "failed", "leftOut")]
    conformance = f"{numbers['conformancePassed']:,} of {numbers['conformance']:,}"
    return f"| {group} | {' | '.join(cells)} | {conformance if numbers['conformance'] else '–'} |"


def by_group(results: Iterable[Result]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(group_of(result.name), []).append(result)
    return found
