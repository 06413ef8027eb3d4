"""Kubernetes' workqueue metrics, one controller each: every one of them moves when it should."""

from __future__ import annotations

import pytest

from weir.client.queue import WorkQueue
from weir.clock import VirtualClock
from weir.controllers.runtime.metrics import ControllerMetrics


class Measured:
    def __init__(self):
        self.clock, self.metrics = VirtualClock(), ControllerMetrics()
        self.queue = WorkQueue(self.clock, meter=self.metrics.queue("q"))

    def value(self, line):
        text = self.metrics.registry.render().decode()
        return next(float(each.rsplit(" ", 1)[1]) for each in text.splitlines() if each.startswith(line))


@pytest.fixture
def measured():
    return Measured()


async def test_a_key_added_twice_before_it_is_taken_counts_once(measured):
    measured.queue.add("a")
    measured.queue.add("a")
    assert measured.value('workqueue_adds_total{name="q"}') == 1


async def test_a_key_that_fails_counts_as_retried(measured):
    measured.queue.retry("a")
    assert measured.value('workqueue_retries_total{name="q"}') == 1


async def test_how_long_a_key_waited_is_measured_until_it_is_taken(measured):
    measured.queue.add("a")
    await measured.clock.advance(3)
    measured.queue.get_nowait()
    assert measured.value('workqueue_queue_duration_seconds_sum{name="q"}') == 3


async def test_how_long_the_work_took_is_measured_until_it_is_done(measured):
    measured.queue.add("a")
    measured.queue.get_nowait()
    await measured.clock.advance(2)
    measured.queue.done("a")
    assert measured.value('workqueue_work_duration_seconds_sum{name="q"}') == 2


async def test_what_is_not_finished_is_known(measured):
    for key in "ab":
        measured.queue.add(key)
        measured.queue.get_nowait()
        await measured.clock.advance(2)
    assert measured.queue.working_seconds() == [4, 2]


def test_every_running_controller_shows_its_queue():
    from weir.simulation.cluster import Cluster

    with Cluster(controllers=["device-taint-eviction"]) as cluster:
        text = cluster.plane.controllers.metrics.registry.render().decode()
    name = '{name="device-taint-eviction-controller"}'
    gauges = (
        "workqueue_depth",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
    )
    assert all(f"{gauge}{name} 0" in text for gauge in gauges)
