"""An answer is about the change alone: what goes on without it is told apart."""

from __future__ import annotations

from datetime import timedelta

from tests.unit.whatif.test_circles import tolerant, workload
from tests.unit.whatif.test_run import NOW, node, taint
from weir.gates import ALL_FEATURES
from weir.whatif import horizon, words
from weir.whatif.changes import Cordon, Nodes
from weir.whatif.run import Asked, what_if

HOT = {"key": "hot", "effect": "NoExecute"}


def looping_cluster(replicas: int = 1) -> list[dict]:
    """A node whose taint drives every pod of `web` out again after five seconds, and one beside it."""
    hot = node("hot", pool="hot")
    hot["spec"] = {"taints": [HOT]}
    patient = workload("ReplicaSet", "patient", tolerations=tolerant(1000), nodeSelector={"pool": "calm"})
    web = workload("ReplicaSet", replicas=replicas, tolerations=tolerant(5), nodeSelector={"pool": "hot"})
    calm = node("calm")
    for each, pool in ((hot, "hot"), (calm, "calm")):
        each["metadata"]["labels"] = {**(each["metadata"].get("labels") or {}), "pool": pool}
    return [hot, calm, web, patient]


def test_a_loop_that_is_there_already_is_no_effect_of_the_change():
    found = what_if(looping_cluster(), [Cordon(Nodes(("calm",)))], Asked(ALL_FEATURES, NOW, 600.0))
    assert (found.circles, found.workloads, found.leaving, found.bad) == ((), (), (), False)
    assert found.baseline is not None
    assert [each.workload for each in found.baseline.circles] == ["default/ReplicaSet/web"]
    assert "1 workload goes in circles already" in words.goes_on_anyway(found)


def test_loops_do_not_use_up_the_looking_ahead(monkeypatch):
    monkeypatch.setattr(horizon, "LOOPING_WRITES", 200)
    monkeypatch.setattr(horizon, "MOST_WRITES", 1_000)
    change = taint("calm", "hot:NoExecute")
    found = what_if(looping_cluster(replicas=5), [change], Asked(ALL_FEATURES, NOW, 1500.0))
    assert not found.ended_early
    assert [(one.workload, one.after) for one in found.leaving] == [
        ("default/ReplicaSet/patient", timedelta(seconds=1000))
    ]


def test_an_answer_that_ends_early_says_so_first(monkeypatch):
    monkeypatch.setattr(horizon, "MOST_WRITES", 50)
    monkeypatch.setattr(horizon, "MOST_WRITES_A_POD", 0)
    change = taint("calm", "hot:NoExecute")
    found = what_if(looping_cluster(replicas=5), [change], Asked(ALL_FEATURES, NOW, 1500.0))
    assert found.ended_early
    assert words.headline(found).startswith("Cannot say beyond ")
