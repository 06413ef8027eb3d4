"""Pods end as Kubernetes ends them: what is written in which order, and what follows from it."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.living import NODES, PODS, living
from tests.integration.test_scheduler_faults import HEADERS, a_server
from weir.apiserver.transport.http import Request
from weir.client.api import Client
from weir.client.cache import Informer, decode_document
from weir.client.local import LocalTransport
from weir.clock import RealClock
from weir.gates import ALL_FEATURES
from weir.objects.kinds import by_kind
from weir.objects.times import format_time
from weir.simulation.cluster import Cluster
from weir.simulation.kubelet.node_classes import NodeClass, node_document
from weir.simulation.kubelet.run import Kubelets


@pytest.fixture
def cluster():
    with Cluster(nodes=2) as cluster:
        cluster.advance(5)
        yield cluster


def pod(name="p", annotations=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {f"weir.dev/{k}": v for k, v in (annotations or {}).items()},
        },
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


class Writes:
    """Every version of the pods that a watcher sees, in a few words."""

    def __init__(self, cluster):
        self.seen, self._cluster, self._began = [], cluster, cluster.now
        cluster.follow("Pod", self._look)

    def _look(self, old, new):
        at = (self._cluster.now - self._began).total_seconds()
        if new is None:
            self.seen.append((at, "gone"))
            return
        status = new["status"]
        states = []
        for part in ("initContainerStatuses", "containerStatuses"):
            for each in status.get(part) or ():
                ((state, detail),) = each["state"].items()
                states.append(
                    f"{each['name']} {detail.get('reason') or state} {detail.get('exitCode', '')}".strip()
                )
        conditions = [c["type"] for c in status.get("conditions") or () if c["status"] == "True"]
        deleting = "deleting " if new["metadata"].get("deletionTimestamp") else ""
        self.seen.append((at, f"{deleting}{status['phase']}", states, conditions))


@pytest.mark.proves("5055-28")
def test_the_order_of_status_writes_from_creation_to_deletion(cluster):
    """A kubelet's documented sequence: pending, containers created, running, terminated, and only then gone."""
    writes = Writes(cluster)
    stop = {"stop-seconds": "3", "run-seconds.setup": "2"}
    cluster.create(pod(annotations=stop, initContainers=[{"name": "setup", "image": "i"}]))
    cluster.advance(10)
    cluster.delete("Pod", "p")
    cluster.advance(10)
    pending = ["setup PodInitializing", "c PodInitializing"]
    assert writes.seen == [
        (0.0, "Pending", [], []),
        (0.0, "Pending", [], ["PodScheduled"]),
        (0.0, "Pending", pending, ["PodScheduled"]),
        (
            1.0,
            "Pending",
            ["setup running", "c PodInitializing"],
            ["PodReadyToStartContainers", "PodScheduled"],
        ),
        (
            3.0,
            "Running",
            ["setup Completed 0", "c running"],
            ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"],
        ),
        (
            10.0,
            "deleting Running",
            ["setup Completed 0", "c running"],
            ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"],
        ),
        (13.0, "deleting Succeeded", ["setup Completed 0", "c Completed 0"], ["Initialized", "PodScheduled"]),
        # the kubelet's deletion with a grace period of 0 is an update before the object goes
        (13.0, "deleting Succeeded", ["setup Completed 0", "c Completed 0"], ["Initialized", "PodScheduled"]),
        (13.0, "gone"),
    ]


async def looks_of_a_life(client, clock, wait):
    """Return what a watcher sees of one pod from its creation to its deletion, without the times."""
    document = pod(
        annotations={"run-seconds.setup": "0.2", "stop-seconds": "0.2"},
        initContainers=[{"name": "setup", "image": "i"}],
        nodeName="n",
        terminationGracePeriodSeconds=3,
    )
    seen, over = [], asyncio.Event()

    def look(old, new):
        if new is None:
            seen.append("gone")
            over.set()
            return
        states = [
            f"{each['name']} {next(iter(each['state']))}"
            for part in ("initContainerStatuses", "containerStatuses")
            for each in new["status"].get(part) or ()
        ]
        seen.append((bool(new["metadata"].get("deletionTimestamp")), new["status"]["phase"], *states))

    informer = Informer(client, PODS, clock, decode_document)
    informer.cache.listen(look)
    tasks = [asyncio.ensure_future(part.run()) for part in (Kubelets(client, ALL_FEATURES, clock), informer)]
    node = node_document("n", NodeClass(life={"startSeconds": 0.2}), (), {}, format_time(clock.now()))
    await client.create(NODES, node)
    await client.create(PODS, document, "default")
    await wait(lambda: any(each[1] == "Running" for each in seen))
    await client.delete(PODS, "p", "default")
    await wait(over.is_set)
    for task in tasks:
        task.cancel()
    return seen


