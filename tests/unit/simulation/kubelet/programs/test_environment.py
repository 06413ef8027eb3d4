"""Variables of a container that its pod and node decide."""

from __future__ import annotations

import pytest

from weir.simulation.kubelet.programs.environment import environment
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


def test_other_objects_are_not_asked():
    with pytest.raises(Unplayable):
        value({"secretKeyRef": {"name": "s", "key": "k"}})
