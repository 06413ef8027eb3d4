"""Large documents are worked on beside the loop, and users take turns."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from contextlib import suppress

import pytest

from weir.apiserver.off_loop import OffLoop


@pytest.fixture
async def off_loop():
    found = OffLoop()
    found.start()
    yield found
    found.stop()


async def test_the_loop_goes_on_while_large_work_is_done(off_loop):
    begun, may_end = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        assert may_end.wait(60)
        return threading.current_thread().name

    doing = asyncio.ensure_future(off_loop.run(off_loop.turn("a"), work))
    while not begun.is_set():
        await asyncio.sleep(0)
    assert not doing.done()
    may_end.set()
    assert await asyncio.wait_for(doing, 30) == "weir-large-documents"


async def test_who_sends_many_does_not_go_before_who_sends_one(off_loop):
    order: list[str] = []
    held = threading.Event()
    first = asyncio.ensure_future(off_loop.run(off_loop.turn("flood"), held.wait, 30))
    flood = [off_loop.run(off_loop.turn("flood"), order.append, f"flood-{number}") for number in range(20)]
    waiting = [asyncio.ensure_future(each) for each in flood]
    await asyncio.sleep(0)
    one = asyncio.ensure_future(off_loop.run(off_loop.turn("one"), order.append, "one"))
    await asyncio.sleep(0)
    held.set()
    await asyncio.wait_for(asyncio.gather(first, one, *waiting), 30)
    assert order.index("one") <= 1


async def test_a_request_that_has_begun_goes_before_those_that_have_not(off_loop):
    order: list[str] = []
    held = threading.Event()
    early, late = off_loop.turn("a"), off_loop.turn("a")
    first = asyncio.ensure_future(off_loop.run(early, held.wait, 30))
    other = asyncio.ensure_future(off_loop.run(late, order.append, "late"))
    await asyncio.sleep(0)
    again = asyncio.ensure_future(off_loop.run(early, order.append, "early"))
    await asyncio.sleep(0)
    held.set()
    await asyncio.wait_for(asyncio.gather(first, other, again), 30)
    assert order == ["early", "late"]


async def test_a_failure_reaches_who_asked(off_loop):
    with pytest.raises(ZeroDivisionError):
        await off_loop.run(off_loop.turn("a"), lambda: 1 // 0)
    assert await off_loop.run(off_loop.turn("a"), lambda: 1) == 1


async def test_without_a_thread_the_work_is_done_at_once():
    off_loop = OffLoop()
    name = await off_loop.run(off_loop.turn("a"), lambda: threading.current_thread().name)
    assert name == threading.current_thread().name
    assert await off_loop.run_aside(len, b"abc") == 3


async def test_the_turns_of_users_that_are_gone_are_forgotten(monkeypatch, off_loop):
    monkeypatch.setattr("weir.apiserver.off_loop.MOST_USERS", 10)
    for number in range(100):
        await off_loop.run(off_loop.turn(f"u{number}"), int)
    assert len(off_loop._last) <= 11


async def test_a_refused_document_is_let_go_at_once(off_loop):
    class Document:
        pass

    def refuse(document: Document) -> None:
        raise ValueError(document)

    gone = []
    gc.disable()
    try:
        document = Document()
        gone.append(weakref.ref(document))
        with suppress(ValueError):
            await off_loop.run(off_loop.turn("a"), refuse, document)
        del document
        await off_loop.run(off_loop.turn("a"), int)  # the thread has let go of the piece before
        assert gone[0]() is None
    finally:
        gc.enable()


async def test_the_document_of_a_client_that_is_gone_does_not_wait_for_its_turn(off_loop):
    class Document:
        """Something whose end can be seen."""

    held, document = threading.Event(), Document()
    first = asyncio.ensure_future(off_loop.run(off_loop.turn("a"), held.wait, 30))
    gone = asyncio.ensure_future(off_loop.run(off_loop.turn("a"), id, document))
    others = [asyncio.ensure_future(off_loop.run(off_loop.turn("a"), int, number)) for number in range(3)]
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait({gone})
    seen = weakref.ref(document)
    del document, gone
    gc.collect()
    assert seen() is None
    held.set()
    assert await asyncio.wait_for(asyncio.gather(first, *others), 30) == [True, 0, 1, 2]
