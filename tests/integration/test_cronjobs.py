"""CronJobs in a whole cluster under virtual time."""

from __future__ import annotations

import pytest

from weir.simulation.cluster import Cluster


@pytest.fixture
def cluster():
    with Cluster(nodes=1) as cluster:
        cluster.advance(5)
        yield cluster


def cron(annotations=None, **spec):
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    template = {"spec": {"template": {"metadata": {"annotations": annotations or {}}, "spec": pod}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": template, **spec},
    }


def test_a_job_starts_at_every_time_and_only_the_last_three_are_kept(cluster):
    cluster.apply(cron())
    cluster.advance(3600 + 60)
    jobs = cluster.list("Job")
    told = [e["message"] for e in cluster.events("SuccessfulCreate") if "Created job" in e["message"]]
    assert (len(jobs), len(told), cluster.get("CronJob", "tick")["status"]["lastScheduleTime"]) == (
        3,
        6,
        "2026-01-01T01:00:00Z",
    )


def test_forbid_waits_for_the_one_that_runs(cluster):
    cluster.apply(cron({"weir.dev/run-seconds": "900"}, concurrencyPolicy="Forbid"))
    cluster.advance(1230)
    assert len(cluster.list("Job")) == 1


def test_replace_ends_the_one_that_runs(cluster):
    cluster.apply(cron({"weir.dev/run-seconds": "900"}, concurrencyPolicy="Replace"))
    cluster.advance(610)
    (first,) = cluster.list("Job")
    cluster.advance(620)
    (second,) = cluster.list("Job")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


def test_a_suspended_cronjob_starts_nothing(cluster):
    cluster.apply(cron(suspend=True))
    cluster.advance(3600)
    assert cluster.list("Job") == []


def test_a_time_zone_counts(cluster):
    cluster.apply(cron(schedule="0 9 * * *", timeZone="Asia/Tokyo"))
    cluster.advance(3600)
    assert cluster.get("CronJob", "tick")["status"].get("lastScheduleTime") is None


def test_a_job_made_by_hand_neither_runs_for_the_cronjob_nor_keeps_it_waiting(cluster):
    cluster.apply(cron(concurrencyPolicy="Forbid"))
    owner = cluster.get("CronJob", "tick")
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "by-hand",
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "CronJob",
                    "name": "tick",
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {**owner["spec"]["jobTemplate"]["spec"], "suspend": True},
    }
    cluster.apply(job)
    cluster.advance(597)
    told = {e["reason"] for e in cluster.events() if e["involvedObject"]["kind"] == "CronJob"}
    active = [each["name"] for each in cluster.get("CronJob", "tick")["status"]["active"]]
    assert (len(active), "by-hand" in active, told) == (1, False, {"UnexpectedJob", "SuccessfulCreate"})


def test_the_time_a_job_was_due_is_told_in_the_zone_asked_for(cluster):
    cluster.apply(cron(timeZone="Europe/Berlin"))
    cluster.advance(601)
    (job,) = cluster.list("Job")
    told = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert told == "2026-01-01T01:10:00+01:00"
