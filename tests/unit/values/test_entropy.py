"""Random bytes that are drawn many at a time and given out once each."""

from __future__ import annotations

import os
import threading

import pytest

from weir.values.entropy import system_bytes


@pytest.mark.parametrize("size", [0, 1, 5, 16, 64, 65, 4096])
def test_it_gives_as_many_bytes_as_are_asked_for(size):
    assert {len(system_bytes(size)) for _ in range(600)} == {size}


def test_nobody_gets_what_somebody_else_got():
    drawn: list[list[bytes]] = []

    def draw() -> None:
        drawn.append([system_bytes(16) for _ in range(5000)])

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({piece for pieces in drawn for piece in pieces}) == 20_000


def test_a_process_that_is_forked_off_draws_its_own():
    system_bytes(16)
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.write(writes, system_bytes(16))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reads, 16) != system_bytes(16)
    os.close(reads)
    os.close(writes)
