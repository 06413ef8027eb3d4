"""Stored expressions that take long, fail, or are no expressions: they tolerate nothing, and everything else goes on.

The API server refuses most of them; here they are stored already, as by an earlier version or by whoever has the store.
"""

from __future__ import annotations

from typing import Any

import pytest

from weir.gates import ALL_FEATURES
from weir.simulation.cluster import Cluster
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
