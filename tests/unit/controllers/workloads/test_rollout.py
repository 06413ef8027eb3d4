"""Deployments: proportions, history, deadlines, adoption."""

from __future__ import annotations

import pytest

from tests.unit.controllers.builders import SECOND, T0, decide, of, only, printed, workload
from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Create, Delete, Patch, Record, WakeAt
from weir.controllers.workloads.deployment import Deployments
from weir.controllers.workloads.rollout import DESIRED, HASH_LABEL, HISTORY, MAXIMUM, REVISION
from weir.objects.kinds import DEPLOYMENTS
from weir.objects.kinds import REPLICA_SETS as REPLICASETS

KEY = ObjectKey("default", "web")


def template(image):
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def deployment(image="web:2", **more):
    return workload("Deployment", template=template(image), **more)


def replicaset(owner, name, image, replicas, *, revision=1, desired=None, available=None, age=0, **status):
    inner = template(image)
    inner["metadata"]["labels"][HASH_LABEL] = name
    notes = {REVISION: str(revision)}
    if desired is not None:
        notes |= {DESIRED: str(desired), MAXIMUM: str(desired + -(-desired // 4))}
    found = workload(
        "ReplicaSet",
        name,
        template=inner,
        replicas=replicas,
        status={
            "replicas": replicas,
            "readyReplicas": replicas,
            "availableReplicas": replicas if available is None else available,
            "observedGeneration": 1,
            **status,
        },
        metadata={
            "annotations": notes,
            "labels": {"app": "web"},
            "creationTimestamp": printed(T0 - age * SECOND),
        },
    )
    if owner is not None:
        found["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": "web",
                "uid": "uid-web",
                "controller": True,
            }
        ]
    return found


def sizes(actions):
    found = {}
    for patch in only(Patch, actions):
        if patch.kind is REPLICASETS and "replicas" in patch.patch.get("spec", {}):
            found[patch.name] = patch.patch["spec"]["replicas"]
    return found


def status(actions):
    (found,) = [
        p.patch["status"] for p in only(Patch, actions) if p.kind is DEPLOYMENTS and "status" in p.patch
    ]
    return found


def progressing(actions):
    (found,) = [c for c in status(actions)["conditions"] if c["type"] == "Progressing"]
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize(
    "wanted, expected",
    [(20, {"old": 15, "new": 10}), (5, {"old": 4, "new": 3}), (0, {"old": 0, "new": 0})],
    ids=["doubled", "halved", "to nothing"],
)
def test_a_deployment_scaled_while_it_rolls_grows_and_shrinks_in_proportion(wanted, expected):
    web = deployment(replicas=wanted)
    old = replicaset(web, "old", "web:1", 8, desired=10, age=9)
    new = replicaset(web, "new", "web:2", 5, revision=2, desired=10, available=0)
    assert sizes(decide(of(Deployments), KEY, [web, old, new])) == expected


def test_a_paused_deployment_is_scaled_in_proportion_too():
    web = deployment(replicas=20, paused=True)
    old = replicaset(web, "old", "web:1", 8, desired=10, age=9)
    new = replicaset(web, "new", "web:2", 5, revision=2, desired=10)
    assert sizes(decide(of(Deployments), KEY, [web, old, new])) == {"old": 15, "new": 10}


def test_proportions_keep_the_size_whatever_they_are():
    from hypothesis import given
    from hypothesis import strategies as st

    @given(st.lists(st.integers(1, 40), min_size=2, max_size=5), st.integers(1, 100), st.integers(1, 100))
    def holds(numbers, before, wanted):
        web = deployment("web:99", replicas=wanted)
        sets = [
            replicaset(web, f"rs{n}", f"web:{n}", size, revision=n, desired=before, age=9 - n)
            for n, size in enumerate(numbers)
        ]
        actions = decide(of(Deployments), KEY, [web, *sets])
        after = {f"rs{n}": size for n, size in enumerate(numbers)} | sizes(actions)
        if before != wanted:
            total = wanted + -(-wanted // 4)
            largest = max(numbers)
            assert sum(after.values()) == total or min(after.values()) == 0, (after, largest)
        assert min(after.values()) >= 0

    holds()


def test_an_unowned_replicaset_is_adopted_and_rolled_away():
    web = deployment(replicas=2)
    new = replicaset(web, "new", "web:2", 2, revision=2, desired=2)
    stray = replicaset(None, "stray", "web:0", 2)
    actions = decide(of(Deployments), KEY, [web, new, stray])
    adopted = [p.name for p in only(Patch, actions) if "ownerReferences" in p.patch.get("metadata", {})]
    assert (adopted, sizes(actions)) == (["stray"], {"stray": 0})


def test_an_adopted_replicaset_of_the_same_template_is_used():
    web = deployment(replicas=2)
    stray = replicaset(None, "stray", "web:2", 2)
    actions = decide(of(Deployments), KEY, [web, stray])
    assert only(Create, actions) == []


def test_a_replicaset_no_longer_selected_is_let_go():
    web = deployment(replicas=2)
    lost = replicaset(web, "lost", "web:1", 2)
    lost["metadata"]["labels"] = {"app": "other"}
    actions = decide(of(Deployments), KEY, [web, lost])
    released = [p.name for p in only(Patch, actions) if p.patch.get("metadata", {}).get("ownerReferences")]
    assert released == ["lost"]


def test_going_back_notes_the_revisions_a_replicaset_had():
    web = deployment("web:1", replicas=1)
    first = replicaset(web, "a", "web:1", 1, revision=1, desired=1)
    second = replicaset(web, "b", "web:2", 0, revision=2, desired=1)
    patched = [
        p.patch["metadata"]["annotations"]
        for p in only(Patch, decide(of(Deployments), KEY, [web, first, second]))
        if p.kind is REPLICASETS
    ]
    assert patched == [{HISTORY: "1", REVISION: "3"}]


def test_the_cause_of_a_change_is_passed_on_to_the_replicaset():
    web = deployment(metadata={"annotations": {"kubernetes.io/change-cause": "because"}})
    (made,) = only(Create, decide(of(Deployments), KEY, [web]))
    assert made.document["metadata"]["annotations"]["kubernetes.io/change-cause"] == "because"


def stuck(reason="ReplicaSetUpdated", since=0, **more):
    condition = {
        "type": "Progressing", "status": "True", "reason": reason, "message": "…",
        "lastUpdateTime": printed(T0 - since * SECOND), "lastTransitionTime": printed(T0 - since * SECOND),
    }  # fmt: skip
    counts = {"replicas": 1, "updatedReplicas": 1, "observedGeneration": 1, "unavailableReplicas": 1}
    web = deployment(
        replicas=1, progressDeadlineSeconds=60, status={**counts, "conditions": [condition]}, **more
    )
    new = replicaset(web, "new", "web:2", 1, desired=1, available=0, readyReplicas=0)
    return [web, new]


def test_a_rollout_that_does_not_move_times_out():
    assert progressing(decide(of(Deployments), KEY, stuck(since=61))) == (
        "False",
        "ProgressDeadlineExceeded",
        'ReplicaSet "new" has timed out progressing.',
    )


def test_before_its_deadline_a_rollout_is_looked_at_again_when_it_passes():
    actions = decide(of(Deployments), KEY, stuck(since=10))
    assert [a.at - T0 for a in only(WakeAt, actions)] == [51 * SECOND]


def test_a_pause_ends_the_waiting():
    assert progressing(decide(of(Deployments), KEY, stuck(since=61, paused=True)))[:2] == (
        "Unknown",
        "DeploymentPaused",
    )


def test_the_failure_of_a_replicaset_is_the_deployments():
    web, new = stuck()
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no",
               "lastTransitionTime": printed()}  # fmt: skip
    new["status"]["conditions"] = [failure]
    conditions = {
        c["type"]: c["reason"] for c in status(decide(of(Deployments), KEY, [web, new]))["conditions"]
    }
    assert conditions["ReplicaFailure"] == "FailedCreate"


def test_another_replicaset_under_the_name_raises_the_collision_count():
    web = deployment()
    controller = of(Deployments)
    (made,) = only(Create, decide(controller, KEY, [web]))
    other = workload("ReplicaSet", made.document["metadata"]["name"], labels={"app": "other"})
    actions = decide(controller, KEY, [web, other])
    assert (only(Create, actions), only(Patch, actions)[0].patch) == ([], {"status": {"collisionCount": 1}})


def test_a_refused_replicaset_is_told_and_noted():
    from weir.controllers.runtime.listers import Listers

    web = deployment()
    controller = of(Deployments)
    listers = Listers.of([web], controller.kinds)
    record, patch = controller.create_refused(KEY, "quota", listers, T0)
    assert (type(record), record.reason, patch.patch["status"]["conditions"][0]["reason"]) == (
        Record,
        "ReplicaSetCreateError",
        "ReplicaSetCreateError",
    )


def test_old_replicasets_beyond_the_limit_go_once_the_rollout_is_over():
    counts = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "observedGeneration": 1}
    web = deployment("web:9", replicas=1, revisionHistoryLimit=2, status=counts)
    old = [replicaset(web, f"rs{n}", f"web:{n}", 0, revision=n, desired=1) for n in range(1, 6)]
    new = replicaset(web, "new", "web:9", 1, revision=9, desired=1)
    gone = [d.name for d in only(Delete, decide(of(Deployments), KEY, [web, *old, new]))]
    assert gone == ["rs1", "rs2", "rs3"]
