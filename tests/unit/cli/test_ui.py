"""`weir ui` on the command line: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from weir.cli.main import run, weir

EXAMPLES = Path(__file__).parents[3] / "examples"
SHOP = str(EXAMPLES / "shop-cluster.yaml")


@pytest.mark.parametrize(
    "words, said",
    [
        (["--up", "--cluster", SHOP], "--up is a cluster of its own"),
        (["--cluster", SHOP, "--what-if", "drain spot-1"], "--what-if goes with -o"),
        (["--cluster", SHOP, "-o", "r.html", "--what-if", "explode"], "begin with one of taint"),
        (["--cluster", "none.yaml"], "none.yaml"),
        (["--cluster", SHOP, "--context", "x"], "not both"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["ui", "--no-browser", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_it_prints_an_address_that_answers_and_ends_with_ctrl_c():
    command = [sys.executable, "-m", "weir", "ui", "--no-browser", "--cluster", SHOP]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        address = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", "".join(lines))
        assert address and SHOP in lines[0]
        with urllib.request.urlopen(address[0], timeout=60) as answer:
            assert answer.headers["Set-Cookie"].startswith("weir-ui-")
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "weir: interrupted\n")


def test_a_report_is_written(tmp_path):
    path = tmp_path / "report.html"
    result = CliRunner().invoke(weir, ["ui", "-c", SHOP, "-o", str(path), "--what-if", "cordon spot-1"])
    assert result.exit_code == 0, result.output
    text = path.read_text()
    assert "Content-Security-Policy" in text and "web-1" in text and 'src="' not in text
