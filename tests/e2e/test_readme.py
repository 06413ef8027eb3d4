"""README's nine things, from top to bottom in one terminal: every command as written, with the output that is shown."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.documented import ROOT, Shown, shown
from tests.e2e.kubectl import newest_kubectl
from tests.e2e.warm import WARM

README = ROOT / "README.md"
#: What differs from run to run: ports, names that are drawn, ages, addresses of pods, and which pod is on which node.
VARIES = (
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"(web|train)-[a-z0-9]{8,10}-[a-z0-9]{5}"), r"\1-POD"),
    (re.compile(r"\b\d+m?s\b"), "AGE"),
    (re.compile(r"10\.128\.\d+\.\d+ +node-\d"), "PLACE"),
    (re.compile(r" +"), " "),
)
PATIENCE_SECONDS = 120


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


class Terminal:
    """A shell in a checkout, with weir and kubectl in its path."""

    def __init__(self, folder: Path, kubectl: Path) -> None:
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(kubectl)
        (programs / "weir").write_text(f'#!/bin/sh\nexec {shlex.join(WARM)} "$@"\n')
        (programs / "weir").chmod(0o755)
        (folder / "examples").symlink_to(ROOT / "examples")
        self._folder, self._held = folder, ExitStack()
        self._environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder)}
        self._environment.pop("KUBECONFIG", None)
        self._environment.pop("COLUMNS", None)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def do(self, one: Shown) -> str:
        """Run a command as README writes it; return what is wrong with what it printed, or ""."""
        if export := re.fullmatch(r"export (\w+)=(.*)", one.command):
            self._environment[export[1]] = export[2]
            return ""
        if one.command.endswith("&"):
            return self._held.enter_context(self._background(one))
        done = subprocess.run(
            ["bash", "-c", one.command],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        lost = missing(one.output, done.stdout)
        return f"{one.command}\n{lost}\n{done.stdout}" if lost or done.returncode > 1 else ""

    @contextmanager
    def _background(self, one: Shown) -> Iterator[str]:
        log = self._folder / f"{len(list(self._folder.glob('*.log')))}.log"
        with log.open("w") as out:
            command = f"exec {one.command.rstrip('& ')}"
            running = subprocess.Popen(
                ["bash", "-c", command], cwd=self._folder, env=self._environment, stdout=out, stderr=out
            )
        try:
            until = time.monotonic() + PATIENCE_SECONDS
            expected = one.output if one.output.strip() else "…"
            while time.monotonic() < until and running.poll() is None:
                if log.read_text().strip() and not missing(expected, log.read_text()):
                    break
                time.sleep(0.2)
            alive = running.poll() is None and not missing(expected, log.read_text())
            yield "" if alive else f"{one.command}\nexit {running.poll()}\n{log.read_text()}"
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(PATIENCE_SECONDS)


def test_readme_can_be_done_from_top_to_bottom(tmp_path: Path) -> None:
    kubectl = newest_kubectl()
    things = list(shown(README, "Nine things to try"))
    assert len(things) > 20
    if lacking := [reason for one in things if (reason := kubectl.lacks(one.command))]:
        pytest.skip(f"{lacking[0]}: README is not done")
    with Terminal(tmp_path, kubectl.path) as terminal:
        for one in things:
            assert terminal.do(one) == ""
