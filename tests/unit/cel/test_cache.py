"""The program cache: least recently used goes, one compilation per key, refusals remembered."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from weir.cel import cache as module
from weir.cel import types
from weir.cel.cache import CacheInfo, ProgramCache
from weir.cel.env import Env
from weir.cel.errors import CompileError
from weir.cel.library import KUBERNETES

ENV = Env(KUBERNETES, {"x": types.INT})
OTHER = Env(KUBERNETES, {"x": types.STRING})


@pytest.mark.proves("5500-7")
def test_the_same_text_is_compiled_once() -> None:
    programs = ProgramCache(4)
    assert programs.compile("x > 1", ENV) is programs.compile("x > 1", ENV)
    assert (programs.hits, programs.misses) == (1, 1)


def test_environments_do_not_share_programs() -> None:
    programs = ProgramCache(4)
    assert programs.compile("x == x", ENV) is not programs.compile("x == x", OTHER)


@pytest.mark.proves("5500-33")
def test_the_least_recently_used_program_goes_first() -> None:
    programs = ProgramCache(2)
    first, second = programs.compile("x > 1", ENV), programs.compile("x > 2", ENV)
    programs.compile("x > 1", ENV)
    programs.compile("x > 3", ENV)
    assert programs.compile("x > 1", ENV) is first and programs.compile("x > 2", ENV) is not second


@pytest.mark.proves("5500-112")
def test_it_never_holds_more_than_its_capacity() -> None:
    programs = ProgramCache(130)
    for number in range(300):
        programs.compile(f"x > {number}", ENV)
    assert len(programs) <= 130


@pytest.mark.proves("5500-7")
def test_a_refusal_is_remembered_with_its_words() -> None:
    programs = ProgramCache(4)
    messages = []
    for _ in range(2):
        with pytest.raises(CompileError) as refusal:
            programs.compile("y > 1", ENV)
        messages.append(str(refusal.value))
    assert messages[0] == messages[1] and programs.misses == 1


@pytest.mark.proves("5500-34")
def test_threads_that_miss_together_wait_for_one_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = threading.Event(), threading.Event()
    calls = []
    original = module.compile

    def slow(expression: str, env: Env) -> object:
        calls.append(expression)
        entered.set()
        release.wait(60)
        return original(expression, env)

    monkeypatch.setattr(module, "compile", slow)
    programs = ProgramCache(4)
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(programs.compile, "x > 1", ENV)
        entered.wait(60)
        others = [threads.submit(programs.compile, "x > 1", ENV) for _ in range(3)]
        release.set()
        assert {id(job.result(60)) for job in (first, *others)} == {id(first.result())} and calls == ["x > 1"]
    assert (programs.hits, programs.misses) == (3, 1)


def test_a_cache_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        ProgramCache(0)


def test_what_a_cache_did_is_counted() -> None:
    programs = ProgramCache(1)
    assert (programs.info(), len(programs)) == (CacheInfo(0, 0, 0, 1), 0)
    for _ in range(3):
        programs.compile("x > 1", ENV)
    assert programs.info() == CacheInfo(2, 1, 1, 1)
    programs.compile("x > 2", ENV)
    assert programs.info() == CacheInfo(2, 2, 1, 1)


@pytest.mark.parametrize("capacity, left", [(2, 2), (127, 127), (128, 127), (192, 190)])
def test_a_full_cache_forgets_a_sixty_fourth_of_its_entries_and_at_least_one(
    capacity: int, left: int
) -> None:
    programs = ProgramCache(capacity)
    kept = [programs.compile(f"x > {number}", ENV) for number in range(capacity)]
    assert len(programs) == capacity
    programs.compile("x < 0", ENV)
    assert len(programs) == left
    assert programs.compile(f"x > {capacity - 1}", ENV) is kept[-1]


def test_those_that_were_asked_for_again_stay() -> None:
    programs = ProgramCache(3)
    first, second, third = (programs.compile(f"x > {number}", ENV) for number in range(3))
    for number in (0, 1, 1, 1):
        programs.compile(f"x > {number}", ENV)
    programs.compile("x > 3", ENV)
    assert programs.compile("x > 0", ENV) is first and programs.compile("x > 1", ENV) is second
    assert programs.compile("x > 2", ENV) is not third


def test_a_compilation_that_breaks_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = ProgramCache(4)

    def broken(expression: str, env: Env) -> object:
        raise RuntimeError("broken")

    with monkeypatch.context() as patched:
        patched.setattr(module, "compile", broken)
        with pytest.raises(RuntimeError):
            programs.compile("x > 1", ENV)
    assert len(programs) == 0
    assert programs.compile("x > 1", ENV).evaluate({"x": 2}) is True
    assert (programs.hits, programs.misses) == (0, 2)


@pytest.mark.parametrize("shape", ["x in [{}]", "[{}] == [x]", "nothing == [{}]"])
def test_its_bytes_are_bounded_and_counted(shape: str) -> None:
    most = 400_000
    programs = ProgramCache(1_000, most)
    for number in range(60):
        with contextlib.suppress(CompileError):
            programs.compile(shape.format(", ".join(str(number * 1_000 + each) for each in range(800))), ENV)
        assert programs.bytes <= most
    assert 0 < len(programs) < 20
    assert programs.bytes == sum(entry.bytes for entry in programs._entries.values())


def test_a_long_refusal_is_kept_in_short() -> None:
    programs = ProgramCache(10)
    with pytest.raises(CompileError) as refusal:
        programs.compile(f"[{', '.join(['nothing'] * 2_000)}]", ENV)
    assert len(str(refusal.value)) < 20_000 and programs.bytes < 200_000
