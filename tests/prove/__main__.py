"""Makes the statements of docs/coverage and SECURITY.md false one by one and runs their tests: `make prove`.

`*.yaml` beside this module hold what is tried. `{rows, file, old, new}` is the smallest change of the code (below
src/weir) that makes the statements of the rows false; `{rows, unbreakable}` says why none does. A row is proven when
one of its tests, which carry its id, fails with the change and passes without. A promise of SECURITY.md names its
tests: each of `{tests, file, old, new}` has to. All runs in a copy of the checkout, never in itself.
`--check` reads only syntax and fails for a row without a test or without a change, for a test of a row that is not
there, and for a change whose old text is no longer in the code: `make check`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from docs import coverage

#: Of each row: its tests by outcome.
Results = dict[str, dict[str, list[str]]]
T = TypeVar("T")
FOLDER = Path(__file__).parent
STORIES = "integration/test_demo.py"
#: These need a Kubernetes that takes minutes to build (`make kubernetes`).
NOT_HERE = ("kubernetes/", "ecosystem/")
ARGUMENTS = ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=120"]


@dataclass(frozen=True)
class Change:
    """A change of the code that makes statements false, or the reason why none does."""

    rows: tuple[str, ...] = ()
    file: str = ""
    old: str = ""
    new: str = ""
    unbreakable: str = ""
    tests: tuple[str, ...] = ()  #: of SECURITY.md, below tests/


def changes() -> list[Change]:
    """Return everything that is tried, in the order of the files."""
    entries = [entry for path in sorted(FOLDER.glob("*.yaml")) for entry in yaml.safe_load(path.read_text())]
    return [
        Change(**{**entry, **{each: tuple(entry.get(each, ())) for each in ("rows", "tests")}})
        for entry in entries
    ]


def security_problems(page: str, tried: Iterable[Change]) -> Iterator[str]:
    """Yield tests that SECURITY.md names and no change is for, and the other way round; `make hostile` has the e2e."""
    promised = page.partition("## What is promised")[2].partition("\n## ")[0]
    named = {test for test in re.findall(r"`tests/([\w/.]+::\w+)`", promised) if not test.startswith("e2e/")}
    tests = {test for change in tried for test in change.tests}
    yield from (
        f"SECURITY.md: {test} never failed: add a change to tests/prove" for test in sorted(named - tests)
    )
    yield from (f"tests/prove: {test} is not named by SECURITY.md" for test in sorted(tests - named))


def problems(
    rows: Sequence[coverage.Row], proofs: Mapping[str, Sequence[str]], tried: Iterable[Change]
) -> Iterator[str]:
    """Yield what rows, markers and changes do not agree on."""
    ids = Counter(row.id for row in rows)
    yield from (f"{row_id} is the id of {count} rows" for row_id, count in ids.items() if count > 1)
    yield from (
        f"{tests[0]} proves {row_id}, which is no row" for row_id, tests in proofs.items() if not ids[row_id]
    )
    excused: set[str] = set()
    changed: set[str] = set()
    for change in tried:
        yield from (f"tests/prove: {row_id} is no row" for row_id in change.rows if not ids[row_id])
        (excused if change.unbreakable else changed).update(change.rows)
    yield from (
        f"tests/prove: {row_id} is both changed and unbreakable" for row_id in sorted(excused & changed)
    )
    for row in rows:
        if row.outcome == "process" or row.id in excused:
            continue
        here = stories_of(row) + [test for test in proofs.get(row.id, ()) if not test.startswith(NOT_HERE)]
        if not here:
            yield f"{row.id} ({row.says}) has no test: mark one with @pytest.mark.proves({row.id!r})"
        elif row.id not in changed:
            yield f"{row.id} ({row.says}) was never broken: add a change to tests/prove, or why there is none"


def stale(tried: Iterable[Change], source: Path) -> Iterator[str]:
    """Yield changes whose old text is not in the code below *source* exactly once."""
    for change in tried:
        file = source / change.file
        if not change.unbreakable and (not file.is_file() or file.read_text().count(change.old) != 1):
            about = ", ".join(change.rows or change.tests)
            yield f"tests/prove: {about}: {change.file} does not have the old text once"


@dataclass(eq=False)  # pytest keeps plugins in sets
class Selected:
    """pytest plugin that runs the tests of some rows, quick ones first, until each row has a test that failed."""

    rows: set[str]
    broken: set[str]
    every: bool
    answer: Path | None = None  #: written before each test as if it failed: one that hangs ends the process
    outcomes: dict[str, list[str]] = field(default_factory=dict)
    _rows_of: dict[str, set[str]] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        stories: dict[str, set[str]] = {}
        for row in all_rows():
            for name in stories_of(row):
                stories.setdefault(name, set()).add(row.id)
        for item in items:
            rows = {row_id for mark in item.iter_markers("proves") for row_id in mark.args}
            if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
                rows.update(getattr(item.module, "PROVES", {}).get(item.callspec.id, ()))
                if item.nodeid.partition("[")[0] == f"tests/{STORIES}::test_a_story_comes_out_as_specified":
                    rows.update(stories.get(item.callspec.id, ()))
            self._rows_of[item.nodeid] = rows & self.rows
        items[:] = [item for item in items if self._rows_of[item.nodeid] and item.nodeid not in self.broken]
        items.sort(key=lambda item: ("unit/" not in item.nodeid, "e2e/" in item.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Run no test whose rows have all failed; end when every row has."""
        failed = {
            row
            for node, outcome in self.outcomes.items()
            if "failed" in outcome
            for row in self._rows_of[node]
        }
        if self.every or not self._rows_of[item.nodeid] <= failed:
            if self.answer is not None:
                self.outcomes[item.nodeid] = ["failed"]
                self.answer.write_text(json.dumps(self.result()))
                del self.outcomes[item.nodeid]
            return None
        if failed >= self.rows:
            item.session.shouldfail = "every row has a test that failed"
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.outcomes.setdefault(report.nodeid, []).append(report.outcome)

    def result(self) -> Results:
        """Return of each row which tests passed, failed and were skipped."""
        found: Results = {row: {} for row in self.rows}
        for node, outcomes in self.outcomes.items():
            outcome = next((each for each in ("failed", "skipped") if each in outcomes), "passed")
            for row in self._rows_of[node]:
                found[row].setdefault(outcome, []).append(node)
        return found


