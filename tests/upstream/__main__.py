"""Run Kubernetes' own end-to-end tests against `weir up` (`make test-upstream`).

    python -m tests.upstream [--group sig-scheduling] [--focus words] [--jobs 3] [--logs DIR] [--write]
    python -m tests.upstream --list                 what would be run
    python -m tests.upstream --left-out             what is not, and why
    python -m tests.upstream --record               write specs.txt anew from the program's own list

Exit 1 if a spec fails, or skips itself without being named in left-out.yaml; 3 where the program cannot be built.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.upstream import page
from tests.upstream.results import by_group, counts, table
from tests.upstream.run import all_names, program, run
from tests.upstream.specs import GROUPS, NAMES, Pattern, Selection, read_names, read_patterns, selections


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.upstream", description=__doc__.partition("\n")[0])
    parser.add_argument("--group", action="append", default=[], help=f"some of {', '.join(GROUPS)}")
    parser.add_argument("--focus", default="", help="only specs whose name has this piece (* for anything)")
    parser.add_argument("--jobs", type=int, default=3, help="clusters side by side")
    parser.add_argument("--logs", type=Path, help="where the logs are kept (a new folder)")
    parser.add_argument("--all", action="store_true", help="also run what left-out.yaml names")
    parser.add_argument("--write", action="store_true", help="write the numbers into the reference page")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="name what would be run")
    what.add_argument("--left-out", action="store_true", help="name what is left out, with the reasons")
    what.add_argument("--record", action="store_true", help="write specs.txt from the program's own list")
    return parser.parse_args()


def narrowed(selection: Selection, focus: str, everything: bool) -> Selection:
    """Return what of a group is asked for on the command line."""
    wanted = Pattern(focus, "")
    run = selection.names if everything else selection.run
    left_out = {} if everything else selection.left_out
    return Selection(
        selection.group,
        tuple(name for name in run if wanted.matches(name)),
        {name: pattern for name, pattern in left_out.items() if wanted.matches(name)},
    )


def main() -> int:
    asked = arguments()
    wanted = [name for each in asked.group for name in each.replace(",", " ").split()] or list(GROUPS)
    if unknown := [name for name in wanted if name not in GROUPS]:
        print(f"no group {unknown[0]!r}; there are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    if asked.write and (asked.focus or asked.all):
        print("--write takes whole groups, without --focus and --all", file=sys.stderr)
        return 2
    if asked.record:
        NAMES.write_text("\n".join(all_names(program())) + "\n")
        return 0
    chosen = [
        narrowed(each, asked.focus, asked.all)
        for each in selections(read_names(), read_patterns())
        if each.group in wanted
    ]
    if asked.list or asked.left_out:
        for each in chosen:
            for name in each.run if asked.list else each.left_out:
                print(name if asked.list else f"{each.left_out[name].reason}: {name}")
        return 0
    e2e = program()
    if all_names(e2e) != read_names():
        print(
            "specs.txt is not the list of this program; `python -m tests.upstream --record` writes it",
            file=sys.stderr,
        )
        return 2
    logs = asked.logs or Path(tempfile.mkdtemp(prefix="weir-upstream-"))
    results = run(
        e2e, {each.group: each.run for each in chosen}, logs, asked.jobs, lambda text: print(text, flush=True)
    )
    found = by_group(results)
    rows = {each.group: counts(each, found.get(each.group, [])) for each in chosen if each.names}
    print(table(rows), end="")
    if again := [result.name for result in results if result.passed and result.again]:
        print("passed only when run again:", *again, sep="\n  ")
    failed = [result for result in results if not result.passed]
    for result in failed:
        print(result.line())
    print(f"logs: {logs}")
    if asked.write:
        page.write(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
