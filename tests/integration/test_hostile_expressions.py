"""Stored expressions that take long, fail, or are no expressions: they tolerate nothing, and everything else goes on.

The API server refuses most of them; here they are stored already, as by an earlier version or by whoever has the store.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.stock.virtual import StockCluster
from tests.unit.controllers.device_cluster import (
    DRIVER,
    VERSION,
    Devices,
    rule_document,
    slice_document,
    taint,
)
from weir.clock import RealClock
from weir.gates import ALL_FEATURES
from weir.lowering import tolerations
from weir.lowering.admission import Answer, answer
from weir.lowering.admission import Cluster as Lowered
from weir.lowering.triples import Triple
from weir.lowering.webhooks import POD_PATH
from weir.objects.core import Toleration
from weir.operator.aside import Aside
from weir.simulation.cluster import Cluster
from weir.taints import expression
from weir.taints.expression import STOPPED_REASON, WINDOW_SECONDS, Expressions

QUADRATIC = (
    "['a']"
    + ".map(v, v + v)" * 19
    + ".map(v, v.lastIndexOf('ab' + v.substring(0, v.size() / 2))).size() == 2"
)
HOSTILE = {
    "a search in a doubled text": QUADRATIC,
    "a pattern made at run time": "['a?']" + ".map(v, v + v)" * 16 + ".map(v, 'a'.matches(v)).size() == 1",
    "a doubled duration": "['1h']" + ".map(v, v + v)" * 18 + ".map(v, duration(v)).size() == 1",
    "a list that doubles": "[1]" + ".map(v, [v, v])" * 30 + ".all(v, v == [v, v][0])",
    "many calls": "lists.range(90000).all(i, string(timestamp(i)) != '')",
    "leading zeros": "['0']" + ".map(v, v + v)" * 13 + ".map(v, int(v + '1')).size() == 2",
    "no expression": "taint.",
    "no bool": "size(taint.key)",
    "an error": "taint.nothing == 1",
    "nested too deep": "(" * 3000 + "true" + ")" * 3000,
}
STOPPED = {
    "a search in a doubled text",
    "a pattern made at run time",
    "a doubled duration",
    "a list that doubles",
    "many calls",
}


def pod(name: str, *expressions: str, node: str = "") -> dict[str, Any]:
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "schedulerName": "default-scheduler",
        "tolerations": [{"expression": each} for each in expressions],
        **({"nodeName": node} if node else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def stored(document: dict[str, Any]) -> dict[str, Any]:
    """Return a pod as it lies in a store that nobody checked."""
    metadata = document["metadata"] | {
        "uid": f"uid-{document['metadata']['name']}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return document | {"metadata": metadata, "status": {"phase": "Pending"}}


def places(cluster: Cluster) -> dict[str, str]:
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in cluster.list("Pod")}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_stored_stops_nobody(name: str) -> None:
    with Cluster(holding=[stored(pod("hostile", HOSTILE[name]))]) as cluster:
        cluster.add_node("tainted", taints=["dedicated=a:NoSchedule"])
        cluster.apply(pod("ordinary", "taint.key == 'dedicated'"))
        cluster.advance(20)
        assert places(cluster) == {"hostile": "", "ordinary": "tainted"}
        cluster.add_node("other", taints=["dedicated=b:NoSchedule"])
        cluster.apply(pod("later", "taint.value == 'b'"))
        cluster.advance(20)
        assert places(cluster) == {"hostile": "", "ordinary": "tainted", "later": "other"}
        warned = [each["message"] for each in cluster.events(STOPPED_REASON)]
        assert len(warned) == (name in STOPPED), "once for each pod"


def test_a_restart_on_what_is_stored_goes_on() -> None:
    pods = [stored(pod(f"hostile-{i}", text)) for i, text in enumerate(HOSTILE.values())]
    with Cluster(holding=pods) as cluster:
        cluster.add_node("node-0", taints=["dedicated=a:NoSchedule"])
        cluster.advance(30)
        cluster.set_gates(ALL_FEATURES)
        cluster.apply(pod("ordinary", "taint.key == 'dedicated'"))
        cluster.advance(30)
        found = places(cluster)
        assert found.pop("ordinary") == "node-0"
        assert set(found.values()) == {""}


def test_a_running_pod_with_a_hostile_expression_is_evicted_and_others_stay() -> None:
    with Cluster(nodes=1) as cluster:
        cluster.apply(pod("hostile", HOSTILE["many calls"], node="node-0"))
        cluster.apply(pod("ordinary", "taint.key == 'flaky'", node="node-0"))
        cluster.advance(10)
        cluster.taint("node-0", "flaky=1:NoExecute")
        cluster.advance(60)
        assert set(places(cluster)) == {"ordinary"}
        assert {each["involvedObject"]["name"] for each in cluster.events(STOPPED_REASON)} == {"hostile"}


def test_many_slow_expressions_and_nodes_end_and_hold_up_nobody() -> None:
    """Each expression takes as long as one may, for every taint: it is stopped after a few."""
    slow = [
        f"lists.range(40).all(i, lists.range(40).all(j, string(timestamp(i + {k})) != taint.key))"
        for k in range(30)
    ]
    with Cluster() as cluster:
        for number in range(30):
            cluster.add_node(f"node-{number}", taints=[f"rack={number}:NoSchedule"])
        cluster.apply(pod("hostile", *slow), pod("ordinary", "taint.value == '7'"))
        cluster.advance(30)
        assert places(cluster)["ordinary"] == "node-7"


def test_the_memory_is_bounded_and_forgets_nobody_soon() -> None:
    from weir.objects.core import Taint
    from weir.taints import expression as module
    from weir.taints.operators import Outcome

    seen, taint = Expressions(), Taint("a", "b", "NoSchedule")
    assert WINDOW_SECONDS > 0
    for number in range(20):
        text = f"lists.range(90000).all(i, string(timestamp(i)) != '{number}')"
        assert seen.evaluate(text, taint) is Outcome.EXPRESSION_FAILED
        assert text in seen.stopped
    misses = seen.programs.misses
    assert seen.evaluate(text, taint) is Outcome.EXPRESSION_FAILED
    assert seen.programs.misses == misses
    for number in range(module.MOST_STOPPED + 5):
        seen._stop(str(number), "why")
    assert len(seen.stopped) == module.MOST_STOPPED


# ── tolerations of devices ───────────────────────────────────────────────────────────────────────


def test_a_stopped_expression_of_an_allocated_claim_is_told_once() -> None:
    with Devices() as devices:
        devices.put(slice_document("node-0", {f"gpu-{n}": [taint("a:NoExecute")] for n in range(2)}))
        hostile = {"expression": HOSTILE["many calls"]}
        devices.claim("hostile", "node-0/gpu-0", tolerations=(hostile,))
        devices.claim("ordinary", "node-0/gpu-1", tolerations=({"expression": "taint.key == 'a'"},))
        devices.pod("p-hostile", "hostile")
        devices.pod("p-ordinary", "ordinary")
        devices.cluster.advance(30)
        devices.put(rule_document("again", "b:NoExecute"))
        devices.cluster.advance(60)
        events = devices.cluster.events(STOPPED_REASON)
        assert [(each["involvedObject"]["kind"], each["involvedObject"]["name"]) for each in events] == [
            ("ResourceClaim", "hostile")
        ]
        assert (
            events[0]["count"] == 1
            and "is not evaluated any more and tolerates nothing" in events[0]["message"]
        )
        assert "p-hostile" not in devices.staying


def test_a_stopped_expression_of_a_claim_to_allocate_is_told_of_its_pod_once() -> None:
    with Devices(nodes=1, controllers=["*"]) as devices:
        cluster = devices.cluster
        devices.put(slice_document("node-0", {"gpu-0": [taint("a:NoSchedule")]}))
        cluster.create(
            {"apiVersion": VERSION, "kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": {}}
        )
        exactly = {"deviceClassName": DRIVER, "tolerations": [{"expression": HOSTILE["many calls"]}]}
        cluster.create(
            {
                "apiVersion": VERSION,
                "kind": "ResourceClaim",
                "metadata": {"name": "gpu"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
            }
        )
        devices.pod("p", "gpu", node="", reserve=False)
        cluster.advance(30)
        cluster.add_node("another")
        cluster.advance(60)
        events = cluster.events(STOPPED_REASON)
        assert [(each["involvedObject"]["kind"], each["involvedObject"]["name"]) for each in events] == [
            ("Pod", "p")
        ]
        assert places(cluster) == {"p": ""}


# ── the operator of a stock cluster ──────────────────────────────────────────────────────────────


def test_the_operator_tells_of_a_stopped_expression_once() -> None:
    expression.shared.cache_clear()
    with StockCluster() as stock:
        stock.node("n")
        stock.set_taints("n", ("sla", "1", "NoSchedule"))
        stock.run_pod("hostile", {"operator": "CEL", "value": HOSTILE["many calls"]})
        stock.run_pod("ordinary", {"operator": "CEL", "value": "taint.key == 'sla'"})
        stock.set_taints("n", ("sla", "2", "NoSchedule"))
        stock.advance(60)
        assert (stock.where("hostile"), stock.where("ordinary")) == ("", "n")
        events = stock.events(STOPPED_REASON)
        assert [(each["involvedObject"]["kind"], each["involvedObject"]["name"]) for each in events] == [
            ("Pod", "hostile")
        ]


def daemonset(name: str, *entries: dict[str, Any]) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": list(entries)},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }


def test_the_operator_tells_of_a_stopped_expression_of_a_daemonset_once() -> None:
    expression.shared.cache_clear()
    with StockCluster() as stock:
        stock.node("n")
        stock.set_taints("n", ("sla", "1", "NoSchedule"))
        stock.create(daemonset("d", {"operator": "CEL", "value": HOSTILE["many calls"]}))
        stock.advance(60)
        stock.set_taints("n", ("sla", "2", "NoSchedule"))
        stock.advance(600)
        events = stock.events(STOPPED_REASON)
        assert [(each["involvedObject"]["kind"], each["involvedObject"]["name"]) for each in events] == [
            ("DaemonSet", "d")
        ]


def test_the_loop_goes_on_while_a_hundred_expressions_meet_five_thousand_taints() -> None:
    """The webhook's answer is computed beside the loop; what the loop measures is its own waiting, not the machine."""
    triples = tuple(Triple("sla", str(number), "NoSchedule") for number in range(5_000))
    entries = [
        {"operator": "CEL", "value": f"taint.value.endsWith('x{number}') && taint.key != 'a'"}
        for number in range(100)
    ]
    review = {"object": {"metadata": {"name": "p"}, "spec": {"tolerations": entries}}}

    async def turns() -> tuple[int, Answer]:
        aside, passed = Aside(RealClock()), 0
        try:
            work = asyncio.ensure_future(aside.run(True, answer, POD_PATH, review, Lowered(known=triples)))
            while not work.done():
                passed += 1
                await asyncio.sleep(0.001)
            return passed, work.result()
        finally:
            aside.stop()

    passed, result = asyncio.run(turns())
    assert result.allowed and passed > 20, "the loop had turns while the expressions were evaluated"


