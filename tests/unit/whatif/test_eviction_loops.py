"""What is driven out, made again and driven out again: recognised, named first, and never waited for without end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.whatif.lives import by_owner, chain, history, life
from tests.unit.whatif.test_run import Forecast, made, node, pod, taint, tolerant
from weir.cli._what_if_text import text
from weir.objects.kinds import by_kind
from weir.simulation.cluster import Cluster
from weir.whatif import horizon
from weir.whatif.changes import Apply, Cordon, Nodes
from weir.whatif.eviction_loops import EvictionLoop, find_eviction_loops
from weir.whatif.history import Cause, PodLife, Why
from weir.whatif.words import eviction_loop as said

HOT = taint("ra", "hot:NoExecute")
DAY = 86400.0
ONLY_DISRUPTED = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}


def workload(
    kind: str, name: str = "web", replicas: int = 1, *, cpu: str = "1", **more: Any
) -> dict[str, Any]:
    """Return a workload; what is not a field of its own spec is laid over its pods'."""
    own = {field: more.pop(field) for field in ("podFailurePolicy",) if field in more}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": name}
    spec: dict[str, Any] = {
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], **more}},
        **own,
    }
    if kind not in ("Job", "DaemonSet"):
        spec["replicas"] = replicas
    if kind != "Job":
        spec["selector"] = labels if kind == "ReplicationController" else {"matchLabels": labels}
    version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def circles(found: Forecast) -> dict[str, tuple[tuple[str, ...], str]]:
    return {each.workload: (each.nodes, each.cause.say()) for each in found.circles}


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment", "ReplicationController", "StatefulSet"])
def test_a_template_that_names_its_node_goes_in_circles(kind):
    before = [node("ra"), node("rb"), workload(kind, replicas=2, nodeName="ra")]
    found = made(before, HOT, until=DAY)
    assert circles(found) == {f"default/{kind}/web": (("ra",), "nothing tolerates hot:NoExecute of node ra")}
    assert found.looked.total_seconds() < 300


@pytest.mark.parametrize("kind", ["ReplicaSet", "DaemonSet", "StatefulSet"])
@pytest.mark.parametrize("seconds", [0, 3])
def test_pods_that_may_stay_for_a_moment_go_in_circles(kind, seconds):
    found = made([node("ra"), workload(kind, tolerations=tolerant(seconds))], HOT, until=DAY)
    assert circles(found) == {
        f"default/{kind}/web": (("ra",), f"tolerates hot:NoExecute of node ra for {seconds}s")
    }
    assert found.looked.total_seconds() < 300


@pytest.mark.parametrize(
    "pods", [{"nodeName": "ra"}, {"tolerations": tolerant(0)}, {"tolerations": tolerant(2)}]
)
def test_a_job_that_ignores_disruptions_goes_in_circles_and_others_give_up(pods):
    patient = workload("Job", "patient", podFailurePolicy=ONLY_DISRUPTED, restartPolicy="Never", **pods)
    limited = workload("Job", "limited", restartPolicy="Never", **pods)
    found = made([node("ra"), patient, limited], HOT, until=7200)
    assert list(circles(found)) == ["default/Job/patient"]
    assert {w.name: "has given up" in w.why for w in found.workloads} == {
        "default/Job/patient": False,
        "default/Job/limited": True,
    }


def test_the_pods_of_an_owner_that_was_not_collected_go_in_circles():
    found = made([node("ra"), pod("p", "ra", tolerations=tolerant(2))], HOT, until=DAY)
    assert list(circles(found)) == ["default/ReplicaSet/web"]


def test_an_owner_that_nobody_knows_makes_no_circle():
    found = made([node("ra"), pod("p", "ra", "Rollout", tolerations=tolerant(2))], HOT)
    assert (circles(found), [one.pod for one in found.lost]) == ({}, ["default/p"])


@pytest.mark.parametrize("seconds", [0, 2])
def test_pods_that_take_each_others_place_both_go_in_circles(seconds):
    important = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    first = workload("ReplicaSet", "first", priorityClassName="high", tolerations=tolerant(seconds))
    second = workload("ReplicaSet", "second", tolerations=[{"operator": "Exists"}])
    found = made([important, node("ra", cpu="1"), first, second], HOT, until=DAY)
    assert circles(found) == {
        "default/ReplicaSet/first": (("ra",), f"tolerates hot:NoExecute of node ra for {seconds}s"),
        "default/ReplicaSet/second": (("ra",), "makes room for a more important pod"),
    }
    # A pod that is only just being bound is a victim, too: nobody waits for the next look at all that wait.
    assert found.looked.total_seconds() < 120


