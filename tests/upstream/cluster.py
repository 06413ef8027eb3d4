"""A cluster of its own for some specs: `weir up` in a folder, on a free port, until they are through."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

WEIR = (sys.executable, "-m", "weir.cli.main")
NODES, GPUS = 3, 4


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Path]:
    """Run a cluster and give its kubeconfig."""
    data = folder / "cluster"
    size = ("--nodes", str(NODES), "--gpus", str(GPUS))
    up = (*WEIR, "up", "--detach", "--data-dir", str(data), "--secure-port", "0", *size)
    with (folder / "up.log").open("wb") as log:
        subprocess.run(up, stdout=log, stderr=subprocess.STDOUT, check=True)
    try:
        yield data / "kubeconfig"
    finally:
        subprocess.run((*WEIR, "down", "--data-dir", str(data)), capture_output=True, check=False)