def all_rows() -> list[coverage.Row]:
    """Return the rows of all documents."""
    return [row for document in coverage.DOCUMENTS for row in coverage.rows(document)]


def stories_of(row: coverage.Row) -> list[str]:
    """Return the stories that a row names."""
    return [each.removeprefix("story:") for each in row.evidence if each.startswith("story:")]


def files_of(rows: Iterable[str]) -> list[str]:
    """Return the files of tests that carry the ids of *rows*, below tests/."""
    wanted = set(rows)
    marked = {test for row_id in wanted for test in coverage.proofs().get(row_id, ())}
    files = {test.partition("::")[0].partition("[")[0] for test in marked}
    if any(row.id in wanted and stories_of(row) for row in all_rows()):
        files.add(STORIES)
    return sorted(file for file in files if not file.startswith(NOT_HERE))


class Copy:
    """A copy of the checkout in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self._paths = os.pathsep.join((str(folder / "src"), str(folder)))
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=coverage.ROOT, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            if (coverage.ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(coverage.ROOT / name, folder / name)
        subprocess.run([sys.executable, "-m", "compileall", "-q", "src"], cwd=folder, check=True)

    def run(self, rows: Iterable[str], broken: Iterable[str] = (), *, every: bool = False) -> Results:
        """Return the outcomes of the tests of *rows*; raises RuntimeError if they could not be collected."""
        request = json.dumps({"rows": sorted(rows), "broken": sorted(broken), "every": every})
        answer = self.root / "answer.json"
        answer.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "tests.prove", "--child", request],
            cwd=self.root, env={**os.environ, "PYTHONPATH": self._paths}, capture_output=True, text=True,
        )  # fmt: skip
        if not answer.exists():
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
        found: Results = json.loads(answer.read_text())
        return found

    def passing(self, tests: Iterable[str]) -> list[str]:
        """Return which of *tests* pass; raises RuntimeError for one that could not be run."""
        found = []
        for test in tests:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *ARGUMENTS, "-x", "--hypothesis-profile=mutants", f"tests/{test}"],
                cwd=self.root, env={**os.environ, "PYTHONPATH": self._paths}, capture_output=True, text=True,
            )  # fmt: skip
            if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
                raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
            if done.returncode == pytest.ExitCode.OK:
                found.append(test)
        return found

    def passing_with(self, change: Change) -> list[str]:
        """Return which tests of *change* pass although it is made, or fail without it."""
        return [
            *set(change.tests).difference(self.passing(change.tests)),
            *self._with(change, lambda: self.passing(change.tests)),
        ]

    def try_change(self, change: Change, broken: Iterable[str], *, every: bool) -> Results:
        """Return what the tests of a change's rows say with it; raises ValueError if its old text is not there once."""
        return self._with(change, lambda: self.run(change.rows, broken, every=every))

    def _with(self, change: Change, run: Callable[[], T]) -> T:
        """Return what *run* does while *change* is made."""
        file = self.root / "src" / "weir" / change.file
        text = file.read_text()
        if text.count(change.old) != 1:
            raise ValueError(f"{change.file} has the old text {text.count(change.old)} times")
        kept = file.with_suffix(".kept")
        shutil.copy2(file, kept)
        try:
            self._write(file, text.replace(change.old, change.new))
            return run()
        finally:
            self._write(file, text)
            shutil.copy2(kept, file)
            kept.unlink()

    @staticmethod
    def _write(file: Path, text: str) -> None:
        file.write_text(text)
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()  # two versions written within a second can have the same size