def test_a_deployment_and_an_autoscaler_of_its_replicaset_go_in_circles():
    deployment = workload("Deployment", cpu="100m")
    deployment["metadata"]["uid"] = "d"
    labels = {"app": "web", "pod-template-hash": "abc"}
    template = {**deployment["spec"]["template"], "metadata": {"labels": labels}}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
    replicaset = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-abc", "labels": labels, "ownerReferences": [owner]},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc"},
            "minReplicas": 3,
            "maxReplicas": 5,
        },
    }
    found = made([node("ra"), deployment, replicaset], Apply((autoscaler,)), until=DAY)
    (only,) = found.circles
    assert (only.workload, only.every.total_seconds(), only.pods) == ("default/Deployment/web", 15.0, 2)


def test_one_round_of_a_long_toleration_and_the_time_of_the_next_are_a_circle():
    found = made([node("ra"), workload("ReplicaSet", tolerations=tolerant(1800))], HOT, until=3600)
    (only,) = found.circles
    assert (only.nodes, only.every, only.rounds) == (("ra",), timedelta(minutes=30), 2)
    assert (found.bad, found.later, [one.again_after for one in found.leaving]) == (
        True,
        (),
        [timedelta(minutes=30)],
    )
    lines = list(text(found, "", [], width=200))
    assert lines[2] == (
        "replicaset default/web is evicted and rescheduled in a loop on ra, every 30 min: "
        "tolerates hot:NoExecute of node ra for 1800s."
    )
    assert lines[4] == "1 pod is evicted and rescheduled in a loop; 0 pods on the changed nodes stay."
    assert "→" not in lines[7] and lines[7].endswith("↻ ra")


def test_a_circle_names_the_nodes_where_it_may_end():
    before = [node("ra"), node("rb"), node("small", cpu="1m"), node("hot", "hot:NoExecute")]
    pods = [pod("p", "ra", tolerations=tolerant(2)), pod("q", "rb", tolerations=tolerant(2))]
    (only,) = made([*before, *pods], HOT).circles  # kept apart from q, p goes back to where it was evicted
    assert (set(only.nodes), only.other_nodes) == ({"ra", "hot"}, ("rb",))
    assert said(only).endswith(" It may end on rb, which does not evict it.")


def test_one_that_is_due_for_another_taint_next_is_in_no_circle_yet():
    tolerations = [*tolerant(30), {**tolerant(60)[0], "key": "cool"}]
    before = [node("ra"), node("rb", "cool:NoExecute"), workload("ReplicaSet", tolerations=tolerations)]
    found = made(before, HOT, Cordon(Nodes(("ra",))), until=60)
    assert [(one.goes_to, one.again_after) for one in found.leaving] == [("rb", timedelta(seconds=60))]
    assert (found.circles, [at.seconds for _, at in found.later]) == ((), [90])


def test_a_job_that_is_due_again_is_in_no_circle_yet():
    job = workload("Job", restartPolicy="Never", tolerations=tolerant(1800))
    found = made([node("ra"), job], HOT, until=3600)
    assert (found.circles, len(found.later)) == ((), 1)


def test_circles_come_first_and_say_how_often():
    found = made([node("ra"), workload("ReplicaSet", tolerations=tolerant(2))], HOT, until=DAY)
    lines = list(text(found, "", [], width=200))
    assert lines[2] == (
        "replicaset default/web is evicted and rescheduled in a loop on ra, every 2 s: "
        "tolerates hot:NoExecute of node ra for 2s."
    )


def test_a_circle_that_slows_down_says_that_kubernetes_does_not():
    found = made([node("ra"), workload("ReplicaSet", nodeName="ra")], HOT, until=DAY)
    (only,) = found.circles
    assert "ever more slowly (Kubernetes' own controllers do not slow down)" in said(only)


def test_a_circle_that_was_broken_is_none():
    from weir.whatif.changes import Wait

    calm = taint("ra", "hot:NoExecute")
    over = type(calm)(calm.nodes, tuple(type(edit)(edit.taint, removes=True) for edit in calm.edits))
    before = [node("ra"), workload("ReplicaSet", tolerations=tolerant(2))]
    found = made(before, HOT, Wait(30.0), over, until=300)
    assert (circles(found), found.settled, [one.ends_on for one in found.leaving]) == ({}, True, ["ra"])


