"""Output never fails for the encoding of the terminal."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {city: "Zürich ✓"}}
spec:
  containers: [{name: web, image: "web:1"}]
  tolerations: [{key: "schlüssel", operator: Gt, value: "1"}]
"""
COMMANDS = (
    [
        "explain",
        "-f",
        str(EXAMPLES / "checkout/pod.yaml"),
        "--cluster",
        str(EXAMPLES / "checkout/cluster.yaml"),
    ],
    ["lint", "pod.yaml"],
    ["lint", "pod.yaml", "-o", "json"],
    ["what-if", "cordon", "spot-1", "--cluster", str(EXAMPLES / "shop-cluster.yaml")],
    ["demo", "failure-probability"],
    ["advise", "--all", "--cluster", str(EXAMPLES / "shop-cluster.yaml")],
    ["cel", "functions"],
    ["what-if", "--help"],
)


@pytest.mark.parametrize(
    ("command", "encoding"),
    list(zip(COMMANDS, itertools.cycle(["iso-8859-1", "cp1252", "koi8-r"]))),
    ids=lambda words: words if isinstance(words, str) else " ".join(words[:2])[:30],
)
def test_a_command_prints_in_any_encoding(command, encoding, tmp_path):
    (tmp_path / "pod.yaml").write_text(POD)
    done = run(command, encoding, tmp_path)
    assert done.returncode in (0, 1), done.stderr
    done.stdout.decode("utf-8" if "-o" in command else encoding)
    done.stderr.decode(encoding)


def test_a_document_for_programs_is_utf_8_in_any_encoding(tmp_path):
    (tmp_path / "pod.yaml").write_text(POD)
    latin, utf8 = (
        run(["lint", "pod.yaml", "-o", "json"], each, tmp_path).stdout for each in ("iso-8859-1", "utf-8")
    )
    assert latin == utf8 and json.loads(latin)


def run(command: list[str], encoding: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run(
        [sys.executable, "-m", "weir", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        timeout=120,
    )
