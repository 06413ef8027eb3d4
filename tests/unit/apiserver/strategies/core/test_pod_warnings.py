"""What the author of a pod should know, in the words of a real server."""

# ruff: noqa: E501  (what is said is said on one line)

from __future__ import annotations

import pytest

from weir.apiserver.strategies.core.pod_warnings import name_warnings, pod_warnings
from weir.apiserver.strategies.small_groups import DeploymentStrategy
from weir.objects.kinds import by_kind

NO_POD = "a null labelSelector results in matching no pod"


def container(**fields):
    return {"containers": [{"name": "c", "image": "i", **fields}]}


@pytest.mark.parametrize(
    "spec, said",
    [
        (container(), []),
        (
            {"nodeSelector": {"beta.kubernetes.io/arch": "x"}},
            ['spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead'],
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone"}]},
            [f"spec.topologySpreadConstraints[0].labelSelector: {NO_POD}"],
        ),
        (
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}},
            [f"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: {NO_POD}"],
        ),
        (
            container(resources={"limits": {"memory": "100m", "cpu": "100m"}}),
            ['spec.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer'],
        ),
        (
            container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
            ['spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'],
        ),
        (container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]), []),
        (
            container(ports=[{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}]),
            ["spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"],
        ),
        (container(ports=[{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]), []),
        ({"imagePullSecrets": [{"name": ""}]}, ['spec.imagePullSecrets[0].name: invalid empty name ""']),
        (
            {"hostAliases": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}]},
            ['spec.hostAliases[1].ip: duplicate ip "1.2.3.4"'],
        ),
        (
            {"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]},
            ["spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"],
        ),
    ],
)  # fmt: skip
def test_what_is_odd_is_said(spec, said):
    assert list(pod_warnings(spec, {})) == said


def test_a_name_with_dots_is_warned_of():
    (said,) = name_warnings("a.b", "the Pod's hostname")
    assert said.startswith(
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior"
    )


def test_a_template_warns_only_when_the_change_counts():
    old = {
        "metadata": {"name": "d", "generation": 1},
        "spec": {"template": {"spec": {"imagePullSecrets": [{}]}}},
    }
    assert list(DeploymentStrategy().warnings(by_kind("apps/v1", "Deployment"), old, old)) == []
