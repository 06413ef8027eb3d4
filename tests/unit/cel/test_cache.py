"""The program cache: least recently used goes, one compilation per key, refusals remembered."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from weir.cel import cache as module
from weir.cel import types
from weir.cel.cache import ProgramCache
from weir.cel.env import Env
from weir.cel.library import KUBERNETES
from weir.cel.source import CompileError

ENV = Env(KUBERNETES, {"x": types.INT})
OTHER = Env(KUBERNETES, {"x": types.STRING})


def test_the_same_text_is_compiled_once() -> None:
    programs = ProgramCache(4)
    assert programs.compile("x > 1", ENV) is programs.compile("x > 1", ENV)
    assert (programs.hits, programs.misses) == (1, 1)


def test_environments_do_not_share_programs() -> None:
    programs = ProgramCache(4)
    assert programs.compile("x == x", ENV) is not programs.compile("x == x", OTHER)


def test_the_least_recently_used_program_goes_first() -> None:
    programs = ProgramCache(2)
    first, second = programs.compile("x > 1", ENV), programs.compile("x > 2", ENV)
    programs.compile("x > 1", ENV)
    programs.compile("x > 3", ENV)
    assert programs.compile("x > 1", ENV) is first and programs.compile("x > 2", ENV) is not second


def test_it_never_holds_more_than_its_capacity() -> None:
    programs = ProgramCache(130)
    for number in range(300):
        programs.compile(f"x > {number}", ENV)
    assert len(programs) <= 130


def test_a_refusal_is_remembered_with_its_words() -> None:
    programs = ProgramCache(4)
    messages = []
    for _ in range(2):
        with pytest.raises(CompileError) as refusal:
            programs.compile("y > 1", ENV)
        messages.append(str(refusal.value))
    assert messages[0] == messages[1] and programs.misses == 1


def test_threads_that_miss_together_wait_for_one_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = threading.Event(), threading.Event()
    calls = []
    original = module.compile

    def slow(expression: str, env: Env) -> object:
        calls.append(expression)
        entered.set()
        release.wait(5)
        return original(expression, env)

    monkeypatch.setattr(module, "compile", slow)
    programs = ProgramCache(4)
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(programs.compile, "x > 1", ENV)
        entered.wait(5)
        others = [threads.submit(programs.compile, "x > 1", ENV) for _ in range(3)]
        release.set()
        assert {id(job.result(5)) for job in (first, *others)} == {id(first.result())} and calls == ["x > 1"]


def test_a_cache_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        ProgramCache(0)
