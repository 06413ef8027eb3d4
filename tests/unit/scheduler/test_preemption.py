"""Preemption: only where it can help, as few and as unimportant victims as possible, budgets last."""

import msgspec
import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import LabelSelector, Node, Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.framework import Diagnosis
from weir.scheduler.preemption import DisruptionBudget, NoPreemption, preempt

pytestmark = pytest.mark.proves("1.35-16")


def node(name, cpu="1", taints=()):
    return read(Node, {"metadata": {"name": name}, "spec": {"taints": list(taints)},
                       "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}})  # fmt: skip


def pod(name, priority=0, cpu="500m", start="2026-01-01T00:00:00Z", labels=None, **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return read(Pod, {"metadata": {"name": name, "namespace": "x", "labels": labels or {}},
                      "spec": {"priority": priority, "containers": [container], **spec},
                      "status": {"startTime": start}})  # fmt: skip


class Cluster:
    def __init__(self, *nodes):
        self.engine = Engine(ALL_FEATURES)
        self.pods = {}
        for each in nodes:
            self.engine.table.put_node(each)

    def run(self, where, *pods):
        for each in pods:
            placed = msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, node_name=where))
            self.pods[each.key] = placed
            self.engine.assume(each.key, each, where)

    def preempt(self, newcomer, budgets=()):
        before = self.engine.table.state.copy()
        diagnosis = self.engine.place(newcomer)
        assert isinstance(diagnosis, Diagnosis)
        found = preempt(self.engine, newcomer, diagnosis, self.pods, budgets)
        assert (self.engine.table.state == before).all(), "a dry run leaves no trace"
        return found


def names(found):
    return [victim.metadata.name for victim in found.victims]


def test_only_as_many_as_needed_go_and_the_least_important_first():
    cluster = Cluster(node("n"))
    cluster.run("n", pod("low", 1), pod("mid", 5))
    assert names(cluster.preempt(pod("new", 10))) == ["low"]


def test_the_node_with_the_least_important_victims_is_chosen():
    cluster = Cluster(node("a"), node("b"))
    cluster.run("a", pod("a1", 5), pod("a2", 5))
    cluster.run("b", pod("b1", 2), pod("b2", 5))
    assert cluster.preempt(pod("new", 10)).node == "b"


def test_pods_of_equal_priority_are_safe():
    cluster = Cluster(node("n"))
    cluster.run("n", pod("a", 10), pod("b", 10))
    assert cluster.preempt(pod("new", 10)).message == (
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_untolerated_taints_are_never_cured_by_preemption():
    cluster = Cluster(node("t", taints=[{"key": "sla", "value": "1", "effect": "NoSchedule"}]), node("n"))
    cluster.run("n", pod("a", 10), pod("b", 10))
    found = cluster.preempt(pod("new", 10))
    assert isinstance(found, NoPreemption) and found.message == (
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


@pytest.mark.proves("1.35-16")
def test_a_critical_pod_takes_the_premium_node_that_both_tolerate():
    premium = {"key": "cost-per-hour", "value": "900", "effect": "NoSchedule"}
    tolerant = {"tolerations": [{"key": "cost-per-hour", "operator": "Lt", "value": "1000"}]}
    cluster = Cluster(node("premium", taints=[premium]), node("cheap"))
    cluster.run("premium", pod("batch", 1, cpu="1", **tolerant))
    cluster.run("cheap", pod("equal", 10, cpu="1"))
    found = cluster.preempt(pod("critical", 10, cpu="1", **tolerant))
    assert (found.node, names(found)) == ("premium", ["batch"])
    assert isinstance(cluster.preempt(pod("frugal", 10, cpu="1")), NoPreemption)


def test_a_policy_of_never_preempts_nobody():
    cluster = Cluster(node("n"))
    cluster.run("n", pod("a"), pod("b"))
    found = cluster.preempt(pod("new", 10, preemptionPolicy="Never"))
    assert found.message == "preemption: not eligible due to preemptionPolicy=Never."


@pytest.mark.parametrize("allowed, chosen", [(0, "b"), (1, "a")])
def test_a_budget_that_would_be_broken_sends_preemption_elsewhere(allowed, chosen):
    cluster = Cluster(node("a"), node("b"))
    cluster.run("a", pod("a1", 1, labels={"app": "db"}), pod("a2", 9))
    cluster.run("b", pod("b1", 2), pod("b2", 9))
    budget = DisruptionBudget("x", "db", LabelSelector({"app": "db"}), allowed)
    assert cluster.preempt(pod("new", 10), [budget]).node == chosen


def test_among_equals_the_pod_that_started_last_goes():
    cluster = Cluster(node("a"), node("b"))
    cluster.run("a", pod("a1", 1, start="2026-01-01T00:00:00Z"), pod("a2", 9))
    cluster.run("b", pod("b1", 1, start="2026-02-01T00:00:00Z"), pod("b2", 9))
    assert names(cluster.preempt(pod("new", 10))) == ["b1"]


def test_the_message_counts_the_victims():
    cluster = Cluster(node("n"))
    cluster.run("n", pod("a"), pod("b"))
    found = cluster.preempt(pod("new", 10, cpu="1"))
    assert found.message == "preemption: found a potential placement for pod on node n, preempting 2 victims"


def budget(name, allowed, selector, disrupted=()):
    return DisruptionBudget("x", name, read(LabelSelector, selector), allowed, frozenset(disrupted))


def test_a_pod_without_labels_is_under_no_budget():
    cluster = Cluster(node("a"), node("b"))
    cluster.run("a", pod("bare", 1, "1"))
    cluster.run("b", pod("labelled", 2, "1", labels={"app": "x"}))
    without = budget("b", 0, {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})
    assert cluster.preempt(pod("new", 10, "1"), [without]).violations == 0


def test_a_pod_that_breaks_one_budget_is_not_charged_to_the_next():
    cluster = Cluster(node("n", cpu="2"))
    cluster.run("n", pod("both", 2, "1", labels={"a": "", "b": ""}), pod("second", 1, "1", labels={"b": ""}))
    budgets = [budget("a", 0, {"matchLabels": {"a": ""}}), budget("b", 1, {"matchLabels": {"b": ""}})]
    assert cluster.preempt(pod("new", 10, "2"), budgets).violations == 1


def test_who_may_not_preempt_keeps_the_node_promised_to_it():
    cluster = Cluster(node("n"))
    cluster.run("n", pod("low", 1, "1"))
    meek = cluster.preempt(pod("new", 10, "1", preemptionPolicy="Never"))
    helpless = cluster.preempt(pod("new", 0, "1"))
    assert (meek.keeps_promise, helpless.keeps_promise) == (True, False)
