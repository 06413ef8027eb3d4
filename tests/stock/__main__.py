"""`python -m tests.stock [flips for each situation] [situation …]`: the long run that `make test-stock` makes."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.stock.flips import SITUATIONS, play


def main(arguments: list[str]) -> int:
    flips = int(arguments[0]) if arguments else 500
    chosen = arguments[1:] or list(SITUATIONS)
    bad = 0
    for situation in chosen:
        with tempfile.TemporaryDirectory(prefix="weir-stock-") as folder:
            result = asyncio.run(play(Path(folder), situation, flips))
        print(result.line(), flush=True)
        bad += len(result.wrong) + len(result.missed)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
