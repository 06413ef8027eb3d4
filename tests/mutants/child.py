"""What happens to one mutant: a forked process makes the change, runs the tests that reach it and says which failed.

Two ways to make the change. A line that runs when something is called is swapped into the functions that the collected
tests already hold: forking costs milliseconds. A line that runs at import needs a process in which nothing of weir was
imported yet; it serves the changed module to the import itself.
What surprises: time limits are of CPU time as well as of the clock, so that a busy machine kills no mutant by itself.
"""

from __future__ import annotations

import functools
import gc
import importlib.abc
import importlib.machinery
import json
import os
import resource
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol

_MEMORY: Final = 6 << 30


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a mutant: `survived`, `killed` by a test, `timeout` or, if no test could be run, `broken`."""

    outcome: str
    by: str = ""


class Functions:
    """The functions of some files that are alive in this process, by the code that defines them."""

    def __init__(self, files: set[str]) -> None:
        self._by_file: dict[str, list[FunctionType]] = defaultdict(list)
        self._caches: list[Any] = []
        gc.unfreeze()  # tests/conftest.py froze them, and what is frozen is not listed
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType) and thing.__code__.co_filename in files:
                self._by_file[thing.__code__.co_filename].append(thing)
            elif isinstance(thing, functools._lru_cache_wrapper):
                self._caches.append(thing)

    def swap(self, file: str, module: CodeType) -> None:
        """Give every function of a file the code that the changed module has for it; forget what was kept."""
        changed: dict[tuple[str, int], list[CodeType]] = defaultdict(list)
        for code in _codes(module):
            changed[code.co_qualname, code.co_firstlineno].append(code)
        for function in self._by_file[file]:
            old = function.__code__
            found = changed[old.co_qualname, old.co_firstlineno]
            if len(found) == 1 and len(found[0].co_freevars) == len(old.co_freevars):
                function.__code__ = found[0]
        for cache in self._caches:
            cache.cache_clear()


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves one changed module to the import system."""

    def __init__(self, module: str, file: str, code: CodeType) -> None:
        self._module, self._file, self._code = module, file, code

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self._module:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=self._file)
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


#: Where the forked process writes its answer.
_pipe = -1


def answer_to(pipe: int) -> None:
    """Say where this process's answer goes."""
    global _pipe
    _pipe = pipe


def write_answer(answer: Answer) -> None:
    """Tell the process that waits what became of the mutant."""
    os.write(_pipe, json.dumps([answer.outcome, answer.by]).encode())


def run_tests(items: Sequence[tuple[pytest.Item, float]]) -> Answer:
    """Run tests until one fails; a test that takes far too long ends the process with that answer."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    for position, (item, seconds) in enumerate(items):
        following = items[position + 1][0] if position + 1 < len(items) else None

        def stop(*_: Any, name: str = item.nodeid) -> None:
            write_answer(Answer("timeout", name))
            os._exit(0)

        for signalled in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(signalled, stop)
        signal.setitimer(signal.ITIMER_PROF, max(2.0, 8 * seconds))
        signal.setitimer(signal.ITIMER_REAL, max(60.0, 60 * seconds))
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            return Answer("killed", item.nodeid)
    return Answer("survived")


class Chosen:
    """A pytest plugin that runs the chosen tests in the order given, in the process it is in."""

    def __init__(self, tests: Sequence[str], seconds: dict[str, float]) -> None:
        self._tests, self._seconds = tests, seconds
        self.answer = Answer("broken")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        chosen = [(items[name], self._seconds[name]) for name in self._tests if name in items]
        if session.testsfailed or len(chosen) < len(self._tests):
            self.answer = Answer("killed", "collection")  # a test, or its data, cannot be made any more
        else:
            self.answer = run_tests(chosen)
        return True


def quiet() -> None:
    """Send what tests and pytest print to nowhere."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)


def import_changed(
    changed: Changed | None, tests: Sequence[str], seconds: dict[str, float], arguments: list[str]
) -> Answer:
    """Import a changed module in this process, which has nothing of weir yet, and run tests."""
    if changed is not None:
        sys.meta_path.insert(0, changed)
    chosen = Chosen(tests, seconds)
    files = list(dict.fromkeys(name.split("::")[0] for name in tests))
    try:
        # Rewriting assertions would import weir, a pytest plugin, past the changed module.
        pytest.main(["--assert=plain", *arguments, *files], plugins=[chosen])
    except Exception:  # weir's own pytest plugin cannot be imported
        return Answer("killed", "import")
    return Answer("killed", "collection") if chosen.answer.outcome == "broken" else chosen.answer
