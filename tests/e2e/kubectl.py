"""Finding and calling real kubectls."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


def find_kubectls() -> dict[str, str]:
    """Return the kubectls of this machine: the one on the path, the distribution's, and a current one if built."""
    found: dict[str, str] = {}
    if installed := shutil.which("kubectl"):
        found["installed"] = installed
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "weir"
    distribution = cache / "kubernetes-client" / "usr" / "bin" / "kubectl"
    if distribution.exists():
        found["distribution"] = str(distribution)
    built = sorted((cache / "kubernetes").glob("v*"))
    folders = [Path(os.environ["KUBERNETES_BIN"])] if os.environ.get("KUBERNETES_BIN") else built
    current = next((str(f / "kubectl") for f in reversed(folders) if (f / "kubectl").exists()), None)
    if current is not None:
        found["current"] = current
    return found


@dataclass(frozen=True)
class Kubectl:
    """One kubectl, pointed at one cluster."""

    program: str
    kubeconfig: Path
    home: Path

    def __call__(
        self, *arguments: str, stdin: str | None = None, fails: bool = False, editor: str = ""
    ) -> str:
        """Run kubectl and return what it printed; *fails* says that it should not succeed."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),  # its discovery cache stays with the test
            "KUBECONFIG": str(self.kubeconfig),
            **({"KUBE_EDITOR": editor} if editor else {}),
        }
        done = subprocess.run(
            [self.program, *arguments],
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
        )
        said = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, (
            f"kubectl {' '.join(arguments)}: exit {done.returncode}\n{said}"
        )
        return said

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start kubectl and leave it running."""
        return subprocess.Popen(
            [self.program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)},
        )
