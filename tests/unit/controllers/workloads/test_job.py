"""Jobs: counting, policies, indexes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.unit.controllers.builders import SECOND, T0, decide, made, of, only, pod, printed
from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Create, Delete, Patch, Record, WakeAt
from weir.controllers.workloads.job import GoneJobKey, Jobs, TrackedPodKey, TtlAfterFinished
from weir.controllers.workloads.job_policies import parse_indexes, print_indexes
from weir.controllers.workloads.job_sync import JOBS
from weir.controllers.workloads.job_tracking import FINALIZER
from weir.objects.kinds import PODS

KEY = ObjectKey("default", "sum")
LABELS = {"controller-uid": "1"}


def job(status=None, metadata=None, template=None, **spec):
    found = made(
        "Job",
        "sum",
        spec={
            "selector": {"matchLabels": LABELS},
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "template": template
            or {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
            **spec,
        },
        status=status or {},
    )
    found["metadata"].update(metadata or {})
    return found


def of_job(owner, name, phase="Succeeded", *, index=None, exit_code=None, tracked=True, at=T0, **more):
    notes = {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)}
    notes |= more.pop("notes", {})
    metadata = {
        "finalizers": [FINALIZER] if tracked else [],
        "annotations": notes,
        **more.pop("metadata", {}),
    }
    code = exit_code if exit_code is not None else (0 if phase == "Succeeded" else 1)
    ended = {"terminated": {"exitCode": code, "finishedAt": printed(at)}}
    state = ended if phase in ("Succeeded", "Failed") else {"running": {}}
    return pod(
        name, owner=owner, labels=LABELS, phase=phase, ready=phase == "Running", metadata=metadata,
        status={"containerStatuses": [{"name": "c", "state": state}], **more.pop("status", {})}, **more,
    )  # fmt: skip


def status(actions):
    (found,) = [p.patch["status"] for p in only(Patch, actions) if p.kind is JOBS]
    return found


def conditions(actions):
    return {c["type"]: c["reason"] for c in status(actions).get("conditions") or ()}


def released(actions):
    return [
        p.name
        for p in only(Patch, actions)
        if p.kind is PODS and "$deleteFromPrimitiveList/finalizers" in p.patch["metadata"]
    ]


def started(actions):
    return [c for c in only(Create, actions) if c.kind is PODS]


# ── counting ─────────────────────────────────────────────────────────────────────────────────────


def test_pods_are_made_with_the_finalizer():
    (one,) = started(decide(of(Jobs), KEY, [job()]))
    assert one.document["metadata"]["finalizers"] == [FINALIZER]


def test_an_ended_pod_is_written_down_before_its_finalizer_goes():
    sum_ = job()
    actions = decide(of(Jobs), KEY, [sum_, of_job(sum_, "p")])
    order = [a.kind.kind for a in only(Patch, actions)]
    assert (order, status(actions)["uncountedTerminatedPods"]["succeeded"], released(actions)) == (
        ["Job", "Pod"],
        ["uid-p"],
        ["p"],
    )


def test_what_lost_its_finalizer_is_counted_once():
    sum_ = job(status={"uncountedTerminatedPods": {"succeeded": ["uid-p"]}, "startTime": printed()})
    actions = decide(of(Jobs), KEY, [sum_, of_job(sum_, "p", tracked=False)])
    assert (status(actions)["succeeded"], status(actions)["uncountedTerminatedPods"]["succeeded"]) == (
        1,
        None,
    )


def test_a_counted_pod_that_is_removed_stays_counted():
    sum_ = job(status={"succeeded": 1, "startTime": printed()}, completions=2)
    actions = decide(of(Jobs), KEY, [sum_])
    assert (len(started(actions)), status(actions)["succeeded"]) == (1, 1)


def test_the_end_is_told_only_when_every_pod_is_counted():
    sum_ = job()
    first = decide(of(Jobs), KEY, [sum_, of_job(sum_, "p")])
    assert conditions(first) == {"SuccessCriteriaMet": "CompletionsReached"}


def test_then_the_job_is_complete():
    decided = {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached", "message": "m"}
    sum_ = job(status={"conditions": [decided], "uncountedTerminatedPods": {"succeeded": ["uid-p"]}})
    actions = decide(of(Jobs), KEY, [sum_, of_job(sum_, "p", tracked=False)])
    assert (conditions(actions)["Complete"], [r.reason for r in only(Record, actions)]) == (
        "CompletionsReached",
        ["Completed"],
    )


def test_the_status_names_the_version_it_was_made_from():
    (patch,) = [p for p in only(Patch, decide(of(Jobs), KEY, [job()])) if p.kind is JOBS]
    assert patch.patch["metadata"] == {"resourceVersion": "1"}


def test_a_job_that_is_gone_leaves_no_finalizers():
    sum_ = job()
    assert released(decide(of(Jobs), GoneJobKey("uid-sum"), [of_job(sum_, "p")])) == ["p"]


def test_a_pod_that_was_let_go_leaves_its_finalizer():
    assert released(decide(of(Jobs), TrackedPodKey("default", "p"), [of_job(None, "p")])) == ["p"]


def test_a_job_being_deleted_lets_its_pods_go():
    sum_ = job(metadata={"deletionTimestamp": printed()})
    actions = decide(of(Jobs), KEY, [sum_, of_job(sum_, "p", "Running")])
    assert (released(actions), started(actions)) == (["p"], [])


def test_an_unowned_pod_is_adopted_with_the_finalizer():
    actions = decide(of(Jobs), KEY, [job(), of_job(None, "p", "Running", tracked=False)])
    (patch,) = [p for p in only(Patch, actions) if p.kind is PODS]
    assert (patch.patch["metadata"]["finalizers"], started(actions)) == ([FINALIZER], [])


# ── failing ──────────────────────────────────────────────────────────────────────────────────────


def test_a_failed_pod_is_replaced_after_a_pause():
    sum_ = job()
    failed = of_job(sum_, "p", "Failed")
    controller = of(Jobs)
    early = decide(controller, KEY, [sum_, failed], T0 + 5 * SECOND)
    late = decide(controller, KEY, [sum_, failed], T0 + 11 * SECOND)
    assert (started(early), [w.at for w in only(WakeAt, early)], len(started(late))) == (
        [],
        [T0 + 10 * SECOND],
        1,
    )


def test_a_success_ends_the_pauses():
    sum_ = job(completions=3, parallelism=3)
    pods = [of_job(sum_, "a", "Failed"), of_job(sum_, "b", at=T0 + SECOND)]
    assert len(started(decide(of(Jobs), KEY, [sum_, *pods], T0 + 2 * SECOND))) == 2


def test_too_many_failures_end_the_job_and_its_pods():
    sum_ = job(backoffLimit=0, completions=2, parallelism=2)
    pods = [of_job(sum_, "a", "Failed"), of_job(sum_, "b", "Running")]
    actions = decide(of(Jobs), KEY, [sum_, *pods])
    assert (conditions(actions), [d.name for d in only(Delete, actions)], sorted(released(actions))) == (
        {"FailureTarget": "BackoffLimitExceeded"},
        ["b"],
        ["a", "b"],
    )


def test_a_pod_being_deleted_counts_as_failed_and_is_replaced_at_once():
    sum_ = job()
    going = of_job(sum_, "p", "Running", metadata={"deletionTimestamp": printed(T0 - timedelta(minutes=1))})
    actions = decide(of(Jobs), KEY, [sum_, going])
    assert (status(actions)["uncountedTerminatedPods"]["failed"], len(started(actions))) == (["uid-p"], 1)


def test_with_the_policy_failed_it_is_replaced_when_it_is_gone():
    sum_ = job(podReplacementPolicy="Failed")
    going = of_job(sum_, "p", "Running", metadata={"deletionTimestamp": printed(T0 - timedelta(minutes=1))})
    actions = decide(of(Jobs), KEY, [sum_, going])
    assert (started(actions), status(actions)["terminating"]) == ([], 1)


def policy(action, **rule):
    return {"podFailurePolicy": {"rules": [{"action": action, **rule}]}, "podReplacementPolicy": "Failed"}


EXIT_42 = {"onExitCodes": {"operator": "In", "values": [42]}}
DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_a_policy_fails_the_job_on_an_exit_code():
    sum_ = job(**policy("FailJob", **EXIT_42))
    actions = decide(of(Jobs), KEY, [sum_, of_job(sum_, "p", "Failed", exit_code=42)])
    (condition,) = status(actions)["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "PodFailurePolicy",
        "Container c for pod default/p failed with exit code 42 matching FailJob rule at index 0",
    )


def test_an_ignored_failure_does_not_count():
    sum_ = job(**policy("Ignore", **DISRUPTED), backoffLimit=0)
    disrupted = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    actions = decide(of(Jobs), KEY, [sum_, of_job(sum_, "p", "Failed", status=disrupted)], T0 + 60 * SECOND)
    assert (conditions(actions), status(actions)["failed"], len(started(actions)), released(actions)) == (
        {},
        None,
        1,
        ["p"],
    )


def test_another_exit_code_counts():
    sum_ = job(**policy("Ignore", **EXIT_42), backoffLimit=0)
    actions = decide(of(Jobs), KEY, [sum_, of_job(sum_, "p", "Failed", exit_code=1)])
    assert conditions(actions) == {"FailureTarget": "BackoffLimitExceeded"}


def test_restarts_count_where_containers_are_restarted():
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i"}]}}
    sum_ = job(backoffLimit=3, template=template)
    running = of_job(sum_, "p", "Running", status={"containerStatuses": [{"name": "c", "restartCount": 3}]})
    assert conditions(decide(of(Jobs), KEY, [sum_, running])) == {"FailureTarget": "BackoffLimitExceeded"}


def test_a_deadline_counts_from_the_start_and_is_waited_for():
    sum_ = job(activeDeadlineSeconds=30, status={"startTime": printed()})
    running = of_job(sum_, "p", "Running")
    before = decide(of(Jobs), KEY, [sum_, running], T0 + 10 * SECOND)
    after = decide(of(Jobs), KEY, [sum_, running], T0 + 30 * SECOND)
    assert ([w.at for w in only(WakeAt, before)], conditions(after)) == (
        [T0 + 30 * SECOND],
        {"FailureTarget": "DeadlineExceeded"},
    )


# ── indexes ──────────────────────────────────────────────────────────────────────────────────────


def indexed(**spec):
    return job(**{"completions": 3, "parallelism": 3, "completionMode": "Indexed", **spec})


def test_every_index_has_a_pod_that_knows_it():
    pods = started(decide(of(Jobs), KEY, [indexed()]))
    document = pods[1].document
    (variable,) = document["spec"]["containers"][0]["env"]
    assert (
        len(pods),
        document["metadata"]["generateName"],
        document["spec"]["hostname"],
        variable["name"],
    ) == (
        3,
        "sum-1-",
        "sum-1",
        "JOB_COMPLETION_INDEX",
    )


def test_a_second_pod_of_an_index_goes_and_is_not_counted():
    sum_ = indexed()
    pods = [of_job(sum_, name, "Running", index=0) for name in ("a", "b")]
    actions = decide(of(Jobs), KEY, [sum_, *pods])
    assert (len(only(Delete, actions)), len(released(actions)), started(actions)) == (1, 1, [])


def test_an_index_fails_by_itself_after_its_own_limit():
    sum_ = indexed(backoffLimitPerIndex=1, backoffLimit=100)
    again = {"batch.kubernetes.io/job-index-failure-count": "1"}
    pods = [
        of_job(sum_, "a", index=0),
        of_job(sum_, "b", "Failed", index=1, notes=again),
        of_job(sum_, "c", "Running", index=2),
    ]
    actions = decide(of(Jobs), KEY, [sum_, *pods])
    assert (status(actions)["failedIndexes"], status(actions)["completedIndexes"], conditions(actions)) == (
        "1",
        "0",
        {},
    )


def test_a_replacement_carries_the_failures_of_its_index_on():
    sum_ = indexed(backoffLimitPerIndex=3, backoffLimit=100, completions=1, parallelism=1)
    failed = of_job(sum_, "a", "Failed", index=0)
    early = decide(of(Jobs), KEY, [sum_, failed], T0 + SECOND)
    late = decide(of(Jobs), KEY, [sum_, failed], T0 + 20 * SECOND)
    (next_one,) = started(late)
    count = next_one.document["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
    assert (released(early), started(early), count) == ([], [], "1")


def test_a_job_with_failed_indexes_fails_when_all_have_ended():
    sum_ = indexed(backoffLimitPerIndex=0, backoffLimit=100, completions=2)
    pods = [of_job(sum_, "a", index=0), of_job(sum_, "b", "Failed", index=1)]
    assert conditions(decide(of(Jobs), KEY, [sum_, *pods])) == {"FailureTarget": "FailedIndexes"}


def test_more_failed_indexes_than_allowed_end_the_job_early():
    sum_ = indexed(backoffLimitPerIndex=0, maxFailedIndexes=0, backoffLimit=100)
    pods = [of_job(sum_, "a", "Running", index=0), of_job(sum_, "b", "Failed", index=1)]
    assert conditions(decide(of(Jobs), KEY, [sum_, *pods])) == {"FailureTarget": "MaxFailedIndexesExceeded"}


@pytest.mark.parametrize(
    "rule, done",
    [({"succeededIndexes": "0"}, True), ({"succeededCount": 2}, False), ({"succeededIndexes": "0-1"}, False)],
)
def test_a_success_policy_ends_the_job_as_a_success(rule, done):
    sum_ = indexed(successPolicy={"rules": [rule]})
    pods = [of_job(sum_, "a", index=0), of_job(sum_, "b", "Running", index=1)]
    actions = decide(of(Jobs), KEY, [sum_, *pods])
    expected = ({"SuccessCriteriaMet": "SuccessPolicy"}, ["b"]) if done else ({}, [])
    assert (conditions(actions), [d.name for d in only(Delete, actions)]) == expected


def test_indexes_are_read_as_they_are_printed():
    from hypothesis import given
    from hypothesis import strategies as st

    @given(st.frozensets(st.integers(0, 60)))
    def holds(indexes):
        assert parse_indexes(print_indexes(indexes), 61) == indexes

    holds()


# ── suspending, living on ────────────────────────────────────────────────────────────────────────


def test_suspending_removes_pods_without_counting_them():
    sum_ = job(suspend=True)
    actions = decide(of(Jobs), KEY, [sum_, of_job(sum_, "p", "Running")])
    order = [type(a).__name__ for a in actions if getattr(a, "kind", None) is PODS]
    assert (order, status(actions)["failed"], conditions(actions)) == (
        ["Patch", "Delete"],
        None,
        {"Suspended": "JobSuspended"},
    )


def test_resuming_begins_the_deadline_anew():
    suspended = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended",
                 "lastTransitionTime": printed(T0 - timedelta(hours=1))}  # fmt: skip
    actions = decide(of(Jobs), KEY, [job(status={"conditions": [suspended]})])
    assert status(actions)["startTime"] == printed(T0)


def test_a_job_of_another_manager_is_left_alone():
    assert decide(of(Jobs), KEY, [job(managedBy="example.com/other")]) == []


def test_a_finished_job_goes_when_its_time_is_over():
    ended = {"type": "Complete", "status": "True", "lastTransitionTime": printed()}
    sum_ = job(status={"conditions": [ended]}, ttlSecondsAfterFinished=60)
    key, controller = ObjectKey("default", "sum"), of(TtlAfterFinished)
    (wake,) = decide(controller, key, [sum_], T0 + 10 * SECOND)
    (gone,) = decide(controller, key, [sum_], T0 + 60 * SECOND)
    assert (wake.at, type(gone), gone.propagation_policy) == (T0 + 60 * SECOND, Delete, "Foreground")