class Restless:
    """A change after which somebody makes and deletes a pod as fast as can be, for ever."""

    documents: tuple[dict[str, Any], ...] = ()

    def say(self) -> str:
        return "restless"

    def make(self, cluster: Cluster) -> list[str]:
        kind = by_kind("v1", "Pod")

        async def act() -> None:
            number = 0
            while True:
                number += 1
                spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "g"}]}
                await cluster.client.create(
                    kind, {"metadata": {"name": f"p-{number}"}, "spec": spec}, "default"
                )
                await cluster.client.delete(kind, f"p-{number}", "default")
                await asyncio.sleep(0)

        cluster.background(act())
        return []


def test_work_without_end_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(horizon, "MOST_WRITES", 200)
    found = made([node("ra")], Restless(), until=DAY)  # type: ignore[arg-type]
    assert (found.settled, found.bad) == (False, True)
    assert (
        found.notes[0].startswith("More goes on than was waited for (") and "writes to pods" in found.notes[0]
    )


# ── of lives written by hand ──

WEB = "default/ReplicaSet/web"


def driven(*times: float, names: str = "p", nodes: str = "a", **more: Any) -> list[PodLife]:
    """Return pods that had to go at these times, each made in the place of the one before; a last one stays."""
    went = [
        life(
            f"{names}{number}",
            made=at - 1,
            node=nodes[number % len(nodes)],
            left=at,
            cause=Cause(Why.EVICTED, message=f"{number}"),
            **more,
        )
        for number, at in enumerate(times)
    ]
    return chain(*went, life(f"{names}-last", made=times[-1], **more))


def turning(lives: list[PodLife], seen: float) -> list[EvictionLoop]:
    return find_eviction_loops(history(lives, seen=seen), by_owner)


def test_a_chain_is_one_circle_with_all_its_rounds_and_its_latest_cause():
    (only,) = turning(driven(0, 10, 20, 30, 40, nodes="ab"), 41)
    assert (only.workload, only.pods, only.rounds) == (WEB, 1, 5)
    assert (only.nodes, only.every, only.cause.message) == (("a", "b"), timedelta(seconds=10), "4")
    assert not only.slower


@pytest.mark.parametrize("times, found", [((0, 10, 20, 30), 1), ((10, 20, 30), 0), ((-0.5, 10, 20, 30), 0)])
def test_four_in_a_row_since_the_change_are_a_circle(times, found):
    assert len(turning(driven(*times), 31)) == found


@pytest.mark.parametrize("first", [0.0, 0.5])
def test_the_first_round_may_be_at_the_moment_of_the_change(first):
    assert len(turning(driven(first, 10, 20, 30), 31)) == 1


def test_a_departure_of_another_kind_begins_the_count_again():
    lives = driven(0, 10, 20, 30, 40, 50)
    lives[2].cause = Cause(Why.NODE_GONE)
    assert turning(lives, 51) == []


def test_a_departure_without_a_known_cause_begins_the_count_again():
    lives = driven(0, 10, 20, 30)
    lives[2].cause = None
    assert turning(lives, 31) == []


@pytest.mark.parametrize("seen, found", [(35 + 60, 1), (35 + 60.5, 0), (35 + 50, 1)])
def test_a_circle_that_was_quiet_for_three_rounds_has_come_to_an_end(seen, found):
    assert len(turning(driven(0, 5, 15, 35), seen)) == found


@pytest.mark.parametrize(
    "times, slower", [((0, 2, 5.5, 11), True), ((0, 2, 5.5, 10.75), False), ((0, 2, 4, 9), False)]
)
def test_every_round_must_take_more_than_half_as_long_again_to_be_slower(times, slower):
    (only,) = turning(driven(*times), times[-1])
    assert only.slower is slower


def test_the_pods_of_a_workload_are_one_circle_told_by_the_one_with_most_rounds():
    few = driven(0, 10, 20, 30, names="few", nodes="b")
    many = driven(0, 8, 16, 24, 32, names="many", nodes="a")
    other = driven(0, 10, 20, 30, names="other", owner="Job/a")
    first, only = turning([*few, *many, *other], 33)
    assert (first.workload, only.workload) == ("default/Job/a", WEB)
    assert (only.pods, only.rounds, only.nodes, only.every) == (2, 9, ("a", "b"), timedelta(seconds=8))
    assert only.cause.message == "4"


def test_pods_that_never_had_a_node_name_none():
    lives = driven(0, 10, 20, 30)
    lives[1].node = ""
    (only,) = turning(lives, 31)
    assert only.nodes == ("a",)
