"""Measures which tests reach which lines of the modules to be changed, and how long each takes.

A pytest plugin (`-p tests.mutants.reach`): it serves the modules of `tests.mutants.modules` to the import with a mark
before every statement and writes, per process, a JSON file of test → seconds and lines for `tests.mutants.reached`.
What surprises: as it is loaded, nothing of weir may have been imported yet, its own pytest plugin included; a statement
that is begun is reached as a whole; lines that run at import are no test's, they run once: one changed is tried with
every test of the files that reach the module at all.
"""

from __future__ import annotations

import ast
import functools
import importlib.abc
import importlib.machinery
import json
import os
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import pytest

from tests.mutants.modules import MODULES, source_of
from tests.mutants.reached import FOLDER, IMPORT
from tests.mutants.statement_marks import MARK, lines_by_statement, with_marks


class Marked(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves the modules to be changed with a mark before every statement of a function."""

    def __init__(self) -> None:
        #: By module, the first lines of the statements that were begun.
        self.begun: dict[str, set[int]] = {module: set() for module in MODULES}

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self.begun:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=str(source_of(name)))
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        file = source_of(module.__name__)
        module.__dict__[MARK] = self.begun[module.__name__].add
        exec(compile(with_marks(file.read_text()), str(file), "exec"), module.__dict__)


class Reach:
    """Lines reached by the test that runs now, and what was reached by those before it."""

    def __init__(self, marked: Marked) -> None:
        self._begun = marked.begun
        self._lines = {
            module: lines_by_statement(ast.parse(source_of(module).read_text())) for module in MODULES
        }
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_collection_finish(self) -> None:
        self._take(IMPORT)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for cached in self._caches():
            cached.cache_clear()  # what an earlier test has asked is not asked again
        for begun in self._begun.values():
            begun.clear()
        start = time.process_time()
        try:
            return (yield)
        finally:
            self._take(item.nodeid, time.process_time() - start)

    def _caches(self) -> Iterator[Any]:
        for name in self._begun:
            if (module := sys.modules.get(name)) is not None:
                for held in vars(module).values():
                    if isinstance(held, functools._lru_cache_wrapper) and held.__module__ == name:
                        yield held

    def _take(self, name: str, seconds: float = 0.0) -> None:
        """Keep what was begun since the test before."""
        test = self.tests.setdefault(name, {})
        test["seconds"] = seconds  # of CPU time: on a busy machine the clock says nothing
        test["lines"] = {
            module: sorted(line for first in begun for line in self._lines[module].get(first, [first]))
            for module, begun in self._begun.items()
            if begun
        }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests.setdefault(report.nodeid, {})
        test["waited"] = test.get("waited", 0.0) + report.duration
        if report.outcome != "passed":
            test["outcome"] = report.outcome

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"reach-{worker}.json").write_text(json.dumps(self.tests))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # xdist's own process runs no tests
    config.pluginmanager.register(Reach(_MARKED), "weir-mutants-reach")


_MARKED: Final = Marked()
sys.meta_path.insert(0, _MARKED)
