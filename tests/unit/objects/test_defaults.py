"""Defaulting: what the server fills in, kind by kind."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.unit.objects.documents import documents
from weir.objects import schema
from weir.objects.defaults import default, settle, walk
from weir.objects.defaults.constants import CONSTANTS
from weir.objects.document import check, decode
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS, by_kind

CONTAINER = {
    "name": "c",
    "image": "registry.example/app:1",
    "imagePullPolicy": "IfNotPresent",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
POD_SPEC = {
    "containers": [CONTAINER],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}


def defaulted(kind: Kind, **fields: Any) -> dict[str, Any]:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}, **fields}
    document, _ = decode(json.dumps(body).encode(), kind, field_validation="Strict")
    default(document, kind)
    return document


def pod(**spec: Any) -> dict[str, Any]:
    return defaulted(
        by_kind("v1", "Pod"), spec={"containers": [{"name": "c", "image": "registry.example/app:1"}], **spec}
    )


def test_a_small_pod_gets_the_recorded_defaults() -> None:
    assert pod()["spec"] == {**POD_SPEC, "enableServiceLinks": True}


def test_a_pod_template_gets_a_pods_defaults_without_service_links() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "registry.example/app:1"}]}}
    deployment = defaulted(by_kind("apps/v1", "Deployment"), spec={"selector": {}, "template": template})
    assert deployment["spec"]["template"] == {"metadata": {}, "spec": POD_SPEC}


def test_a_deployment_rolls_by_a_quarter() -> None:
    deployment = defaulted(by_kind("apps/v1", "Deployment"), spec={"selector": {}, "template": {}})
    assert {
        key: value for key, value in deployment["spec"].items() if key not in ("template", "selector")
    } == {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }


def test_negative_grace_becomes_one_second() -> None:
    assert pod(terminationGracePeriodSeconds=-5)["spec"]["terminationGracePeriodSeconds"] == 1


def test_missing_requests_are_copied_from_limits() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    spec = pod(containers=[{"name": "c", "image": "i", "resources": resources}])["spec"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_amounts_below_a_thousandth_round_up() -> None:
    spec = pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1u"}}}])["spec"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1m"}


def test_container_ports_are_tcp_and_take_the_host_port_on_the_host_network() -> None:
    ports = [{"containerPort": 80}]
    spec = pod(hostNetwork=True, containers=[{"name": "c", "image": "i", "ports": ports}])["spec"]
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


def test_a_volume_without_source_is_an_empty_dir_and_projections_have_a_mode() -> None:
    volumes = [
        {"name": "a"},
        {"name": "b", "configMap": {"name": "m"}},
        {"name": "c", "hostPath": {"path": "/x"}},
    ]
    assert pod(volumes=volumes)["spec"]["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "configMap": {"name": "m", "defaultMode": 420}},
        {"name": "c", "hostPath": {"path": "/x", "type": ""}},
    ]


def test_probes_have_their_periods() -> None:
    container = {"name": "c", "image": "i", "livenessProbe": {"httpGet": {"port": 80}}}
    assert pod(containers=[container])["spec"]["containers"][0]["livenessProbe"] == {
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def test_a_node_can_allocate_its_capacity_and_prints_empty_node_info() -> None:
    node = defaulted(by_kind("v1", "Node"), status={"capacity": {"cpu": "4000m"}})
    assert (
        node["status"]["allocatable"],
        node["status"]["daemonEndpoints"],
        len(node["status"]["nodeInfo"]),
    ) == (
        {"cpu": "4"},
        {"kubeletEndpoint": {"Port": 0}},
        10,
    )


@pytest.mark.parametrize(
    ("api_version", "kind", "fields", "path", "value"),
    [
        ("v1", "PersistentVolume", {"spec": {}}, "spec.persistentVolumeReclaimPolicy", "Retain"),
        ("v1", "PersistentVolume", {"spec": {}}, "status.phase", "Pending"),
        ("v1", "PersistentVolumeClaim", {"spec": {}}, "spec.volumeMode", "Filesystem"),
        ("v1", "Namespace", {}, "metadata.labels", {"kubernetes.io/metadata.name": "x"}),
        ("v1", "Namespace", {}, "status.phase", "Active"),
        ("v1", "Secret", {"stringData": {"a": "b"}}, "data", {"a": "Yg=="}),
        ("v1", "Service", {"spec": {"ports": [{"port": 80}]}}, "spec.type", "ClusterIP"),
        ("v1", "Service", {"spec": {}}, "spec.internalTrafficPolicy", "Cluster"),
        (
            "v1",
            "LimitRange",
            {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
            "spec.limits",
            None,
        ),
        (
            "apps/v1",
            "DaemonSet",
            {"spec": {}},
            "spec.updateStrategy.rollingUpdate",
            {"maxUnavailable": 1, "maxSurge": 0},
        ),
        ("apps/v1", "StatefulSet", {"spec": {}}, "spec.podManagementPolicy", "OrderedReady"),
        ("apps/v1", "ReplicaSet", {"spec": {}}, "spec.replicas", 1),
        ("batch/v1", "Job", {"spec": {}}, "spec.completions", 1),
        ("batch/v1", "CronJob", {"spec": {}}, "spec.concurrencyPolicy", "Allow"),
        ("scheduling.k8s.io/v1", "PriorityClass", {}, "preemptionPolicy", "PreemptLowerPriority"),
        ("storage.k8s.io/v1", "StorageClass", {}, "volumeBindingMode", "Immediate"),
        (
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            {"roleRef": {}},
            "roleRef.apiGroup",
            "rbac.authorization.k8s.io",
        ),
    ],
)
def test_other_kinds_get_their_defaults(
    api_version: str, kind: str, fields: dict[str, Any], path: str, value: Any
) -> None:
    found: Any = defaulted(by_kind(api_version, kind), **fields)
    for part in path.split("."):
        found = found[part]
    if value is None:
        value = [
            {
                "type": "Container",
                "max": {"cpu": "1"},
                "default": {"cpu": "1"},
                "defaultRequest": {"cpu": "1"},
            }
        ]
    assert found == value


def test_an_always_printed_empty_list_reads_back_as_null() -> None:
    kind = by_kind("rbac.authorization.k8s.io/v1", "ClusterRole")
    role = defaulted(kind, rules=[])
    settle(role, kind)
    assert role["rules"] is None


def test_device_taints_get_the_time_only_where_it_is_given() -> None:
    rule = by_kind("resource.k8s.io/v1", "DeviceTaintRule")
    document = {"spec": {"taint": {"key": "a", "effect": "NoExecute"}}}
    default(document, rule)
    untimed = "timeAdded" in document["spec"]["taint"]
    default(document, rule, "2026-01-01T00:00:00Z")
    assert (untimed, document["spec"]["taint"].get("timeAdded")) == (False, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(("given", "operator"), [({}, "Equal"), ({"expression": "true"}, None)])
def test_a_device_toleration_with_an_expression_has_no_operator(
    given: dict[str, Any], operator: str | None
) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "c", "tolerations": [given]}}
    claim = defaulted(
        by_kind("resource.k8s.io/v1", "ResourceClaim"), spec={"devices": {"requests": [request]}}
    )
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["tolerations"][0].get("operator") == operator


@settings(max_examples=tries(60, 150), deadline=None)
@given(
    st.sampled_from(
        [(kind, root) for kind in KINDS if (root := schema.find_root(kind.api_version, kind.kind))]
    ).flatmap(lambda each: st.tuples(st.just(each[0]), documents(each[1].name)))
)
def test_defaulting_twice_is_defaulting_once_and_leaves_a_readable_document(
    sample: tuple[Kind, dict[str, Any]],
) -> None:
    kind, document = sample
    document, _ = check(document, kind)
    default(document, kind)
    once = copy.deepcopy(document)
    default(document, kind)
    assert (document, check(once, kind)[0]) == (once, once)


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_a_declared_constant_is_a_field_of_its_struct_and_is_set_where_it_is_absent(name):
    visit = walk.Visitors(walk.default_rule, {}).of(name)
    value = {}
    visit(value)
    for path, constant in CONSTANTS[name].items():
        at = value
        for part in path.split("."):
            at = at[part]
        assert at == constant
