"""Try every mutant of some modules with the tests that reach it.

A share of the mutants goes to each process. It collects the files of tests that reach them once and forks for each
mutant of a function; then it tries the ones that need a fresh import. Each result is kept in the module's own file as
it is found: a run that was interrupted goes on where it stopped, and a survivor is tried again when its tests changed.
What surprises: tests that killed neighbours in little time are tried first; a mutant that outlives `BUDGET` seconds of
tests has survived; a test that also fails, or takes too long, without the change kills nothing.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from tests.mutants.child import (
    Answer,
    Changed,
    Functions,
    answer_to,
    import_changed,
    quiet,
    run_tests,
    write_answer,
)
from tests.mutants.modules import source_of
from tests.mutants.operators import Mutant, Mutations
from tests.mutants.reached import FOLDER, IMPORT, digest, file_of

#: How many seconds of tests are run against one mutant.
BUDGET: Final = 10.0
#: Where tests are looked for: those that need a whole cluster in real time would take hours.
FOLDERS: Final = ("tests/unit", "tests/property", "src/weir")
ARGUMENTS: Final = ["-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile=mutants"]
#: How many files of tests are tried for a line that runs at import.
MOST_FILES: Final = 4
#: How many seconds a forked process may take before it is killed, and a test at most to be used at all.
PATIENCE: Final = 300.0
_LONGEST: Final = 4.0


@dataclass(slots=True)
class Suite:
    """What reaches what, and what has killed before."""

    reach: Mapping[str, Mapping[str, Any]]
    states: Mapping[str, str]
    budget: float = BUDGET
    killers: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _lines: dict[str, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, test in self.reach.items():
            long = test["seconds"] > _LONGEST or test.get("waited", 0.0) > 5 * _LONGEST
            if name != IMPORT and "outcome" not in test and not long:
                self.seconds[name] = test["seconds"]

    def is_reached(self, mutant: Mutant) -> bool:
        """Whether a test runs the line; the others run at import, if at all."""
        reached = self._lines.setdefault(mutant.module, set())
        if not reached:
            for name in self.seconds:
                reached.update(self.reach[name]["lines"].get(mutant.module, ()))
        return not mutant.at_import and mutant.line in reached

    def reaching(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a mutant; of one that runs at import, all in the files that reach its module."""
        if self.is_reached(mutant):
            lines = [(name, self.reach[name]["lines"].get(mutant.module, ())) for name in self.seconds]
            return [name for name, reached in lines if mutant.line in reached]
        if not mutant.at_import and mutant.line not in self._lines_at_import(mutant.module):
            return []
        files = {file_of(name) for name in self.seconds if mutant.module in self.reach[name]["lines"]}
        return [name for name in self.seconds if file_of(name) in files]

    def _worth(self, name: str) -> float:
        """Return how many mutants a test has killed for the time it takes; a fiftieth of a second goes on forking."""
        return self.killers.get(name, 0) / (0.02 + self.seconds[name])

    def _lines_at_import(self, module: str) -> Sequence[int]:
        found: Sequence[int] = self.reach.get(IMPORT, {"lines": {}})["lines"].get(module, ())
        return found

    def state(self, mutant: Mutant, source: str) -> str:
        """Return what tells whether a mutant has to be tried again: its module, or a test that reaches it, changed."""
        tests = self.reaching(mutant)
        return digest(source, *sorted(tests), *sorted({self.states[file_of(name)] for name in tests}))

    def chosen(self, mutant: Mutant) -> list[str]:
        """Return the tests to try, best first, as many as the budget allows."""
        own = f"/test_{mutant.module.rpartition('.')[2]}.py"
        found = self.reaching(mutant)
        found.sort(key=lambda name: (-self._worth(name), own not in name, self.seconds[name]))
        if not self.is_reached(mutant):  # each file has to be collected anew
            files = sorted({file_of(name): None for name in found}, key=lambda file: own not in file)[
                :MOST_FILES
            ]
            found = [name for name in found if file_of(name) in files]
        chosen: list[str] = []
        spent = 0.0
        for name in found:
            if spent + self.seconds[name] <= self.budget:
                spent += self.seconds[name]
                chosen.append(name)
        return chosen


@dataclass(frozen=True, slots=True)
class Result:
    """How a mutant fared: `killed`, `timeout` (killed as well), `survived`, or `unreached` by any test."""

    name: str
    module: str
    line: int
    outcome: str
    tests: int
    by: str = ""
    source: str = ""  # the state of the module, and the same with the tests that reach it
    state: str = ""

    @property
    def dead(self) -> bool:
        return self.outcome in ("killed", "timeout")

    def still_holds(self, state: str, source: str) -> bool:
        """Whether it need not be tried again: what killed it once kills it, what did not is asked when it changes."""
        return self.source == digest(source) if self.dead else self.state == state


class Attempt(Protocol):
    """Runs tests with a change made, or without it."""

    def __call__(self, tests: Sequence[str], *, unchanged: bool = False) -> Answer: ...


