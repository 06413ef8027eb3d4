"""The queue: order, backoff, and waking exactly the pods a change can help."""

import msgspec
import pytest

from tests.unit.scheduler.hints import hints_of
from weir.objects.core import Node, Pod, read
from weir.scheduler.queue import LONGEST_SLEEP_SECONDS, SchedulingQueue
from weir.scheduler.queueing_hints import node_events, pod_events

NONE = frozenset()
TAINTS = frozenset({"TaintToleration"})


def pod(name, priority=0, **spec):
    return read(
        Pod,
        {
            "metadata": {"name": name, "namespace": "x"},
            "spec": {"priority": priority, "containers": [], **spec},
        },
    )


def node(name="n", *taints, **spec):
    entries = [{"key": key, "value": value, "effect": "NoSchedule"} for key, value in taints]
    return read(Node, {"metadata": {"name": name}, "spec": {"taints": entries, **spec}})


@pytest.fixture
def queue():
    return SchedulingQueue(hints_of())


def names(queue, now=0.0):
    popped = []
    while (item := queue.pop(now)) is not None:
        popped.append(item.pod.metadata.name)
        queue.done(item.key)
    return popped


def test_the_more_important_pod_goes_first_and_then_the_one_that_waits_longer(queue):
    for time, (name, priority) in enumerate([("a", 0), ("b", 5), ("c", 5), ("d", 9)]):
        queue.add(pod(name, priority), float(time))
    assert names(queue) == ["d", "b", "c", "a"]


def reject(queue, item, now, plugins=TAINTS):
    queue.rejected(item, plugins, NONE, now)


@pytest.mark.proves("5471-117", "5721-126")
def test_a_waiting_pod_is_counted_for_each_plugin_that_rejected_it(queue):
    for name, plugins in (("a", TAINTS), ("b", TAINTS | {"NodeResourcesFit"})):
        queue.add(pod(name), 0.0)
        reject(queue, queue.pop(0.0), 0.0, plugins)
    assert {plugin: count for (plugin, _), count in queue.rejecting().items()} == {
        "TaintToleration": 2,
        "NodeResourcesFit": 1,
    }


@pytest.mark.parametrize("attempts, seconds", [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10)])
def test_the_wait_doubles_with_every_rejection_up_to_ten_seconds(queue, attempts, seconds):
    queue.add(pod("a"), 0.0)
    item = queue.pop(0.0)
    item.rejections = attempts - 1
    reject(queue, item, 100.0)
    queue.on_event(next(node_events(None, node())), 100.0)
    assert item.expiry == 100.0 + seconds


class TestWaking:
    """A taint removed from one node wakes the pods it can help and no others."""

    def asleep(self, queue, **spec):
        queue.add(pod("a", **spec), 0.0)
        reject(queue, queue.pop(0.0), 0.0)

    def woken(self, queue, old, new, now=50.0):
        return sum(queue.on_event(event, now) for event in node_events(old, new))

    def test_a_removed_taint_wakes_the_pod(self, queue):
        self.asleep(queue)
        assert self.woken(queue, node("n", ("sla", "800")), node("n")) == 1

    def test_a_taint_removed_while_another_stays_does_not(self, queue):
        self.asleep(queue)
        assert self.woken(queue, node("n", ("sla", "800"), ("x", "")), node("n", ("x", ""))) == 0

    def test_a_value_that_comes_into_range_wakes_the_pod(self, queue):
        self.asleep(queue, tolerations=[{"key": "sla", "operator": "Gt", "value": "900"}])
        assert self.woken(queue, node("n", ("sla", "800")), node("n", ("sla", "950"))) == 1

    def test_a_value_that_stays_out_of_range_does_not(self, queue):
        self.asleep(queue, tolerations=[{"key": "sla", "operator": "Gt", "value": "900"}])
        assert self.woken(queue, node("n", ("sla", "800")), node("n", ("sla", "850"))) == 0

    def test_a_label_means_nothing_to_a_pod_kept_off_by_taints(self, queue):
        self.asleep(queue)
        assert (
            self.woken(queue, node("n"), msgspec.structs.replace(node("n"), metadata=node("m").metadata)) == 0
        )

    def test_an_own_toleration_wakes_it(self, queue):
        self.asleep(queue)
        queue.update(pod("a", tolerations=[{"operator": "Exists"}]), 50.0)
        assert queue.counts()["unschedulable"] == 0

    def test_a_deleted_pod_frees_resources_but_no_taints(self, queue):
        self.asleep(queue)
        (event,) = pod_events(pod("b"), None)
        assert queue.on_event(event, 1.0) == 0

    def test_an_event_during_the_attempt_is_not_missed(self, queue):
        queue.add(pod("a"), 0.0)
        item = queue.pop(0.0)
        self.woken(queue, node("n", ("x", "")), node("n"))
        reject(queue, item, 60.0)
        assert queue.counts()["unschedulable"] == 0

    def test_after_five_minutes_it_is_tried_anyway(self, queue):
        self.asleep(queue)
        assert queue.tick(LONGEST_SLEEP_SECONDS - 1) == 0 and queue.tick(LONGEST_SLEEP_SECONDS + 1) == 1


