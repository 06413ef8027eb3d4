"""Ctrl-C ends a command with one line and 130, also while Python is still importing."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys

import pytest

INTERRUPTED_IMPORT = """
import os, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Interrupts())
sys.argv = ["weir", {command!r}, "--help"]
from weir.cli.start import main
main()
"""


@pytest.mark.parametrize("command", ["lint", "status"])
@pytest.mark.parametrize(
    "module", ["signal", "typing", "weir.cli.main", "click", "click.core", "weir.cli.{}"]
)
def test_ctrl_c_during_an_import_is_one_line(module, command):
    number, module = int(signal.SIGINT), module.format(command)
    code = INTERRUPTED_IMPORT.format(number=number, module=module, command=command)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "weir: interrupted\n")


@pytest.mark.parametrize("lines", [1, 3, 6, 12, 25])
def test_ctrl_c_in_a_simulated_cluster_is_one_line(lines):
    command = [sys.executable, "-u", "-m", "weir", "demo", "kep-5055"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(lines):
        assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=60)
    assert (process.returncode, printed.strip()) == (130, "weir: interrupted")


def test_a_command_that_was_started_to_ignore_ctrl_c_goes_on_ignoring_it():
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    code += INTERRUPTED_IMPORT.format(number=int(signal.SIGINT), module="click", command="lint")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Usage: weir lint" in done.stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--version >&-", 0),
        ("explain -f - <&-", 2),
        ("lint - <&- >&- 2>&-", 1),
        ("explain p --cluster no.yaml 2>&-", 2),
        ("explain p --cluster no.yaml 2>/dev/full", 2),
        ("--version >/dev/full", 2),
    ],
)
def test_streams_that_are_closed_or_full_leave_the_exit_code(words, code):
    line = f"{shlex.quote(sys.executable)} -m weir {words}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (done.returncode, "internal error" in done.stderr, "Exception" in done.stderr) == (
        code,
        False,
        False,
    )


def test_python_m_weir_is_the_command():
    done = subprocess.run([sys.executable, "-m", "weir", "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("weir ")
