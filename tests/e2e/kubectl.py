"""The kubectls of this machine, what each of them can do, and how one is called.

Found are all of PATH, the distribution's (unpacked by tests/tools) and those that `make kubernetes` built; one of each
version is kept, the newest first. `KUBECTL=/path/to/kubectl` uses that one only, `KUBECTL=` none. Tests that try one
thing take the newest; what it is too old for is left out by its version, with one line.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

#: What kubectl learned after the oldest version the tests meet (1.20), and when.
LEARNED = {
    "wait --for=jsonpath": (1, 23),
    "create token": (1, 24),
    "events": (1, 26),
}
NONE = "no kubectl on this machine: install kubernetes-client, or set KUBECTL"


@dataclass(frozen=True)
class Program:
    """A kubectl of this machine."""

    path: str
    version: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"

    def lacks(self, command: str) -> str:
        """Return, in one line, what *command* needs that this version has not learned yet; "" when it has it all.

        >>> Program("kubectl", (1, 20)).lacks("kubectl wait --for=jsonpath={.status.phase}=Running pod/web")
        'kubectl 1.20 has no `wait --for=jsonpath`, which came with 1.23'
        >>> Program("kubectl", (1, 20)).lacks("kubectl get events")
        ''
        """
        for what, since in LEARNED.items():
            used = re.match(rf"kubectl {re.escape(what)}(?![\w-])", command)
            if used and self.version < since:
                return f"kubectl {self} has no `{what}`, which came with {since[0]}.{since[1]}"
        return ""


@cache
def find_kubectls() -> tuple[Program, ...]:
    """Return one kubectl of each version, the newest first."""
    found: dict[tuple[int, int], Program] = {}
    for path in dict.fromkeys(os.path.realpath(path) for path in _candidates() if os.access(path, os.X_OK)):
        version = _version(path)
        if version is not None:
            found.setdefault(version, Program(path, version))
    return tuple(found[version] for version in sorted(found, reverse=True))


def newest_kubectl() -> Program:
    """Return the newest kubectl; without any the test is left out, in CI it fails."""
    for program in find_kubectls():
        return program
    if os.environ.get("CI"):
        pytest.fail("no kubectl on this machine, and CI must have one")
    pytest.skip(NONE)


def _candidates() -> Iterator[Path]:
    chosen = os.environ.get("KUBECTL")
    if chosen is not None:
        yield from [Path(chosen)] if chosen else []
        return
    if os.environ.get("KUBERNETES_BIN"):
        yield Path(os.environ["KUBERNETES_BIN"]) / "kubectl"
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield Path(folder or ".") / "kubectl"
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weir"
    yield cached / "kubernetes-client" / "usr" / "bin" / "kubectl"
    yield from sorted((cached / "kubernetes").glob("v*/kubectl"))


def _version(path: str) -> tuple[int, int] | None:
    """Return what *path* says its version is; None when it is no kubectl that runs here."""
    try:
        said = subprocess.run(
            [path, "version", "--client", "-o", "json"], capture_output=True, timeout=30, check=True
        ).stdout
        version = re.match(r"v(\d+)\.(\d+)\.", json.loads(said)["clientVersion"]["gitVersion"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None
    return (int(version[1]), int(version[2])) if version else None


@dataclass(frozen=True)
class Kubectl:
    """One kubectl, pointed at one cluster."""

    program: Program
    kubeconfig: Path
    home: Path

    def can(self, command: str) -> bool:
        """Return whether this kubectl is new enough for *command*."""
        return not self.program.lacks(f"kubectl {command}")

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
            [self.program.path, *arguments],
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
            [self.program.path, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)},
        )