def test_a_gated_pod_is_never_tried_until_its_last_gate_is_gone(queue):
    queue.add(pod("a", schedulingGates=[{"name": "x"}]), 0.0)
    assert queue.pop(0.0) is None and queue.counts()["gated"] == 1
    queue.update(pod("a"), 1.0)
    assert names(queue) == ["a"]


def test_a_broken_attempt_is_retried_after_its_wait_and_not_before(queue):
    queue.add(pod("a"), 0.0)
    queue.failed(queue.pop(0.0), 10.0)
    assert queue.pop(10.5) is None
    queue.tick(12.0)
    assert names(queue) == ["a"]


def test_with_nobody_ready_a_rejected_pod_is_taken_before_its_wait_is_over(queue):
    queue.add(pod("a"), 0.0)
    reject(queue, queue.pop(0.0), 0.0)
    queue.on_event(next(node_events(None, node())), 0.0)
    assert names(queue) == ["a"]


def test_a_deleted_pod_is_forgotten_wherever_it_waits(queue):
    queue.add(pod("a"), 0.0)
    queue.add(pod("b"), 0.0)
    reject(queue, queue.pop(0.0), 0.0)
    queue.delete("x/a"), queue.delete("x/b")
    assert names(queue) == [] and sum(queue.counts().values()) == 0


def test_gates_hold_nobody_back_when_the_plugin_is_switched_off():
    queue = SchedulingQueue(hints_of(), ungated=frozenset({"default-scheduler"}))
    queue.add(pod("a", schedulingGates=[{"name": "example.com/wait"}]), 0.0)
    assert names(queue) == ["a"]


def with_uid(each, uid):
    return msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, uid=uid))


def test_a_toleration_added_while_a_pod_has_its_turn_is_not_missed(queue):
    queue.add(pod("a"), 0.0)
    item = queue.pop(0.0)
    queue.add(pod("a", tolerations=[{"operator": "Exists"}]), 0.1)
    reject(queue, item, 0.2)
    assert queue.counts()["backoff"] == 1


def test_another_pod_of_the_same_name_gets_a_turn_of_its_own(queue):
    queue.add(with_uid(pod("a"), "old"), 0.0)
    item = queue.pop(0.0)
    queue.add(with_uid(pod("a", priority=7), "new"), 0.1)
    freed = queue.done(item.key)
    assert (freed, queue.pop(0.2).pod.spec.priority) == (True, 7)


def test_a_successor_that_is_gone_again_gets_no_turn(queue):
    queue.add(with_uid(pod("a"), "old"), 0.0)
    item = queue.pop(0.0)
    queue.add(with_uid(pod("a"), "new"), 0.1)
    queue.delete("x/a")
    assert (queue.done(item.key), queue.pop(0.2)) == (False, None)
