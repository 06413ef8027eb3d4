"""Jobs in a whole cluster under virtual time."""

from __future__ import annotations

import pytest

from weir.simulation.cluster import Cluster


@pytest.fixture
def cluster():
    with Cluster(nodes=2) as cluster:
        cluster.advance(5)
        yield cluster


def job(annotations=None, **spec):
    template = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sum"},
        "spec": {"template": template, **spec},
    }


def conditions(cluster):
    found = cluster.get("Job", "sum")["status"].get("conditions") or ()
    return {c["type"]: c["reason"] for c in found if c["status"] == "True"}


def test_a_job_completes(cluster):
    cluster.apply(job(completions=3, parallelism=2))
    cluster.advance(60)
    status = cluster.get("Job", "sum")["status"]
    assert (status["succeeded"], "completionTime" in status, conditions(cluster)) == (
        3,
        True,
        {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"},
    )


def test_no_more_than_parallelism_run_at_once(cluster):
    cluster.apply(job(completions=5, parallelism=2))
    most = 0
    for _ in range(60):
        cluster.advance(0.5)
        most = max(most, sum(p["status"]["phase"] in ("Pending", "Running") for p in cluster.list("Pod")))
    assert most == 2


def test_a_job_whose_pods_fail_gives_up_after_its_limit(cluster):
    cluster.apply(job({"weir.dev/exit-code": "1"}, backoffLimit=2))
    cluster.advance(600)
    assert (len(cluster.list("Pod")), conditions(cluster)["Failed"]) == (3, "BackoffLimitExceeded")


def test_failed_pods_are_replaced_after_growing_pauses(cluster):
    cluster.apply(job({"weir.dev/exit-code": "1"}, backoffLimit=6))
    cluster.advance(12)
    early = len(cluster.list("Pod"))
    cluster.advance(10)
    assert (early, len(cluster.list("Pod"))) == (1, 2)


def test_a_deadline_ends_a_job(cluster):
    cluster.apply(job({"weir.dev/run-seconds": "1000"}, activeDeadlineSeconds=30))
    cluster.advance(40)
    running = [p for p in cluster.list("Pod") if not p["metadata"].get("deletionTimestamp")]
    assert (conditions(cluster)["Failed"], running) == ("DeadlineExceeded", [])


def test_a_suspended_job_has_no_pods_until_it_is_resumed(cluster):
    cluster.apply(job(suspend=True))
    cluster.advance(10)
    before = (cluster.list("Pod"), conditions(cluster))
    cluster.patch("Job", "sum", {"spec": {"suspend": False}})
    cluster.advance(30)
    assert (before, "Complete" in conditions(cluster)) == (([], {"Suspended": "JobSuspended"}), True)


def test_an_indexed_job_runs_every_index_once(cluster):
    cluster.apply(job(completions=4, parallelism=2, completionMode="Indexed"))
    cluster.advance(60)
    status = cluster.get("Job", "sum")["status"]
    assert (status["completedIndexes"], len(cluster.list("Pod"))) == ("0-3", 4)


def test_a_finished_job_goes_when_its_time_to_live_is_over(cluster):
    cluster.apply(job(ttlSecondsAfterFinished=100))
    cluster.advance(60)
    before = cluster.get("Job", "sum")
    cluster.advance(120)
    assert (before is not None, cluster.get("Job", "sum"), cluster.list("Pod")) == (True, None, [])


def commanded(*command, **spec):
    """Return a Job whose containers run a command."""
    made = job(**spec)
    container = {"name": "c", "image": "busybox", "command": list(command)}
    made["spec"]["template"]["spec"]["containers"] = [container]
    return made


def test_a_command_that_fails_fails_its_job(cluster):
    cluster.apply(commanded("/bin/sh", "-c", "exit 1", backoffLimit=0))
    cluster.advance(60)
    assert conditions(cluster)["Failed"] == "BackoffLimitExceeded"


def test_a_failure_that_a_policy_ignores_does_not_count(cluster):
    made = commanded("sh", "-c", "exit 42", backoffLimit=0)
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}
    made["spec"]["podFailurePolicy"] = {"rules": [rule]}
    cluster.apply(made)
    cluster.advance(60)
    assert ("Failed" in conditions(cluster), len(cluster.list("Pod")) > 1) == (False, True)


def test_an_exit_code_that_a_policy_names_fails_the_job_early(cluster):
    made = commanded("sh", "-c", "sleep 2; exit 3", backoffLimit=6)
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}
    made["spec"]["podFailurePolicy"] = {"rules": [rule]}
    cluster.apply(made)
    cluster.advance(60)
    assert (len(cluster.list("Pod")), conditions(cluster)["Failed"]) == (1, "PodFailurePolicy")


def test_what_a_container_prints_can_be_read(cluster):
    command = ["sh", "-c", "echo hello; sleep 30; echo later; exit 3"]
    container = {"name": "c", "image": "busybox", "command": command}
    spec = {"restartPolicy": "Never", "containers": [container]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talks"}, "spec": spec})
    path = "/api/v1/namespaces/default/pods/talks/log"
    cluster.advance(10)
    early = cluster._do(cluster.client.call("GET", path))
    cluster.advance(60)
    assert (early, cluster._do(cluster.client.call("GET", path))) == (b"hello\n", b"hello\nlater\n")
    assert (
        cluster.get("Pod", "talks")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    )


def test_declared_output_and_message_are_shown(cluster):
    annotations = {"weir.dev/output": "no space left\n", "weir.dev/termination-message": "disk full"}
    metadata = {"name": "declared", "annotations": {**annotations, "weir.dev/exit-code": "28"}}
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/work"}]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    cluster.advance(30)
    path = "/api/v1/namespaces/default/pods/declared/log"
    assert cluster._do(cluster.client.call("GET", path)) == b"no space left\n"
    (status,) = cluster.get("Pod", "declared")["status"]["containerStatuses"]
    terminated = status["state"]["terminated"]
    assert (terminated["exitCode"], terminated["message"]) == (28, "disk full")


def test_a_container_waits_for_its_configmap(cluster):
    source = {"configMapKeyRef": {"name": "late", "key": "code"}}
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", "exit 7"]}
    container["env"] = [{"name": "CODE", "valueFrom": source}]
    spec = {"restartPolicy": "Never", "containers": [container]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waits"}, "spec": spec})
    cluster.advance(10)
    (status,) = cluster.get("Pod", "waits")["status"]["containerStatuses"]
    assert status["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'configmap "late" not found',
    }
    cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {"code": "7"}}
    )
    cluster.advance(10)
    (status,) = cluster.get("Pod", "waits")["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 7
