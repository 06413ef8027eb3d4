"""Which volumes may be mounted on a node."""

from __future__ import annotations

import pytest

from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS
from weir.objects.core import read
from weir.objects.volumes import PersistentVolume
from weir.simulation.kubelet.preparation import Missing, check, mount_problem, references

pytestmark = pytest.mark.proves("5721-18")

REFUSED = 'MountVolume.NodeAffinity check failed for volume "disk" : no matching NodeSelectorTerms'


def volume(**requirement):
    terms = [{"matchExpressions": [{"key": "v", **requirement}]}] if requirement else None
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}
    return read(PersistentVolume, {"metadata": {"name": "disk"}, "spec": affinity})


@pytest.mark.parametrize(
    ("disk", "gates", "problem"),
    [
        (volume(), ALL_FEATURES, ""),
        (volume(operator="In", values=["1.9.0"]), ALL_FEATURES, ""),
        (volume(operator="In", values=["2"]), ALL_FEATURES, REFUSED),
        (volume(operator="SemverLt", values=["2.0.0"]), ALL_FEATURES, ""),
        (volume(operator="SemverGt", values=["2.0.0"]), ALL_FEATURES, REFUSED),
        (volume(operator="SemverLt", values=["2.0.0"]), KUBERNETES_DEFAULTS, REFUSED),
    ],
)
def test_the_volume_s_node_affinity_is_asked_with_the_kubelet_s_gates(disk, gates, problem):
    assert mount_problem(disk, {"v": "1.9.0"}, gates) == problem


CONFIG = {"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}, "binaryData": {"b": "Li4="}}
SECRET = {"kind": "Secret", "metadata": {"name": "m"}, "data": {"a": "L3RtcA=="}}
OBJECTS = {("ConfigMap", "m"): CONFIG, ("Secret", "m"): SECRET, ("ConfigMap", "none"): None}


def problem(**container):
    container = {"name": "c", **container}
    pod = {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [container]}}
    try:
        check(pod, container, OBJECTS)
    except Missing as missing:
        return str(missing)
    return ""


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "a"}}, 'configmap "none" not found'),
        ({"secretKeyRef": {"name": "none", "key": "a"}}, 'secret "none" not found'),
        ({"secretKeyRef": {"name": "m", "key": "none"}}, "couldn't find key none in Secret d/m"),
    ],
)
def test_a_missing_object_or_key_is_reported_unless_it_is_optional(source, message):
    assert problem(env=[{"name": "A", "valueFrom": source}]) == message
    ((name, reference),) = source.items()
    optional = {name: {**reference, "optional": True}}
    assert problem(env=[{"name": "A", "valueFrom": optional}]) == ""


def test_a_missing_source_of_all_variables_is_reported_unless_it_is_optional():
    assert problem(envFrom=[{"secretRef": {"name": "none"}}]) == 'secret "none" not found'
    assert problem(envFrom=[{"secretRef": {"name": "none", "optional": True}}]) == ""


@pytest.mark.parametrize(
    "source",
    [
        {"configMapKeyRef": {"name": "m", "key": "b"}},
        {"secretKeyRef": {"name": "m", "key": "a"}},
        {"fieldRef": {"fieldPath": "metadata.name"}},
        {"resourceFieldRef": {"resource": "limits.cpu"}},
        {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}},
    ],
)
def test_a_variable_whose_source_is_there_is_no_problem(source):
    assert problem(env=[{"name": "A", "valueFrom": source}]) == ""


def test_references_of_all_containers():
    env = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    first = {"name": "i", "envFrom": [{"secretRef": {"name": "t"}}]}
    pod = {"spec": {"initContainers": [first], "containers": [{"name": "c", "env": env}]}}
    assert list(references(pod)) == [("Secret", "t"), ("ConfigMap", "m"), ("Secret", "s")]


VARIABLES = [
    {"name": "ABSOLUTE", "value": "/tmp"},
    {"name": "BACK", "value": ".."},
    {"name": "NESTED", "value": "x/$(BACK)"},
    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "EMPTY"},
]
CONFIGURED = [{"configMapRef": {"name": "m"}, "prefix": "C_"}, {"secretRef": {"name": "m"}, "prefix": "S_"}]


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ({"subPathExpr": "$(NONE)/x"}, 'missing value for "NONE"'),
        ({"subPathExpr": "$(ABSOLUTE)"}, "error SubPath `/tmp` must not be an absolute path"),
        ({"subPathExpr": "$(EMPTY)/x"}, "error SubPath `/x` must not be an absolute path"),
        ({"subPathExpr": "$(S_a)"}, "error SubPath `/tmp` must not be an absolute path"),
        ({"subPathExpr": "$(BACK)"}, "unable to provision SubPath `..`: must not contain '..'"),
        ({"subPathExpr": "$(C_b)"}, "unable to provision SubPath `..`: must not contain '..'"),
        ({"subPathExpr": "$(NESTED)"}, "unable to provision SubPath `x/..`: must not contain '..'"),
        ({"subPath": "/x"}, "error SubPath `/x` must not be an absolute path"),
        ({"subPathExpr": "$(POD)/logs"}, ""),
        ({"subPathExpr": "$(HOSTNAME)/$(C_a)"}, ""),
        ({"subPathExpr": "$(WEB_SERVICE_HOST)"}, ""),
        ({"subPathExpr": "$$(NONE)"}, ""),
        ({}, ""),
    ],
)
def test_sub_paths_that_cannot_be_mounted(mount, message):
    assert problem(env=VARIABLES, envFrom=CONFIGURED, volumeMounts=[mount]) == message
