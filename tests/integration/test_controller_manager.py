"""Several controller managers: one acts, another takes over; and what each says of itself."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.integration.living import PODS, living
from tests.integration.test_workloads import web
from weir.controllers.catalog import choose
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.runner import Controllers
from weir.gates import ALL_FEATURES
from weir.objects.kinds import DEPLOYMENTS
from weir.objects.kinds import REPLICA_SETS as REPLICASETS
from weir.observe.endpoint import PageSite
from weir.observe.http_server import read_head
from weir.simulation.cluster import Cluster

LEASE = "weir-controller-manager"


def manager(cluster, identity):
    return Controllers(
        cluster.client_of(identity),
        cluster.clock,
        choose(["deployment", "replicaset"], ALL_FEATURES),
        identity=identity,
        lease_name=LEASE,
    )


async def status(controllers, path):
    head = read_head(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    return (await PageSite(controllers.pages()).answer(head, b"")).status


def elected(controllers):
    return controllers.metrics.elected.child(LEASE).value


async def test_only_one_acts_and_the_other_takes_over_when_it_leaves():
    async with living() as cluster:
        first, second = manager(cluster, "first"), manager(cluster, "second")
        running = asyncio.ensure_future(first.run())
        await cluster.advance(1)
        cluster.start(second)
        await cluster.advance(5)
        at_first = (elected(first), elected(second))
        await cluster.client.create(DEPLOYMENTS, web(2))
        await cluster.advance(5)
        (made,) = await cluster.all(REPLICASETS)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await cluster.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, "default")
        await cluster.advance(60)
        pods = len(await cluster.all(PODS))
        assert (at_first, made["spec"]["replicas"], elected(first), elected(second), pods) == (
            (1, 0),
            2,
            0,
            1,
            5,
        )


async def test_one_that_waits_to_be_elected_is_well_and_one_that_acts_knows_everything():
    async with living() as cluster:
        alone = manager(cluster, "first")
        before = [await status(alone, path) for path in ("/healthz", "/livez")]
        cluster.start(alone)
        await cluster.advance(5)
        after = [await status(alone, path) for path in ("/readyz", "/metrics", "/other")]
        assert (before, after) == ([200, 200], [200, 200, 404])


@pytest.fixture(scope="module")
def page():
    """What is served after everything that is counted has happened once."""
    entry = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}
    template = {
        "metadata": {"annotations": {"weir.dev/exit-code": "3"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    fine = {**template, "metadata": {}}
    with Cluster(nodes=1) as cluster:
        policy = {"podFailurePolicy": {"rules": [entry]}, "activeDeadlineSeconds": 60}
        job = {"apiVersion": "batch/v1", "kind": "Job"}
        cron = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": fine}}}
        cluster.apply(
            {**job, "metadata": {"name": "ignored"}, "spec": {"template": template, **policy}},
            {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cron"}, "spec": cron},
            web(1),
        )
        cluster.advance(180)
        return cluster.plane.controllers.metrics.registry.render().decode()


@pytest.mark.parametrize(
    "sample",
    [
        'job_controller_jobs_finished_total{completion_mode="NonIndexed",result="succeeded",reason="CompletionsReached"}',
        'job_controller_jobs_finished_total{completion_mode="NonIndexed",result="failed",reason="DeadlineExceeded"}',
        'job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="succeeded"}',
        'job_controller_pod_failures_handled_by_failure_policy_total{action="Ignore"}',
        "cronjob_controller_job_creation_skew_duration_seconds_count",
        'workqueue_adds_total{name="job-controller"}',
        'weir_controllers_reconciles_total{controller="job-controller",outcome="done"}',
    ],
)
def test_the_metric_moves(page, sample):
    (value,) = re.findall(rf"^{re.escape(sample)} (\S+)$", page, re.M)
    assert float(value) > 0


def test_the_reference_page_lists_every_metric():
    written = Path(__file__).parents[2] / "docs" / "reference" / "metrics-controllers.md"
    assert written.read_text().endswith(ControllerMetrics().registry.reference())
