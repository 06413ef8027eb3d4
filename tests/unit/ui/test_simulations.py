"""Simulations of the page: how far they are, and that they end when nobody wants them."""

from __future__ import annotations

import threading

import pytest

from weir.ui.simulations import Cancelled, Simulations


def test_how_far_a_question_is_can_be_asked_while_it_runs():
    simulations = Simulations()
    with simulations.run("q") as tick:
        tick(3, 10)
        now = simulations.progress("q")
        assert (now.done, now.total) == (3, 10)
    assert simulations.progress("q").total == 0


def test_a_cancelled_question_ends_at_its_next_step_and_lets_the_next_one_run():
    simulations = Simulations()
    with pytest.raises(Cancelled), simulations.run("q") as tick:
        simulations.cancel("q")
        tick(1, 2)
    with simulations.run("q") as tick:
        tick(1, 2)


def test_one_that_is_cancelled_before_it_begins_does_not_begin():
    simulations = Simulations()
    simulations.cancel("q")
    with pytest.raises(Cancelled), simulations.run("q"):
        raise AssertionError


def test_one_that_waits_for_its_turn_can_be_cancelled():
    simulations, ended = Simulations(), threading.Event()

    def wait() -> None:
        with pytest.raises(Cancelled), simulations.run("second"):
            raise AssertionError
        ended.set()

    with simulations.run("first"):
        waiting = threading.Thread(target=wait)
        waiting.start()
        simulations.cancel("second")
        assert ended.wait(60)
    waiting.join()


def test_names_that_nobody_asks_for_again_are_forgotten():
    simulations = Simulations()
    for number in range(1000):
        simulations.cancel(str(number))
    assert len(simulations._by_id) <= 64
