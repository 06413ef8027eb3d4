"""Variables of a container that its pod and node decide."""

from __future__ import annotations

import pytest

from weir.simulation.kubelet.programs.environment import (
    Missing,
    Objects,
    environment,
    reads_services,
    references,
    sub_path,
)
from weir.simulation.kubelet.programs.syntax import Unplayable

NODE = {"status": {"allocatable": {"cpu": "8", "memory": "32Gi"}}}


def value(source, **resources):
    container = {"name": "c", "env": [{"name": "A", "valueFrom": source}], "resources": resources}
    pod = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "labels": {"x/y": "1"}},
        "spec": {"nodeName": "n", "containers": [container]},
        "status": {"podIP": "10.0.0.1", "hostIP": "172.16.0.1", "hostIPs": [{"ip": "172.16.0.1"}]},
    }
    return environment(pod, container, NODE)["A"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "d"),
        ("metadata.uid", "u"),
        ("metadata.labels['x/y']", "1"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "n"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "10.0.0.1"),
        ("status.hostIPs", "172.16.0.1"),
    ],
)
def test_fields_of_the_pod(path, text):
    assert value({"fieldRef": {"fieldPath": path}}) == text


@pytest.mark.parametrize(
    ("selector", "resources", "text"),
    [
        ({"resource": "limits.cpu"}, {"limits": {"cpu": "1250m"}}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, {"limits": {"cpu": "1250m"}}, "1250"),
        ({"resource": "requests.memory", "divisor": "1Mi"}, {"requests": {"memory": "32Mi"}}, "32"),
        ({"resource": "limits.memory", "divisor": "0"}, {}, str(32 << 30)),
        ({"resource": "requests.cpu"}, {}, "0"),
    ],
)
def test_amounts_are_rounded_up_to_the_divisor(selector, resources, text):
    assert value({"resourceFieldRef": selector}, **resources) == text


def variables(container, *, found=(), services=(), **spec):
    pod = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {"containers": [container], **spec},
    }
    objects = Objects({(each["kind"], each["metadata"]["name"]): each for each in found}, tuple(services))
    return environment(pod, {"name": "c", **container}, NODE, objects)


CONFIG = {"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}, "binaryData": {"b": "Mg=="}}
SECRET = {"kind": "Secret", "metadata": {"name": "m"}, "data": {"a": "eA=="}}


def test_all_keys_of_configmaps_and_secrets_with_a_prefix():
    sources = [{"configMapRef": {"name": "m"}, "prefix": "C-"}, {"secretRef": {"name": "m"}}]
    found = variables({"envFrom": sources}, found=[CONFIG, SECRET])
    assert (found["C-a"], found["C-b"], found["a"]) == ("1", "2", "x")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "a"}}, 'configmap "none" not found'),
        ({"secretKeyRef": {"name": "m", "key": "none"}}, "couldn't find key none in Secret d/m"),
    ],
)
def test_what_is_missing_unless_it_is_optional(source, problem):
    with pytest.raises(Missing) as caught:
        variables({"env": [{"name": "A", "valueFrom": source}]}, found=[CONFIG, SECRET])
    assert str(caught.value) == problem
    ((name, reference),) = source.items()
    optional = {name: {**reference, "optional": True}}
    assert "A" not in variables({"env": [{"name": "A", "valueFrom": optional}]}, found=[CONFIG, SECRET])


def test_services_of_the_namespace_unless_the_pod_wants_none():
    spec = {"clusterIP": "10.0.0.9", "ports": [{"port": 8765, "targetPort": 8080}]}
    service = {"metadata": {"name": "foo-service"}, "spec": spec}
    headless = {"metadata": {"name": "none"}, "spec": {**spec, "clusterIP": "None"}}
    found = variables({}, services=[service, headless])
    assert {name: text for name, text in found.items() if name.startswith(("FOO", "NONE"))} == {
        "FOO_SERVICE_SERVICE_HOST": "10.0.0.9",
        "FOO_SERVICE_SERVICE_PORT": "8765",
        "FOO_SERVICE_PORT": "tcp://10.0.0.9:8765",
        "FOO_SERVICE_PORT_8765_TCP": "tcp://10.0.0.9:8765",
        "FOO_SERVICE_PORT_8765_TCP_PROTO": "tcp",
        "FOO_SERVICE_PORT_8765_TCP_PORT": "8765",
        "FOO_SERVICE_PORT_8765_TCP_ADDR": "10.0.0.9",
    }
    assert not any(
        name.startswith("FOO") for name in variables({}, services=[service], enableServiceLinks=False)
    )


def test_what_a_pod_refers_to():
    env = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    first = {"name": "i", "envFrom": [{"secretRef": {"name": "t"}}]}
    pod = {"spec": {"initContainers": [first], "containers": [{"name": "c", "env": env, "command": ["env"]}]}}
    assert list(references(pod)) == [("Secret", "t"), ("ConfigMap", "m"), ("Secret", "s")]
    assert reads_services(pod)
    assert not reads_services({"spec": {**pod["spec"], "enableServiceLinks": False}})


def test_a_variable_from_a_file_is_not_known():
    with pytest.raises(Unplayable):
        value({"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}})


@pytest.mark.parametrize(
    ("mount", "problem"),
    [
        ({"subPathExpr": "$(NONE)/x"}, 'missing value for "NONE"'),
        ({"subPathExpr": "$(ABSOLUTE)"}, "error SubPath `/tmp` must not be an absolute path"),
        ({"subPathExpr": "$(BACK)"}, "unable to provision SubPath `..`: must not contain '..'"),
    ],
)
def test_parts_of_volumes_that_cannot_be_mounted(mount, problem):
    with pytest.raises(Missing) as caught:
        sub_path(mount, {"ABSOLUTE": "/tmp", "BACK": ".."})
    assert str(caught.value) == problem


def test_a_part_of_a_volume_is_named_by_a_variable():
    assert sub_path({"subPathExpr": "$(POD)/logs"}, {"POD": "p"}) == "p/logs"