async def test_virtual_and_real_time_show_the_same_life(tmp_path):
    async with living() as cluster:

        async def pass_time(happened):
            while not happened():
                await cluster.advance(0.1)

        virtual = await looks_of_a_life(cluster.client, cluster.clock, pass_time)

    async def wait(happened):
        async with asyncio.timeout(60):
            while not happened():
                await asyncio.sleep(0.02)

    async with a_server(tmp_path) as running:
        client = Client(LocalTransport(running.server.handle, Request, HEADERS))
        real = await looks_of_a_life(client, RealClock(), wait)
    assert (real, real[-1]) == (virtual, "gone")


def test_a_long_grace_period_passes_when_sigterm_is_ignored(cluster):
    cluster.create(pod(annotations={"stop-seconds": "ignore"}, terminationGracePeriodSeconds=600))
    cluster.advance(5)
    cluster.delete("Pod", "p")
    cluster.advance(590)
    still = cluster.get("Pod", "p")["status"]["phase"]
    cluster.advance(20)
    assert (still, cluster.get("Pod", "p")) == ("Running", None)


def test_a_forced_deletion_removes_the_object_at_once(cluster):
    cluster.create(pod(annotations={"stop-seconds": "ignore"}, terminationGracePeriodSeconds=600))
    cluster.advance(5)
    cluster._do(cluster.client.delete(by_kind("v1", "Pod"), "p", "default", grace_period_seconds=0))
    assert cluster.get("Pod", "p") is None


@pytest.mark.proves("5055-27")
def test_a_finalizer_keeps_the_object_but_not_the_containers(cluster):
    document = pod(restartPolicy="Never", annotations={"run-seconds": "1000"})
    document["metadata"]["finalizers"] = ["example.com/keep"]
    cluster.create(document)
    cluster.advance(5)
    cluster.delete("Pod", "p")
    cluster.advance(5)
    found = cluster.get("Pod", "p")
    (container,) = found["status"]["containerStatuses"]
    assert (found["status"]["phase"], container["state"]["terminated"]["exitCode"]) == ("Failed", 143)
    cluster.patch("Pod", "p", {"metadata": {"finalizers": None}})
    assert cluster.get("Pod", "p") is None


def test_a_pod_past_its_deadline_fails(cluster):
    cluster.create(pod(activeDeadlineSeconds=30))
    cluster.advance(40)
    status = cluster.get("Pod", "p")["status"]
    assert (status["phase"], status["reason"], [e["reason"] for e in cluster.events("DeadlineExceeded")]) == (
        "Failed",
        "DeadlineExceeded",
        ["DeadlineExceeded"],
    )


def test_readiness_gates_decide_on_ready(cluster):
    cluster.create(pod(readinessGates=[{"conditionType": "example.com/ok"}]))
    cluster.advance(5)

    def ready():
        found = {c["type"]: c for c in cluster.get("Pod", "p")["status"]["conditions"]}
        return found["Ready"]["status"], found["Ready"].get("reason"), found["ContainersReady"]["status"]

    before = ready()
    cluster.patch_status("Pod", "p", {"conditions": [{"type": "example.com/ok", "status": "True"}]})
    cluster.advance(1)
    assert (before, ready()) == (("False", "ReadinessGatesNotReady", "True"), ("True", None, "True"))


def test_an_image_that_cannot_be_pulled_leaves_the_pod_pending(cluster):
    cluster.create(pod(annotations={"image-pull": "fail"}))
    cluster.advance(20)
    status = cluster.get("Pod", "p")["status"]
    (container,) = status["containerStatuses"]
    assert (status["phase"], container["state"]["waiting"]["reason"]) == ("Pending", "ImagePullBackOff")


def test_an_annotation_that_cannot_be_used_is_reported(cluster):
    cluster.create(pod(annotations={"run-seconds": "soon"}))
    cluster.advance(5)
    (event,) = cluster.events("InvalidAnnotation")
    assert "weir.dev/run-seconds: 'soon' cannot be used" in event["message"]


# ── what follows for workloads ───────────────────────────────────────────────────────────────────