def test_reviews_with_expressions_are_answered_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def run(self: Aside, expressions: bool, work: Any, *arguments: Any, **named: Any) -> Any:
        asked.append((work.__name__, expressions))
        return work(*arguments, **named)

    monkeypatch.setattr(Aside, "run", run)
    with StockCluster() as stock:
        stock.node("n")
        stock.run_pod("plain", {"key": "sla", "operator": "Gt", "value": "0"})
        assert {expressions for _, expressions in asked} == {False}
        stock.run_pod("p", {"operator": "CEL", "value": "taint.key == 'sla'"})
        assert {name for name, expressions in asked if expressions} >= {"answer", "complete"}
        asked.clear()
        stock.run_pod("many", *({"key": "sla", "operator": "Gt", "value": str(n)} for n in range(30)))
        assert {name for name, expressions in asked if expressions} >= {"answer", "complete"}, (
            "nor many others"
        )


@pytest.mark.parametrize("grace_seconds", [0, 10])
def test_the_operator_evaluates_no_expression_on_the_loop(
    monkeypatch: pytest.MonkeyPatch, grace_seconds: int
) -> None:
    """Neither for pods, bound and pending ones, nor for node writes, grace or labels of DaemonSets."""
    beside: list[str] = []
    on_loop: list[str] = []
    under_way = [False]
    run_plainly = Aside.run

    async def run(self: Aside, expressions: bool, work: Any, *arguments: Any, **named: Any) -> Any:
        under_way[0] = expressions
        try:
            return await run_plainly(self, expressions, work, *arguments, **named)
        finally:
            under_way[0] = False

    evaluate, verdict = Expressions.evaluate, tolerations._verdict

    def noted(expression: str) -> None:
        (beside if under_way[0] else on_loop).append(expression)

    def evaluated(self: Expressions, expression: str, taint: Any) -> Any:
        noted(expression)
        return evaluate(self, expression, taint)

    def judged(original: Toleration, triple: Triple) -> bool:
        if original.expression:  # remembered or not
            noted(original.expression)
        return verdict(original, triple)

    monkeypatch.setattr(Expressions, "evaluate", evaluated)
    monkeypatch.setattr(tolerations, "_verdict", judged)
    monkeypatch.setattr(Aside, "run", run)
    tolerating = {"operator": "CEL", "value": "taint.key == 'sla' && taint.value != '13'"}
    with StockCluster(grace_seconds=grace_seconds) as stock:
        stock.node("n")
        stock.run_pod("bound", tolerating, tolerating | {"value": "taint.key == 'other'"})
        stock.create(daemonset("d", tolerating))
        stock.advance(60)
        for value, effect in (("1", "NoSchedule"), ("2", "NoExecute"), ("13", "NoExecute")):
            stock.set_taints("n", ("sla", value, effect))
            stock.advance(60)
            stock.run_pod(f"pending-{value}", tolerating)
            stock.advance(60)
    assert beside and not on_loop
