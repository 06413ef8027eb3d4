"""The C library is told to give memory back, and a process that cannot be told goes on."""

from __future__ import annotations

import asyncio
import ctypes
import subprocess
import sys

import pytest

from weir.observe import interpreter

FREED = """
from pathlib import Path
from weir.observe.interpreter import return_memory

def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

return_memory()
for size in (200_000, 1_000_000, 3_000_000):  # a library that learns would keep these from now on
    del [bytes(size) for _ in range(2)][:]
before = memory()
blocks = [bytes(3_000_000) for _ in range(20)]
for number in range(19):
    blocks[number] = b""
print(memory() - before < 20_000_000)
"""


def test_freed_blocks_go_back_to_the_machine():
    done = subprocess.run(
        [sys.executable, "-c", FREED], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "True", done.stderr


def test_another_library_is_left_alone(monkeypatch):
    def refuse(name: object) -> object:
        raise OSError("no such library")

    monkeypatch.setattr(interpreter.ctypes, "CDLL", refuse)
    assert interpreter.return_memory() is None


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library")
async def test_holes_in_the_heap_are_given_back_again_and_again(monkeypatch):
    given, twice = [], asyncio.Event()

    async def aside(work, *arguments):
        given.append((work.__name__, arguments))
        if len(given) == 2:
            twice.set()

    monkeypatch.setattr(interpreter, "TRIM_SECONDS", 0.0)
    monkeypatch.setattr(asyncio, "to_thread", aside)
    task = asyncio.ensure_future(interpreter.trim_for_ever())
    await asyncio.wait_for(twice.wait(), 30)
    task.cancel()
    assert given[:2] == [("malloc_trim", (0,))] * 2
