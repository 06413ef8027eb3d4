"""The sentences of an answer: what becomes of the pods that go, counted as the rows count them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.whatif.test_eviction_loops import workload
from tests.unit.whatif.test_run import made, node, taint
from weir.whatif.changes import Change, DeleteNode, Drain, Nodes, Rollout, Scale
from weir.whatif.eviction_loops import EvictionLoop
from weir.whatif.forecast import EvictedPod, Forecast, Workload
from weir.whatif.history import Cause, Why
from weir.whatif.words import headline

WEB = "default/ReplicaSet/web"


def going(why: Why = Why.TAINT, **more: Any) -> EvictedPod:
    return EvictedPod("default/p", "a", timedelta(), Cause(why), "ReplicaSet/web", WEB, **more)


PLACED, LOST = going(ends_on="b"), going()
LOOPING = going(circles=True)
UNWANTED = going(Why.OWNER, wanted=False)
FEWER, AS_MANY = Workload(WEB, 3, 1, 2, 2, 1, 0, 0), Workload(WEB, 3, 3, 2, 2, 1, 0, 0)


@pytest.mark.parametrize(
    "pods, row, words",
    [
        ([], AS_MANY, "No pod is evicted."),
        ([PLACED], AS_MANY, "1 pod is evicted and rescheduled."),
        ([PLACED] * 2, AS_MANY, "2 pods are evicted and rescheduled."),
        ([LOST], FEWER, "1 pod is evicted, and is not rescheduled."),
        ([LOST] * 2, FEWER, "2 pods are evicted, and none is rescheduled."),
        ([LOOPING] * 2, AS_MANY, "2 pods are evicted and rescheduled in a loop."),
        ([UNWANTED] * 2, FEWER, "2 pods are removed and need no replacement."),
        ([UNWANTED], FEWER, "1 pod is removed and needs no replacement."),
        ([UNWANTED] * 2, AS_MANY, "2 pods are removed and replaced."),
        ([going(Why.NODE_GONE, ends_on="b")], AS_MANY, "1 pod is removed and rescheduled."),
        ([PLACED, LOST], FEWER, "2 pods are evicted; 1 of them is not rescheduled."),
        (
            [PLACED, LOST, LOST, LOOPING],
            FEWER,
            "4 pods are evicted; 2 of them are not rescheduled, 1 is rescheduled in a loop.",
        ),
        (
            [LOST, UNWANTED],
            FEWER,
            "2 pods are removed; 1 of them is not rescheduled, 1 needs no replacement.",
        ),
    ],
)
def test_the_headline_says_what_becomes_of_every_pod(pods, row, words):
    loop = EvictionLoop(WEB, ("a",), timedelta(seconds=5), 1, 4, LOOPING.cause, slower=False)
    loops = (loop,) if LOOPING in pods else ()
    assert headline(Forecast(("x",), (), tuple(pods), loops, (row,))) == words


@pytest.mark.parametrize(
    "change, words, bad",
    [
        (Scale("rs/web", 1), "2 pods are removed and need no replacement.", False),
        (Rollout("deploy/web"), "3 pods are removed and replaced.", False),
        (
            Drain(Nodes(("a",))),
            "2 pods are evicted and rescheduled; 0 pods on the changed nodes stay.",
            False,
        ),
        (
            DeleteNode(Nodes(("own",))),
            "1 pod is removed and needs no replacement; 0 pods on the changed nodes stay.",
            False,
        ),
        (
            taint("own", "hot:NoExecute"),
            "1 pod is evicted, and is not rescheduled; 0 pods on the changed nodes stay.",
            True,
        ),
    ],
)
def test_each_kind_of_change_is_told_in_its_own_words(change: Change, words, bad):
    kind = "Deployment" if isinstance(change, Rollout) else "ReplicaSet"
    agent = workload("DaemonSet", "agent", nodeSelector={"pool": "own"}, cpu="1m")
    web = workload(kind, replicas=3, nodeSelector={"pool": "web"}, cpu="1m")
    nodes = [node("a", pool="web"), node("b", pool="web"), node("own", pool="own")]
    found = made([*nodes, agent, web], change)
    assert (headline(found), found.bad) == (words, bad)
