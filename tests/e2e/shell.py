"""A shell in a folder of its own with weir and kubectl in its path: where tests type what pages and help texts show."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from tests.documented import ROOT, Shown
from tests.e2e.kubectl import newest_kubectl
from tests.e2e.warm import WARM

#: What differs from run to run: ports, names that are drawn, ages, addresses of pods, and which pod is on which node.
VARIES = (
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"(web|train)-[a-z0-9]{8,10}-[a-z0-9]{5}"), r"\1-POD"),
    (re.compile(r"\b\d+m?s\b"), "AGE"),
    (re.compile(r"10\.128\.\d+\.\d+ +node-\d"), "PLACE"),
    (re.compile(r" +"), " "),
)
PATIENCE_SECONDS = 120
#: What a command that serves prints when it does; the others serve as soon as they print anything.
SERVES = {
    "up": "export KUBECONFIG",
    "ui": "http",
    "apiserver": "KUBECONFIG",
    "scheduler": "",
    "controller-manager": "",
    "kubelet": "",
}


def lines(text: str) -> list[str]:
    for pattern, instead in VARIES:
        text = pattern.sub(instead, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def missing(expected: str, printed: str) -> list[str]:
    """Return the lines of *expected* that were not printed; a line of "…" stands for any others.

    >>> missing("a\\n…", "a\\nb"), missing("a", "a\\nb"), missing("web-6t9bwmb2xw-5kwv2 3s", "web-abcdefghij-zzzzz 1s")
    ([], ['nothing but what is shown'], [])
    """
    wanted, left = lines(expected), lines(printed)
    lost = []
    for line in wanted:
        if line == "…":
            continue
        pattern = line.replace("[", "[[]").replace("…", "*")
        match = next((each for each in left if fnmatch.fnmatchcase(each, pattern)), None)
        if match is None:
            lost.append(line)
        else:
            left.remove(match)
    if wanted and left and "…" not in wanted and not lost:
        lost.append("nothing but what is shown")
    return lost


class Shell:
    """A shell in *folder*; what it started in the background ends with it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin" / "kubectl").symlink_to(newest_kubectl().path)
        self.program("weir", f'exec {shlex.join(WARM)} "$@"')
        self._held = ExitStack()
        self.environment = {
            **{key: value for key, value in os.environ.items() if key not in ("KUBECONFIG", "COLUMNS")},
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder),
            "BROWSER": "true",
            "PYTHONUNBUFFERED": "1",
            **environment,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def program(self, name: str, line: str) -> None:
        """Put a program into the path that runs *line*."""
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def look_like_checkout(self) -> None:
        """Make the folder look like the root of the repository."""
        for path in ROOT.iterdir():
            if not path.name.startswith(".") and not (self.folder / path.name).exists():
                (self.folder / path.name).symlink_to(path)

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run *line* and return how it ended; standard output and standard error are one text."""
        return subprocess.run(
            ["bash", "-c", line],
            **self._surroundings,
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_SECONDS,
        )

    def must(self, line: str) -> None:
        result = self.run(line)
        assert result.returncode == 0, f"{line}\n{result.stdout}"

    def do(self, one: Shown) -> str:
        """Run a command as a page writes it; return what is wrong with how it ended or what it printed, or ""."""
        if export := re.fullmatch(r"export (\w+)=(.*)", one.command):
            self.environment[export[1]] = export[2]
            return ""
        if one.command.endswith("&"):
            process, printed = self._held.enter_context(
                self.serving(one.command.rstrip("& "), one.output.strip() or "…")
            )
            return "" if process.poll() is None else f"{one.command}\nexit {process.poll()}\n{printed}"
        done = self.run(one.command)
        lost = missing(one.output, done.stdout)
        answers = (
            "weir" in one.command or "Error" in one.output
        )  # exit code 1 is an answer, or what the page shows
        failed = done.returncode > int(answers)
        return f"{one.command}: exit {done.returncode}\n{lost}\n{done.stdout}" if lost or failed else ""

    def interrupt(self, line: str, sign: str) -> tuple[int, str]:
        """Run *line* until it prints *sign*, interrupt it, and return its exit code and what it printed."""
        with self.serving(line, f"…\n…{sign}…") as (process, _):
            pass
        return process.returncode, self._log.read_text()

    @contextmanager
    def serving(self, line: str, expected: str) -> Any:
        """Give the process of *line* and what it printed once it has printed *expected*; it is interrupted then."""
        self._log = log = self.folder / f"{len(list(self.folder.glob('*.log')))}.log"
        with log.open("w") as out:
            process = subprocess.Popen(["bash", "-c", f"exec {line}"], **self._surroundings, stdout=out)
        try:
            until = time.monotonic() + PATIENCE_SECONDS
            while not log.read_text().strip() or missing(expected, log.read_text()):
                if process.poll() is not None or time.monotonic() > until:
                    break
                time.sleep(0.05)
            yield process, log.read_text()
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(PATIENCE_SECONDS)
            finally:
                process.kill()

    @property
    def _surroundings(self) -> dict[str, Any]:
        return {
            "cwd": self.folder,
            "env": self.environment,
            "stdin": subprocess.DEVNULL,
            "stderr": subprocess.STDOUT,
        }
