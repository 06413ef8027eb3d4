"""docs/howto/use-on-windows.md: its table, in a Python without the modules and calls that Windows lacks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.documented import ROOT

WITHOUT = """
import os, signal, socket, sys
sys.modules.update(dict.fromkeys(("fcntl", "resource", "pwd", "grp", "termios", "uvloop")))
for where, names in {
    os: ("fork", "geteuid", "getuid", "setsid", "killpg"),
    signal: ("SIGHUP", "SIGUSR1", "SIGCHLD", "SIGKILL", "SIGQUIT", "SIGPIPE"),
    socket: ("AF_UNIX",),
}.items():
    for name in names:
        delattr(where, name)
from weir.cli.main import run
print([run(words.split()) for words in sys.argv[1:]])
"""
WORKS = (
    "explain -f examples/checkout/pod.yaml --cluster examples/checkout/cluster.yaml",
    "lint examples/checkout",
    "advise --all --cluster examples/rated-cluster.yaml",
    "device list -c examples/gpu-fleet.yaml",
    "cel functions",
    "completion bash",
    "install --image registry.example/weir:1",
    "conformance --list",
    "what-if drain spot-1 --cluster examples/shop-cluster.yaml",
    "plan taint -l pool=spot sla=650:NoExecute --cluster examples/spot-pool.yaml",
)
NOT_THERE = (
    "what-if gates TaintTolerationCEL=false --cluster examples/spot-pool.yaml",
    "skew -f examples/checkout/pod.yaml",
    "demo inference",
    "ui --cluster examples/shop-cluster.yaml",
    "up",
    "scheduler",
)


@pytest.mark.parametrize("lines, codes", [(WORKS, {0, 1}), (NOT_THERE, {3})], ids=["works", "not there"])
def test_a_command_works_without_posix_or_says_that_it_does_not(lines, codes):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *lines], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    ended = eval(done.stdout.splitlines()[-1])
    assert len(ended) == len(lines) and set(ended) <= codes, (ended, done.stderr)
    assert done.stderr.count("needs Linux or macOS") == sum(code == 3 for code in ended)
