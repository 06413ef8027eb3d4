"""make mutants: change the mission's core one operator at a time; fail when too many changes go unnoticed.

    python -m tests.mutants [--write] [--reuse] [--tests FOLDER]… [MODULE]…

`--reuse` goes on from the runs before: what has not changed since is neither measured nor tried again; `--write` lists
the survivors in survivors.yaml and the modules in README.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import click

from tests.mutants.modules import MODULES, source_of
from tests.mutants.page import Score, write_page
from tests.mutants.reached import FOLDER, Reached, files_of_tests
from tests.mutants.run import BUDGET, FOLDERS, Result, Share, Suite, mutants_of, read_results, results_of
from tests.mutants.survivors import read_survivors, write_survivors

#: Of a hundred mutants that are not equivalent, how many must be killed.
KILLED_PERCENT: Final = 95.0


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]…")
@click.option("--write", is_flag=True, help="List the survivors in survivors.yaml, the modules in README.md.")
@click.option("--tests", "folders", multiple=True, default=FOLDERS, help="Where to look for tests.")
@click.option("--reuse", is_flag=True, help="Go on from the runs before.")
@click.option("--processes", default=2, show_default=True, help="How many work at a time.")
@click.option("--budget", default=BUDGET, show_default=True, help="Seconds of tests run against one mutant.")
def main(
    modules: tuple[str, ...],
    folders: tuple[str, ...],
    write: bool,
    reuse: bool,
    processes: int,
    budget: float,
) -> None:
    """Change MODULEs (all of the core) one operator at a time and run the tests that reach each change."""
    unknown = [module for module in modules if module not in MODULES]
    if unknown:
        raise click.UsageError(f"{unknown[0]} is not in tests/mutants/modules.py")
    if not reuse:
        shutil.rmtree(FOLDER, ignore_errors=True)
    files = files_of_tests(folders)
    reached = Reached.read()
    _measure(reached, reached.stale(files), processes)
    chosen = modules or MODULES
    equivalent = {name for name, reason in read_survivors().items() if reason}
    results = _try_all(chosen, Suite(reached.within(files), reached.states, budget), equivalent, processes)
    scores = [_score(module, results, equivalent) for module in chosen]
    _print_table(scores)
    living = [result for result in results if not result.dead]
    for result in living:
        print(f"{result.outcome}: line {result.line} ({result.tests} tests) {result.name}")
    if write:
        exists = {mutant.name for mutant, _, _ in mutants_of(MODULES)}
        others = {name: "" for name in read_survivors() if name.partition(" ")[0] not in chosen}
        write_survivors(read_survivors(), [*(result.name for result in living), *others], exists)
        write_page(scores)
    print(
        f"{len(results)} mutants, {len(results) - len(living)} killed: {killed_percent(results):.1f} % "
        f"(at least {KILLED_PERCENT:.0f} of each module)"
    )
    below = below_the_bound(results)
    for module, percent in below.items():
        print(f"too many survive in {module}: {percent:.1f} % killed")
    sys.exit(bool(below))


def killed_percent(results: Sequence[Result]) -> float:
    """Return how many of a hundred mutants were killed; of none, all."""
    return 100 * sum(result.dead for result in results) / len(results) if results else 100.0


def below_the_bound(results: Sequence[Result]) -> dict[str, float]:
    """Return the modules in which too many mutants survive, and how many of a hundred were killed there."""
    percents = {
        module: killed_percent([result for result in results if result.module == module])
        for module in dict.fromkeys(result.module for result in results)
    }
    return {module: percent for module, percent in percents.items() if percent < KILLED_PERCENT}


def _measure(reached: Reached, files: Sequence[str], processes: int) -> None:
    if not files:
        return
    print(f"measuring which lines the tests of {len(files)} files reach …", flush=True)
    spread = ["-n", str(processes), "--dist", "loadfile"] if processes > 1 else ["-p", "no:xdist"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.mutants.reach",
        *spread,
        "--hypothesis-profile=mutants",
    ]
    ended = subprocess.run([*command, *files], check=False)
    if ended.returncode:
        raise click.ClickException("mutants are tried with tests that pass; these do not")
    reached.take(files)


def _try_all(modules: Sequence[str], tests: Suite, equivalent: set[str], processes: int) -> list[Result]:
    mutants = [entry for entry in mutants_of(modules) if entry[0].name not in equivalent]
    known = {name: result for module in modules for name, result in read_results(module).items()}
    sources = {module: source_of(module).read_text() for module in modules}
    for result in known.values():
        if result.by:
            tests.killers[result.by] = tests.killers.get(result.by, 0) + 1
    untried = [
        entry
        for entry in mutants
        if (mutant := entry[0]).name not in known
        or not known[mutant.name].still_holds(
            tests.state(mutant, sources[mutant.module]), sources[mutant.module]
        )
    ]
    results_of(MODULES[0]).parent.mkdir(parents=True, exist_ok=True)
    shares = []
    for share in range(processes if untried else 0):
        process = os.fork()
        if process == 0:
            try:
                Share(untried[share::processes], tests).run()
            finally:
                os._exit(0)
        shares.append(process)
    for process in shares:
        os.waitpid(process, 0)
    tried = {name: result for module in modules for name, result in read_results(module).items()}
    missing = [entry for entry in untried if tried.get(entry[0].name) is known.get(entry[0].name)]
    if missing:
        raise click.ClickException(f"{len(missing)} of {len(mutants)} mutants were not tried")
    found = [tried[mutant.name] for mutant, _, _ in mutants]
    return sorted(found, key=lambda result: (result.module, result.line))


def _score(module: str, results: Sequence[Result], equivalent: set[str]) -> Score:
    own = [result for result in results if result.module == module]
    same = sum(name.partition(" ")[0] == module for name in equivalent)
    return Score(module, len(own), sum(result.dead for result in own), same)


def _print_table(scores: Sequence[Score]) -> None:
    print(f"{'module':48} mutants  killed  equivalent  percent")
    for score in scores:
        print(
            f"{score.module:48} {score.mutants:7} {score.killed:7} {score.equivalent:11} {score.percent:8.1f}"
        )


if __name__ == "__main__":
    main()