def job(**spec):
    tolerate = {"key": "failure-probability", "operator": "Lt", "value": "20", "effect": "NoExecute"}
    template = {
        "metadata": {"annotations": {"weir.dev/run-seconds": "300"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": [tolerate],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sum"},
        "spec": {"backoffLimit": 0, "template": template, **spec},
    }


IGNORE = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def test_a_job_pod_evicted_by_a_taint_fails_and_is_replaced():
    with Cluster() as cluster:
        cluster.add_node("a", taints=["failure-probability=5:NoExecute"])
        cluster.apply(job(podFailurePolicy=IGNORE, podReplacementPolicy="Failed"))
        cluster.advance(30)
        cluster.add_node("b", taints=["failure-probability=5:NoExecute"])
        cluster.taint("a", "failure-probability=25:NoExecute")
        cluster.advance(45)
        pods = [p for p in cluster.list("Pod") if p["status"]["phase"] == "Running"]
        assert [p["spec"]["nodeName"] for p in pods] == ["b"]
        cluster.advance(400)
        status = cluster.get("Job", "sum")["status"]
        assert (status.get("succeeded"), status.get("failed"), status.get("terminating")) == (1, None, 0)


def test_without_a_policy_the_evicted_pod_counts_as_failed():
    with Cluster() as cluster:
        cluster.add_node("a", taints=["failure-probability=5:NoExecute"])
        cluster.apply(job())
        cluster.advance(30)
        cluster.taint("a", "failure-probability=25:NoExecute")
        cluster.advance(45)
        status = cluster.get("Job", "sum")["status"]
        reasons = {c["type"]: c["reason"] for c in status["conditions"]}
        assert (status["failed"], reasons["Failed"]) == (1, "BackoffLimitExceeded")


def test_a_claim_of_an_evicted_job_pod_is_freed_and_the_rule_comes_to_rest():
    with Cluster() as cluster:
        cluster.add_node("a", node_class="gpu")
        claim = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
        cluster.apply(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "gpu", "namespace": "default"},
                "spec": claim,
            }
        )
        work = job(podFailurePolicy=IGNORE)
        inner = work["spec"]["template"]["spec"]
        inner["resourceClaims"] = [{"name": "g", "resourceClaimName": "gpu"}]
        cluster.apply(work)
        cluster.advance(20)
        held = cluster.get("ResourceClaim", "gpu")["status"]
        (result,) = held["allocation"]["devices"]["results"]
        cluster.apply(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceTaintRule",
                "metadata": {"name": "hot"},
                "spec": {
                    "deviceSelector": {"driver": result["driver"]},
                    "taint": {"key": "hot", "effect": "NoExecute"},
                },
            }
        )
        cluster.advance(60)
        status = cluster.get("ResourceClaim", "gpu")["status"]
        (condition,) = cluster.get("DeviceTaintRule", "hot")["status"]["conditions"]
        assert (status.get("reservedFor"), status.get("allocation"), condition["status"]) == (
            None,
            None,
            "False",
        )


# ── nodes, volumes, features ─────────────────────────────────────────────────────────────────────


def test_a_node_has_addresses_and_its_pods_show_them(cluster):
    cluster.create(pod())
    cluster.advance(5)
    found = cluster.get("Pod", "p")
    node = cluster.get("Node", found["spec"]["nodeName"])
    addresses = {each["type"]: each["address"] for each in node["status"]["addresses"]}
    assert (found["status"]["hostIP"], addresses["Hostname"]) == (
        addresses["InternalIP"],
        node["metadata"]["name"],
    )


def test_an_extended_resource_of_another_program_is_kept_and_can_be_allocated(cluster):
    cluster.patch_status("Node", "node-0", {"capacity": {"example.com/dongle": "2"}})
    cluster.advance(15)
    given = cluster.get("Node", "node-0")["status"]["allocatable"].get("example.com/dongle")
    cluster.advance(700)
    status = cluster.get("Node", "node-0")["status"]
    assert (given, status["capacity"]["example.com/dongle"], status["allocatable"]["cpu"]) == ("2", "2", "8")


def test_a_volume_for_another_node_is_not_mounted(cluster):
    label = {"key": "driver-version", "operator": "SemverGt", "values": ["2.0.0"]}
    cluster.patch("Node", "node-0", {"metadata": {"labels": {"driver-version": "1.9.0"}}})
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "hostPath": {"path": "/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [label]}]}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "volumeName": "disk",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    cluster.advance(20)
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    cluster.create(pod(nodeName="node-0", volumes=[volume]))
    cluster.advance(30)
    refused, messages = (
        cluster.get("Pod", "p")["status"]["phase"],
        {e["message"] for e in cluster.events("FailedMount")},
    )
    cluster.patch("Node", "node-0", {"metadata": {"labels": {"driver-version": "2.1.0"}}})
    cluster.advance(30)
    assert (refused, messages, cluster.get("Pod", "p")["status"]["phase"]) == (
        "Pending",
        {'MountVolume.NodeAffinity check failed for volume "disk" : no matching NodeSelectorTerms'},
        "Running",
    )


def test_a_feature_the_kubelet_does_not_declare_is_refused_there(cluster):
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}
    container = {"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    cluster.patch_status("Node", "node-0", {"declaredFeatures": None})
    cluster.create(pod(nodeName="node-0", containers=[container]))
    cluster.advance(5)
    status = cluster.get("Pod", "p")["status"]
    assert (status["phase"], status["reason"], status["message"]) == (
        "Failed",
        "PodFeatureUnsupported",
        "Pod was rejected: Pod requires node features that are not available: RestartAllContainersOnContainerExits",
    )
