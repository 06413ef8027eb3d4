"""make mutants: change the mission's core one operator at a time; fail when too many changes go unnoticed.

    python -m tests.mutants [--write] [--reuse] [--tests FOLDER]… [MODULE]…

`--reuse` takes the reach of the tests from the run before; `--write` lists the survivors in survivors.yaml.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

import click

from tests.mutants.modules import MODULES
from tests.mutants.reach import FOLDER, read_reach
from tests.mutants.run import FOLDERS, Result, Share, Tests, mutants_of
from tests.mutants.survivors import read_survivors, write_survivors

#: Of a hundred mutants that are not equivalent, how many must be killed.
KILLED_PERCENT: Final = 95.0
PROCESSES: Final = 2


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]…")
@click.option("--write", is_flag=True, help="List the survivors in survivors.yaml.")
@click.option("--tests", "folders", multiple=True, default=FOLDERS, help="Where to look for tests.")
@click.option("--reuse", is_flag=True, help="Take the reach of the tests from the run before.")
def main(modules: tuple[str, ...], folders: tuple[str, ...], write: bool, reuse: bool) -> None:
    """Change MODULEs (all of the core) one operator at a time and run the tests that reach each change."""
    unknown = [module for module in modules if module not in MODULES]
    if unknown:
        raise click.UsageError(f"{unknown[0]} is not in tests/mutants/modules.py")
    if not reuse:
        _measure_reach(folders)
    chosen = modules or MODULES
    equivalent = {name for name, reason in read_survivors().items() if reason}
    results = _try_all(chosen, folders, equivalent)
    _print_table(results, equivalent)
    living = [result for result in results if not result.dead]
    for result in living:
        print(f"{result.outcome}: line {result.line} ({result.tests} tests) {result.name}")
    if write:
        exists = {mutant.name for mutant, _, _ in mutants_of(MODULES)}
        others = {name: "" for name in read_survivors() if name.partition(" ")[0] not in chosen}
        write_survivors(read_survivors(), [*(result.name for result in living), *others], exists)
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


def _measure_reach(folders: tuple[str, ...]) -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    print("measuring which tests reach which lines …", flush=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.mutants.reach",
        "-n",
        str(PROCESSES),
        "--dist",
        "loadfile",
    ]
    ended = subprocess.run([*command, "--hypothesis-profile=mutants", *folders], check=False)
    if ended.returncode:
        raise click.ClickException("mutants are tried with tests that pass; these do not")


def _try_all(modules: tuple[str, ...], folders: tuple[str, ...], equivalent: set[str]) -> list[Result]:
    reach = read_reach()
    mutants = [entry for entry in mutants_of(modules) if entry[0].name not in equivalent]
    shares = []
    for share in range(PROCESSES):
        results = FOLDER / f"results-{share}.jsonl"
        results.unlink(missing_ok=True)
        process = os.fork()
        if process == 0:
            try:
                Share(mutants[share::PROCESSES], Tests(reach), folders, results).run()
            finally:
                os._exit(0)
        shares.append((process, results))
    for process, _ in shares:
        os.waitpid(process, 0)
    found = [Result(**json.loads(line)) for _, path in shares for line in path.read_text().splitlines()]
    if len(found) != len(mutants):
        raise click.ClickException(f"{len(mutants) - len(found)} of {len(mutants)} mutants were not tried")
    return sorted(found, key=lambda result: (result.module, result.line))


def _print_table(results: list[Result], equivalent: set[str]) -> None:
    print(f"{'module':48} mutants  killed  timeout  survived  unreached  equivalent  percent")
    for module in dict.fromkeys(result.module for result in results):
        own = [result for result in results if result.module == module]
        counts = Counter(result.outcome for result in own)
        same = sum(name.partition(" ")[0] == module for name in equivalent)
        print(
            f"{module:48} {counts.total():7} {counts['killed']:7} {counts['timeout']:8} "
            f"{counts['survived'] + counts['broken']:9} {counts['unreached']:10} {same:11} {killed_percent(own):8.1f}"
        )


if __name__ == "__main__":
    main()