class Share:
    """One process's share of the mutants."""

    def __init__(self, mutants: Iterable[tuple[Mutant, Mutations, int]], tests: Suite) -> None:
        self._mutants = list(mutants)
        self._tests = tests
        self._reliable: dict[str, bool] = {}

    def run(self) -> None:
        """Try all of the share; the results are written one JSON line each, by module."""
        if any(self._tests.is_reached(mutant) for mutant, _, _ in self._mutants):
            self._run_collected()
        for mutant, mutations, number in self._mutants:
            if not self._tests.is_reached(mutant):
                self._try(mutant, self._importing(mutant, mutations, number))

    def _run_collected(self) -> None:
        """Collect the tests and try what can be swapped, in a process of its own: this one stays without weir."""
        reached = [mutant for mutant, _, _ in self._mutants if self._tests.is_reached(mutant)]
        files = sorted({file_of(name) for mutant in reached for name in self._tests.reaching(mutant)})
        process = os.fork()
        if process == 0:
            try:
                quiet()
                pytest.main([*ARGUMENTS, *files], plugins=[self])
            finally:
                os._exit(0)
        os.waitpid(process, 0)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self._tests.seconds = {name: value for name, value in self._tests.seconds.items() if name in items}
        for module in {mutant.module for mutant, _, _ in self._mutants}:
            importlib.import_module(
                module
            )  # what is imported only when it is needed would be imported unchanged
        functions = Functions({str(source_of(mutant.module)) for mutant, _, _ in self._mutants})
        gc.freeze()
        for mutant, mutations, number in self._mutants:
            if self._tests.is_reached(mutant):
                self._try(mutant, self._swapping(mutant, mutations, number, functions, items))
        return True

    def _importing(self, mutant: Mutant, mutations: Mutations, number: int) -> Attempt:
        def attempt(tests: Sequence[str], *, unchanged: bool = False) -> Answer:
            file = str(source_of(mutant.module))
            changed = None if unchanged else Changed(mutant.module, file, mutations.compiled(number, file))
            return import_changed(changed, tests, self._tests.seconds, ARGUMENTS)

        return attempt

    def _swapping(
        self,
        mutant: Mutant,
        mutations: Mutations,
        number: int,
        functions: Functions,
        items: Mapping[str, pytest.Item],
    ) -> Attempt:
        def attempt(tests: Sequence[str], *, unchanged: bool = False) -> Answer:
            file = str(source_of(mutant.module))
            if not unchanged:
                functions.swap(file, mutations.compiled(number, file))
            return run_tests([(items[name], self._tests.seconds[name]) for name in tests])

        return attempt

    def _try(self, mutant: Mutant, attempt: Attempt) -> None:
        source = source_of(mutant.module).read_text()
        state = self._tests.state(mutant, source)
        tests = self._tests.chosen(mutant)
        answer = Answer("unreached")
        while tests:
            answer = forked(lambda: attempt(tests))  # noqa: B023 (called at once)
            if answer.by not in self._tests.seconds or self._fails_only_with(answer.by, attempt):
                break
            self._tests.seconds.pop(answer.by)
            tests = self._tests.chosen(mutant)
            answer = Answer("unreached")
        if answer.by:
            self._tests.killers[answer.by] = self._tests.killers.get(answer.by, 0) + 1
        result = Result(
            mutant.name,
            mutant.module,
            mutant.line,
            answer.outcome,
            len(tests),
            answer.by,
            digest(source),
            state,
        )
        with results_of(mutant.module).open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")

    def _fails_only_with(self, test: str, attempt: Attempt) -> bool:
        """Whether a test that failed with a change passes without one; asked once a test."""
        if test not in self._reliable:
            self._reliable[test] = forked(lambda: attempt([test], unchanged=True)).outcome == "survived"
        return self._reliable[test]


def results_of(module: str) -> Path:
    """Return the file that keeps what became of a module's mutants, the latest last."""
    return FOLDER / "results" / f"{module}.jsonl"


def read_results(module: str) -> dict[str, Result]:
    """Return what is known of a module's mutants, by their names."""
    path = results_of(module)
    lines = path.read_text().splitlines() if path.exists() else []
    return {result.name: result for result in (Result(**json.loads(line)) for line in lines)}


def forked(run: Callable[[], Answer]) -> Answer:
    """Run something in a forked process and return its answer."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            quiet()
            answer_to(writing)
            write_answer(run())
        finally:
            os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], PATIENCE)
    text = os.read(reading, 1 << 16) if ready else b""
    os.close(reading)
    if not text:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if text:
        return Answer(*json.loads(text))
    return Answer("broken" if ready and os.waitstatus_to_exitcode(status) != -signal.SIGKILL else "timeout")


def mutants_of(modules: Iterable[str]) -> list[tuple[Mutant, Mutations, int]]:
    """Return every mutant of some modules, with how to make it."""
    found = []
    for module in modules:
        mutations = Mutations(module, source_of(module).read_text())
        found += [(mutant, mutations, number) for number, mutant in enumerate(mutations.mutants)]
    return found
