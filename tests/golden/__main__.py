"""`python -m tests.golden [DIR]`: replay recorded exchanges, print every difference, then the count."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.golden.recording import RECORDED
from tests.golden.replay import replay_folder


def main(arguments: list[str]) -> int:
    if len(arguments) > 2:
        print("usage: python -m tests.golden [DIR [AREA]]", file=sys.stderr)
        return 2
    folder = Path(arguments[0]) if arguments else RECORDED
    if not folder.is_dir():
        print(f"{folder}: not a folder of fixtures", file=sys.stderr)
        return 2
    report = asyncio.run(replay_folder(folder, RECORDED, arguments[1] if len(arguments) > 1 else ""))
    for name, wrong in report.failed.items():
        print(f"FAIL {name}")
        for line in wrong[:20]:
            print(f"     {line}")
        if len(wrong) > 20:
            print(f"     … and {len(wrong) - 20} more")
    for need, names in report.waiting.items():
        print(
            f"NOT REPLAYED, needs {need}: {len(names)} ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
        )
    for name, wrong in report.kept.items():
        print(
            f"AS KEPT {name}: shown as recorded; the running components came to something else ({wrong[0]})"
        )
    for area, (good, bad) in sorted(report.areas().items()):
        print(f"{area}: {good} passed, {bad} failed")
    print(f"{len(report.passed)} passed, {len(report.failed)} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
