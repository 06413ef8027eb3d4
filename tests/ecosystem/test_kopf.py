"""A kopf operator, run by kopf itself, under the pytest fixture: only the cluster is in this process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.ecosystem.cluster import program
from tests.ecosystem.conftest import built

OPERATOR = Path(__file__).parent / "kopf_operator.py"
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ponds.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: ponds, kind: Pond}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {frogs: {type: integer, minimum: 0}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


def pond(frogs: int) -> dict:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Pond",
        "metadata": {"name": "lily"},
        "spec": {"frogs": frogs},
    }


@pytest.fixture
def operated(weir_cluster, tmp_path):
    """A cluster with two nodes and the operator beside it."""
    weir_cluster.add_nodes(2)
    weir_cluster.apply(DEFINITION)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "KUBECONFIG": str(weir_cluster.kubeconfig),
    }
    kopf = built("kopf").programs / "kopf"
    with program(
        tmp_path / "kopf.log",
        *(kopf, "run", "--standalone", "--all-namespaces", OPERATOR),
        environment=environment,
    ):
        yield weir_cluster


def test_the_operator_keeps_a_deployment_for_each_pond(operated):
    operated.apply(pond(2))
    deployment = operated.wait_for(lambda: operated.get("Deployment", "lily-frogs"))
    assert deployment["metadata"]["ownerReferences"][0]["kind"] == "Pond"
    operated.wait_for(lambda: operated.get("Pond", "lily").get("status", {}).get("created") == {"frogs": 2})
    operated.advance(30)
    assert operated.get("Deployment", "lily-frogs")["status"]["availableReplicas"] == 2

    operated.patch("Pond", "lily", {"spec": {"frogs": 3}})
    operated.wait_for(lambda: operated.get("Deployment", "lily-frogs")["spec"]["replicas"] == 3)
    operated.wait_for(lambda: len(operated.events("Grown")) == 1)

    # kopf's finalizer holds the pond until its handler has run; the garbage collector takes the rest
    operated.delete("Pond", "lily")
    operated.wait_for(lambda: operated.get("Pond", "lily") is None)
    assert operated.get("ConfigMap", "lily-obituary")["data"] == {"frogs": "3"}
    operated.wait_for(lambda: not operated.list("Pod"))
    assert operated.get("Deployment", "lily-frogs") is None


def test_it_sees_what_happens_on_nodes(operated):
    operated.taint("node-0", "sla=900:NoExecute")
    noted = operated.wait_for(
        lambda: operated.get("Node", "node-0")["metadata"].get("annotations", {}).get("example.com/sla")
    )
    assert noted == "900"
