"""Runs benchmarks: `python -m bench NAME [--json]`; without a name lists them; `--readme` writes README's table.

`python -m bench growth [CURVE…] [--quick] [--json] [--write]` draws how costs grow.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench import growth
from bench._interpreter import go_on_with_the_quickest
from bench._table import written


def main(arguments: list[str]) -> int:
    names = [argument for argument in arguments if not argument.startswith("-")]
    known = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    if "--readme" in arguments:
        readme = Path(__file__).parents[1] / "README.md"
        day = datetime.now(UTC).strftime("%-d %B %Y")
        machine = (
            f"{os.cpu_count()} cores ({platform.machine()}) with Python {platform.python_version()} on {day}"
        )
        readme.write_text(
            written(readme.read_text(), machine, lambda name: importlib.import_module(f"bench.{name}").run())
        )
        return 0
    if not names:
        print("\n".join(known))
        return 0
    if names[0] != "growth" and (unknown := [name for name in names if name not in known]):
        print(f"bench: unknown benchmark {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    if names[0] == "growth":  # has arguments of its own
        return growth.main([argument for argument in arguments if argument != "growth"])
    for name in names:
        figures = importlib.import_module(f"bench.{name}").run()
        if "--json" in arguments:
            machine = {
                "python": platform.python_version(),
                "machine": platform.machine(),
                "cores": os.cpu_count(),
            }
            print(json.dumps({"bench": name, "machine": machine, "figures": [asdict(f) for f in figures]}))
            continue
        print(f"{name} (Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores)")
        for found in figures:
            baseline = f"   baseline {found.baseline:,.3g} {found.unit}" if found.baseline is not None else ""
            ratio = f"   ratio {found.ratio:,.2f}" if found.ratio is not None else ""
            target = f"   ({found.target})" if found.target else ""
            print(f"  {found.figure:<58} {found.value:>12,.4g} {found.unit}{baseline}{ratio}{target}")
    return 0


if __name__ == "__main__":
    go_on_with_the_quickest()
    sys.exit(main(sys.argv[1:]))
