"""Claims about the metrics and the settings of a process."""

import asyncio
import ctypes
import subprocess
import sys

import pytest

from weir.objects.core import Taint
from weir.observe import interpreter
from weir.observe.metrics import Registry
from weir.observe.process_metrics import ExpressionMetrics
from weir.taints.expression import Expressions

# ── claims about weir.observe.process_metrics: cache hits and results of expressions are published by cache ──


pytestmark = pytest.mark.proves("5500-105", "5500-125")


def test_hits_misses_results_and_times_are_shown():
    registry, expressions = Registry(), Expressions()
    ExpressionMetrics(registry).watch("scheduler", expressions)
    for text in ("taint.key == 'a'", "taint.key == 'b'", "int(taint.value) > 1", "taint.key == 'a'"):
        expressions.evaluate(text, Taint("a", "x", "NoSchedule"))
    page = registry.render().decode()
    for line in (
        'weir_cel_cache_requests_total{cache="scheduler",result="hit"} 1',
        'weir_cel_cache_requests_total{cache="scheduler",result="miss"} 3',
        'weir_cel_cache_entries{cache="scheduler"} 3',
        'weir_cel_evaluations_total{cache="scheduler",result="true"} 2',
        'weir_cel_evaluations_total{cache="scheduler",result="false"} 1',
        'weir_cel_evaluations_total{cache="scheduler",result="error"} 1',
        'weir_cel_evaluation_duration_seconds_count{cache="scheduler"} 4',
    ):
        assert line in page.splitlines()


def test_a_cache_that_comes_anew_replaces_the_former():
    registry = Registry()
    metrics = ExpressionMetrics(registry)
    for _ in range(2):  # a controller is elected again
        expressions = Expressions()
        metrics.watch("daemonset-controller", expressions)
        expressions.evaluate("true", Taint("a", "", "NoSchedule"))
    assert (
        'weir_cel_cache_requests_total{cache="daemonset-controller",result="miss"} 1\n'
        in registry.render().decode()
    )


# ── the C library is told to give memory back, and a process that cannot be told goes on ──


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


YOUNGEST = """
import gc
from weir.observe.interpreter import collect_rarely

looked_at = []
gc.callbacks.append(lambda phase, info: phase == "start" and looked_at.append(len(gc.get_objects(generation=0))))

def most_after(then):
    with collect_rarely(then=then):
        made = [[] for _ in range(50_000)]
    made.append([])
    return max(looked_at, default=0)

gc.set_threshold(20_000)
print(most_after(False) < 5_000, most_after(True) > 50_000)
"""


def test_what_a_process_made_before_it_ends_is_not_looked_through():
    """A command's answer is followed by a few allocations only: a look at a whole cluster then is for nothing."""
    done = subprocess.run(
        [sys.executable, "-c", YOUNGEST], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "True True", done.stderr
