"""Writes every page of the documentation that is made from the code: `make docs`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from weir.lint.pages import pages

REFERENCE = Path(__file__).parent / "reference"
PICTURES = Path(__file__).parent / "pictures"


def main() -> None:
    lint = REFERENCE / "lint"
    lint.mkdir(parents=True, exist_ok=True)
    for name, content in pages().items():
        (lint / name).write_text(content)
    drawing = [sys.executable, "-m", "weir.cli.main", "demo", "failure-probability", "-o", "svg"]
    (PICTURES / "demo.svg").write_bytes(subprocess.run(drawing, check=True, capture_output=True).stdout)
    functions = [sys.executable, "-m", "weir.cli.main", "cel", "functions", "-o", "markdown"]
    (REFERENCE / "cel.md").write_bytes(subprocess.run(functions, check=True, capture_output=True).stdout)


if __name__ == "__main__":
    main()
