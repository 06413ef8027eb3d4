"""The Python that is measured: the quickest one of this machine that can run what is installed here.

A Python as distributions and container images ship it is compiled with a profile of its own work and across its files;
one that pyenv compiles is not unless it is told to, and takes 1.1 to 1.4 times the processor time for the same program.
Kubernetes' programs are measured as they are released, so weir is measured on a Python as people have it.
Interpreters of one version share their compiled packages, so those of this environment are used as they are.
BENCH_PYTHON=path names another one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

NAME = f"python{sys.version_info.major}.{sys.version_info.minor}"
ROUNDS = 5
GAIN = 1.1  #: what another one has to be quicker by: less may be what else the machine does
#: Calls, attributes, dicts and strings, as most of weir's own work; prints seconds, the least of nine.
WORK = """
import time
class Item:
    __slots__ = ("value",)
    def __init__(self, value): self.value = value
    def plus(self, other): return self.value + other
def work():
    held = {}
    for number in range(20000):
        held[str(number % 1000)] = Item(number).plus(number)
        [each for each in (1, 2, 3) if each > 1]
def seconds():
    began = time.process_time()
    work()
    return time.process_time() - began
print(min(seconds() for _ in range(9)))
"""
#: What weir needs of an interpreter, that its compiled packages are for it, and where it is: a path may be a script
#: that starts another one.
NEEDED = """
import ctypes, msgspec, os, sqlite3, ssl, sys, sysconfig, uvloop, weir.cli.main
print(sysconfig.get_config_var("SOABI"), os.path.realpath(sys.executable))
"""
CHOSEN = "BENCH_PYTHON_CHOSEN"


def go_on_with_the_quickest() -> None:
    """Replace this process by the same command on the Python to be measured, unless it is this one."""
    if os.environ.pop(CHOSEN, ""):
        return
    chosen = os.environ.get("BENCH_PYTHON") or quickest()
    if Path(chosen).absolute() == Path(sys.executable).absolute():
        return
    os.execve(chosen, [chosen, "-m", "bench", *sys.argv[1:]], _environment(chosen))


def quickest() -> str:
    """Return the path of the Python to be measured."""
    places = [*os.get_exec_path(), "/usr/local/bin", "/usr/bin"]
    found = {_usable(path) for place in places if (path := shutil.which(NAME, path=place))}
    others = sorted(found - {"", os.path.realpath(sys.executable)})
    if not others:
        return sys.executable
    seconds = _seconds([sys.executable, *others])
    best = min(others, key=seconds.__getitem__)
    return best if seconds[best] * GAIN < seconds[sys.executable] else sys.executable


def _usable(python: str) -> str:
    """Return where the interpreter that *python* starts is; empty when it cannot run what is installed here."""
    asked = subprocess.run([python, "-c", NEEDED], env=_environment(python), capture_output=True, text=True)
    binary_interface, _, place = asked.stdout.strip().partition(" ")
    return place if binary_interface == sysconfig.get_config_var("SOABI") else ""


def _seconds(pythons: list[str]) -> dict[str, float]:
    """Return the least time each of *pythons* takes; by turns, since the machine may be slower for a while."""
    least = dict.fromkeys(pythons, float("inf"))
    for _ in range(ROUNDS):
        for python in pythons:
            took = subprocess.run([python, "-I", "-c", WORK], check=True, capture_output=True).stdout
            least[python] = min(least[python], float(took))
    return least


def _environment(python: str) -> dict[str, str]:
    """Return this environment for *python*, with the packages that are installed here."""
    root = Path(__file__).parents[1]
    places = [str(root), str(root / "src"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return {**os.environ, CHOSEN: python, "PYTHONPATH": os.pathsep.join(dict.fromkeys(places))}
