"""Programs that ask Kubernetes' own code a question: built from `tools/` once, kept outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def oracle(name: str) -> str:
    """Return the path of the program *name* of `tools/`; built when it is older than its source, skipped without Go."""
    if ready := os.environ.get(f"KUBERNETES_{name.upper()}"):
        return ready
    if shutil.which("go") is None:
        pytest.skip(f"building Kubernetes' {name} needs Go, which is not on this machine")
    source = HERE.parents[1] / "tools" / name / "main.go"
    version = next(
        line.split()[2] for line in (HERE / "go.mod").read_text().splitlines() if line.startswith("require")
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "weir" / "kubernetes" / version
    target = cache / name
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(HERE / "go.mod", folder)
            shutil.copy(source, folder)
            command = ["go", "build", "-mod=mod", "-o", str(target), "."]
            subprocess.run(command, cwd=folder, check=True, env={**os.environ, "CGO_ENABLED": "0"})
    return str(target)
