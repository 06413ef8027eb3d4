"""Which gates a cluster has: from metrics, the version, dry runs; and what an answer makes of it."""

from __future__ import annotations

import asyncio
import json

import pytest

from weir.client.api import Client, Reply
from weir.client.cluster_gates import API_SERVER, CONTROLLERS, KUBELET, SCHEDULER, detect_gates
from weir.client.known_gates import Learned
from weir.gates import DEVICE_TAINT_RULES, DEVICE_TAINTS, FEATURES, TOLERATION_CEL, TOLERATION_COMPARISON

METRICS = b"""\
# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement of a k8s feature.
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRADeviceTaints",stage=""} 1
kubernetes_feature_enabled{name="DRADeviceTaintRules",stage=""} 1
kubernetes_feature_enabled{name="TaintTolerationComparisonOperators",stage="ALPHA"} 0
"""
REFUSED = {
    "kind": "Status",
    "reason": "Invalid",
    "message": 'spec.tolerations[0].operator: Unsupported value: "Gt"',
}


class Server:
    """A transport that answers as it was told; what it was not told of is forbidden."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []

    async def request(self, method, target, headers=None, body=b""):
        path, _, query = target.partition("?")
        self.asked.append((method, path, query))
        code, answer = self.answers.get((method, path), (403, {"kind": "Status"}))
        answer = answer(json.loads(body)) if callable(answer) else answer
        return Reply(code, answer if isinstance(answer, bytes) else json.dumps(answer).encode(), {})

    async def close(self):
        pass


def learned(answers, namespaces=("default",)):
    return asyncio.run(detect_gates(Client(Server(answers)), namespaces))


def version(minor):
    return {("GET", "/version"): (200, {"major": "1", "minor": minor, "gitVersion": f"v1.{minor[:2]}.0"})}


def test_metrics_say_which_gates_are_on_and_which_are_not_there():
    found = learned({("GET", "/metrics"): (200, METRICS)}).by_component[API_SERVER]
    assert {name: each.on for name, each in found.items()} == {
        **dict.fromkeys(FEATURES, False),
        DEVICE_TAINTS: True,
        DEVICE_TAINT_RULES: True,
    }
    assert found[TOLERATION_CEL].how == "it does not have the gate"


def test_no_component_has_a_gate_that_the_server_does_not_know():
    found = learned({("GET", "/metrics"): (200, METRICS)}).by_component
    assert [found[name][TOLERATION_CEL].on for name in (SCHEDULER, CONTROLLERS, KUBELET)] == [False] * 3
    assert found[SCHEDULER][DEVICE_TAINTS].on is None


def test_an_older_server_cannot_have_the_gate():
    found = learned(version("32+")).by_component
    assert found[API_SERVER][TOLERATION_COMPARISON] == Learned(False, "Kubernetes v1.32.0 does not have it")
    assert found[SCHEDULER][DEVICE_TAINT_RULES].on is False
    assert found[API_SERVER][TOLERATION_CEL].on is None


@pytest.mark.parametrize(
    ("code", "answer", "on"),
    [
        (201, lambda sent: sent, True),
        (201, lambda sent: {**sent, "spec": {"tolerations": []}}, False),
        (422, REFUSED, False),
        (403, {"kind": "Status", "message": "pods is forbidden"}, None),
        (500, {"kind": "Status"}, None),
        (403, {"kind": "Status", "message": 'exceeded quota: "tolerations"'}, None),
    ],
)
def test_a_dry_run_says_whether_the_gate_is_on_and_stores_nothing(code, answer, on):
    server = Server({**version("37"), ("POST", "/api/v1/namespaces/shop/pods"): (code, answer)})
    found = asyncio.run(detect_gates(Client(server), ["shop"])).by_component[API_SERVER]
    assert found[TOLERATION_COMPARISON].on is on
    assert all("dryRun=All" in query for method, _, query in server.asked if method == "POST")


def test_a_namespace_that_is_not_there_is_passed_over():
    pods = {("POST", f"/api/v1/namespaces/{name}/pods"): answer for name, answer in
            (("gone", (404, {})), ("here", (201, lambda sent: sent)))}  # fmt: skip
    found = learned({**version("37"), **pods}, ["gone", "here"]).by_component[API_SERVER]
    assert found[TOLERATION_CEL] == Learned(True, "a dry run was accepted")


def test_a_scheduler_that_runs_as_a_pod_and_kubelets_are_asked_through_the_proxy():
    on = METRICS.replace(b'ALPHA"} 0', b'ALPHA"} 1')
    place = "/api/v1/namespaces/kube-system/pods"
    answers = {
        ("GET", "/metrics"): (200, on),
        ("GET", place): (200, {"items": [{"metadata": {"name": "kube-scheduler-a"}}]}),
        ("GET", f"{place}/https:kube-scheduler-a:10259/proxy/metrics"): (200, on),
        ("GET", "/api/v1/nodes"): (200, {"items": [{"metadata": {"name": "n"}}]}),
        ("GET", "/api/v1/nodes/n/proxy/metrics"): (200, METRICS),
    }
    found = learned(answers)
    assert found.by_component[SCHEDULER][TOLERATION_COMPARISON] == Learned(True, "its /metrics")
    assert found.by_component[KUBELET][TOLERATION_COMPARISON] == Learned(False, "/metrics of 1 node")
    known = found.known((API_SERVER, SCHEDULER), {})
    assert known.features[TOLERATION_COMPARISON] == Learned(False, "kubelet: /metrics of 1 node")


HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/weir-lowering"


@pytest.mark.parametrize(("code", "there"), [(200, True), (404, False), (403, False)])
def test_with_the_operator_a_feature_holds_that_no_component_has(code, there):
    found = learned({("GET", "/metrics"): (200, METRICS), ("GET", HOOKS): (code, {"kind": "Status"})})
    assert found.operator is there
    known = found.known((API_SERVER, SCHEDULER), {})
    for name in (TOLERATION_COMPARISON, TOLERATION_CEL):
        lowered = known.features[name] == Learned(True, "through weir's operator")
        assert lowered is there and known.features[name].on is there
    assert known.features[DEVICE_TAINT_RULES].how != "through weir's operator", "devices are not lowered"


def test_what_a_person_says_overrules_what_was_learned():
    known = learned({("GET", "/metrics"): (200, METRICS)}).known((API_SERVER,), {TOLERATION_COMPARISON: True})
    assert known.features[TOLERATION_COMPARISON] == Learned(True, "given with --feature-gates")
    assert known.features[TOLERATION_CEL].on is False
