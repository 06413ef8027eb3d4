"""Which tests reach which lines of the modules to be changed, and how long does each take?

A pytest plugin (`-p tests.mutants.reach`): it traces the modules of `tests.mutants.modules` only and writes, per
process, a JSON file of test → seconds and lines into the folder $WEIR_MUTANTS.
What surprises: lines that run at import are no test's, they run once; a change to one is tried with every test that
reaches the module at all.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.mutants.modules import MODULES, source_of

FOLDER = Path(os.environ.get("WEIR_MUTANTS", ".mutants"))


class Reach:
    """Lines reached by the test that runs now, and what was reached by those before it."""

    def __init__(self) -> None:
        self._files = {str(source_of(module)): module for module in MODULES}
        self._lines: dict[str, set[int]] = {}
        self.tests: dict[str, dict[str, Any]] = {}

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        module = self._files.get(frame.f_code.co_filename)
        if module is None:
            return None
        lines = self._lines.setdefault(module, set())

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return line

        lines.add(frame.f_lineno)
        return line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._lines = {}
        sys.settrace(self._call)
        threading.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            if self._lines:
                test = self.tests.setdefault(item.nodeid, {"seconds": 0.0})
                test["lines"] = {module: sorted(lines) for module, lines in self._lines.items()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests.setdefault(report.nodeid, {"seconds": 0.0})
        test["seconds"] += report.duration
        if report.outcome != "passed":
            test["outcome"] = report.outcome

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        FOLDER.mkdir(exist_ok=True)
        reached = {name: test for name, test in self.tests.items() if test.get("lines")}
        (FOLDER / f"reach-{worker}.json").write_text(json.dumps(reached))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # xdist's own process runs no tests
    config.pluginmanager.register(Reach(), "weir-mutants-reach")


def read_reach() -> dict[str, dict[str, Any]]:
    """Return what the last run wrote: by test, its seconds and its lines by module."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(FOLDER.glob("reach-*.json")):
        found.update(json.loads(path.read_text()))
    return found