def prove(wanted: Sequence[str], *, every: bool) -> int:
    """Try the changes of some rows (all when none is given) and say which were not noticed; returns the exit code."""
    tried = [
        change
        for change in changes()
        if not wanted or any({row, row.partition("-")[0]} & set(wanted) for row in change.rows)
    ]
    promises = [change for change in changes() if change.tests and not change.unbreakable]
    if wanted and "security" not in wanted:
        promises = []
    tried = [change for change in tried if change.rows]
    unnoticed, proven, excused = [], set(), set()
    with tempfile.TemporaryDirectory(prefix="weir-prove-") as folder:
        copy = Copy(Path(folder))
        rows = {row for change in tried if not change.unbreakable for row in change.rows}
        before = copy.run(rows, every=True) if rows else {}
        broken = {node for found in before.values() for node in found.get("failed", ())}
        for node in sorted(broken):
            print(f"{node} fails without any change and proves nothing")
        for change in tried:
            if change.unbreakable:
                excused.update(change.rows)
                continue
            try:
                results = copy.try_change(change, broken, every=every)
            except (ValueError, RuntimeError) as error:
                unnoticed.append(f"{', '.join(change.rows)}: {error}")
                print(unnoticed[-1], flush=True)
                continue
            for row, found in results.items():
                failed = found.get("failed", [])
                if failed:
                    proven.add(row)
                    print(f"{row} proven by {' '.join(failed if every else failed[:1])}", flush=True)
                    continue
                counts = (
                    ", ".join(f"{len(nodes)} {outcome}" for outcome, nodes in found.items()) or "no test ran"
                )
                unnoticed.append(f"{row}: {change.file}: {change.old!r} → {change.new!r}: {counts}")
                print(f"NOT {unnoticed[-1]}", flush=True)
        for change in promises:
            try:
                passing = copy.passing_with(change)
            except (ValueError, RuntimeError) as error:
                passing = [str(error)]
            for test in passing:
                unnoticed.append(f"{test}: {change.file}: {change.old!r} → {change.new!r}")
            print(
                *(unnoticed[-len(passing) :] if passing else [f"noticed by {' '.join(change.tests)}"]),
                flush=True,
            )
    known = {row.id for row in all_rows() if row.outcome != "process"}
    print(
        f"{len(proven)} rows proven, {len(excused)} with a reason why not, {len(known - proven - excused)} not tried"
    )
    print("\n".join(unnoticed) or "every change was noticed")
    return bool(unnoticed)


def child(request: Mapping[str, Any]) -> None:
    """Run the tests of some rows in this process and write what they said to answer.json."""
    rows = [str(row) for row in request["rows"]]
    answer, every = Path("answer.json").absolute(), bool(request["every"])
    plugin = Selected(set(rows), set(request["broken"]), every, None if every else answer)
    code = pytest.main(
        [*ARGUMENTS, "--hypothesis-profile=mutants", *(f"tests/{file}" for file in files_of(rows))],
        plugins=[plugin],
    )
    if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        answer.write_text(json.dumps(plugin.result()))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument(
        "rows",
        nargs="*",
        help="only these rows: ids such as 5471-12, 5471 for all of a document, security for SECURITY.md",
    )
    parser.add_argument("--check", action="store_true", help="only compare rows and markers")
    parser.add_argument(
        "--every", action="store_true", help="run every test of a row, not only until one fails"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(json.loads(given.child))
        return 0
    if given.check:
        tried = changes()
        found = [
            *problems(all_rows(), coverage.proofs(), tried),
            *security_problems(Path("SECURITY.md").read_text(), tried),
            *stale(tried, Path("src/weir")),
        ]
        print("\n".join(found), end="\n" if found else "")
        return bool(found)
    return prove(given.rows, every=given.every)


if __name__ == "__main__":
    sys.exit(main())
