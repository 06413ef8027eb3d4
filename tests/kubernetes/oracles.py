"""Programs that ask Kubernetes' own code a question: built from `tools/` once, kept outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TOOLS = HERE.parents[1] / "tools"


def oracle(name: str) -> str:
    """Return the path of the program *name* of `tools/`; built when it is older than its source, skipped without Go."""
    if ready := os.environ.get(f"KUBERNETES_{name.upper()}"):
        return ready
    if shutil.which("go") is None:
        pytest.skip(f"building Kubernetes' {name} needs Go, which is not on this machine")
    source = TOOLS / name / "main.go"
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    target = cache / "weir" / "kubernetes" / pinned_version() / name
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        command = ["go", "build", "-o", str(target), f"./{name}"]
        subprocess.run(command, cwd=TOOLS, check=True, env={**os.environ, "CGO_ENABLED": "0"})
    return str(target)


def pinned_version() -> str:
    """Return the version of Kubernetes whose programs the tests run."""
    text = (HERE / "go.mod").read_text()
    return next(line.split()[2] for line in text.splitlines() if line.startswith("require"))
