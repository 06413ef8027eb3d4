"""Every metric of the scheduler moves when what it counts happens: one scheduler, one busy minute, one look each."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.integration.test_scheduler import PODS, a_cluster, taint
from weir.objects.kinds import by_kind
from weir.scheduler.metrics import SchedulerMetrics

#: There are no devices here; tests/integration/test_claims.py sees these move.
OF_CLAIMS = {
    "dynamic_resource_allocation_resourceclaim_creates_total",
    "scheduler_dra_bindingconditions_allocations_total",
    "scheduler_dra_bindingconditions_wait_duration_seconds",
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The metrics page after pods were placed, refused, gated, woken, preempted for and given volumes."""

    async def busy(folder):
        async with a_cluster(folder) as cluster:
            await cluster.node("n", [taint("sla", "950")], cpu="2")
            await cluster.node("odd", [taint("sla", "high")])
            numeric = [{"key": "sla", "operator": "Gt", "value": "900"}]
            for number in range(12):
                await cluster.pod(f"placed-{number}", cpu="50m", tolerations=numeric)
                await cluster.placed(f"placed-{number}")
            await cluster.pod("refused")
            await cluster.refused("refused")
            await cluster.taint("n", taint("sla", "950"), taint("more"))  # helps nobody: a hint says no
            await cluster.taint("n", taint("sla", "950"))
            await cluster.pod("gated", schedulingGates=[{"name": "x"}])
            await cluster.client.create(
                by_kind("scheduling.k8s.io/v1", "PriorityClass"), {"metadata": {"name": "high"}, "value": 9}
            )
            await cluster.pod("important", cpu="1900m", tolerations=numeric, priorityClassName="high")
            await cluster.refused("important")
            await cluster.client.create(
                by_kind("storage.k8s.io/v1", "StorageClass"),
                {"metadata": {"name": "w"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"},
            )

            def broken(pod, name, node, uid=""):
                raise OSError("no route to host")

            writing = cluster.scheduler._writing
            writing.bind, bind = broken, writing.bind
            await cluster.pod("unlucky", cpu="0", tolerations=numeric)

            async def failed():
                return "SchedulerError" in str(await cluster.client.get(PODS, "unlucky", "default"))

            await cluster.until(failed)
            writing.bind = bind
            await cluster.pod("waiting", tolerations=[{"key": "no"}], cpu="0")
            await cluster.refused("waiting")
            return cluster.scheduler.pages()["/metrics"]().body.decode()

    return asyncio.run(busy(tmp_path_factory.mktemp("metrics")))


@pytest.mark.proves("5471-104", "5471-113", "5471-116", "5721-123", "5721-124", "5500-104")
@pytest.mark.parametrize(
    "sample",
    [
        'scheduler_schedule_attempts_total{result="scheduled",profile="default-scheduler"}',
        'scheduler_schedule_attempts_total{result="unschedulable",profile="default-scheduler"}',
        'scheduler_schedule_attempts_total{result="error",profile="default-scheduler"}',
        'scheduler_scheduling_attempt_duration_seconds_count{result="scheduled",profile="default-scheduler"}',
        "scheduler_scheduling_algorithm_duration_seconds_count",
        'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"}',
        "scheduler_pod_scheduling_attempts_count",
        'scheduler_pending_pods{queue="unschedulable"}',
        'scheduler_pending_pods{queue="gated"}',
        'scheduler_queue_incoming_pods_total{queue="active",event="UnscheduledPodAdd"}',
        'scheduler_queue_incoming_pods_total{queue="unschedulable",event="ScheduleAttemptFailure"}',
        'scheduler_queue_incoming_pods_total{queue="gated",event="UnscheduledPodAdd"}',
        'scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter",status="Success",'
        'profile="default-scheduler"}',
        'scheduler_framework_extension_point_duration_seconds_count{extension_point="Bind",status="Success",'
        'profile="default-scheduler"}',
        'scheduler_framework_extension_point_duration_seconds_count{extension_point="PostFilter",status="Success",'
        'profile="default-scheduler"}',
        'scheduler_plugin_execution_duration_seconds_count{plugin="TaintToleration",extension_point="Filter",'
        'status="Success"}',
        'scheduler_plugin_evaluation_total{plugin="TaintToleration",extension_point="Filter",'
        'profile="default-scheduler",status="Success"}',
        'scheduler_plugin_evaluation_total{plugin="TaintToleration",extension_point="Filter",'
        'profile="default-scheduler",status="UnschedulableAndUnresolvable"}',
        'scheduler_plugin_evaluation_total{plugin="NodeResourcesFit",extension_point="Score",'
        'profile="default-scheduler",status="Success"}',
        'scheduler_unschedulable_pods{plugin="TaintToleration",profile="default-scheduler"}',
        "scheduler_preemption_attempts_total",
        "scheduler_preemption_victims_count",
        'scheduler_event_handling_duration_seconds_count{event="NodeUpdateNodeTaint"}',
        'scheduler_queueing_hint_execution_duration_seconds_count{plugin="TaintToleration",'
        'event="NodeUpdateNodeTaint",hint="QueueSkip"}',
        'scheduler_cache_size{type="nodes"}',
        'scheduler_cache_size{type="pods"}',
        'scheduler_numeric_taint_evaluations_total{operator="Gt",result="match",profile="default-scheduler"}',
        'scheduler_numeric_taint_evaluations_total{operator="Gt",result="parse_error",profile="default-scheduler"}',
        'scheduler_numeric_tolerations_total{profile="default-scheduler"}',
    ],
)
def test_the_metric_moves(page, sample):
    (value,) = re.findall(rf"^{re.escape(sample)} (\S+)$", page, re.M)
    assert float(value) > 0


def test_every_metric_declared_is_on_the_page(page):
    names = set(re.findall(r"^# TYPE (\S+)", page, re.M))
    moved = {
        re.sub(r"(_count|_sum|_bucket)?(\{.*)? \S+$", "", line)
        for line in page.splitlines()
        if line[0:1] != "#"
    }
    assert names - moved == OF_CLAIMS


def test_the_reference_page_lists_every_metric():
    written = Path(__file__).parents[3] / "docs" / "reference" / "metrics-scheduler.md"
    assert written.read_text().endswith(SchedulerMetrics().registry.reference())
