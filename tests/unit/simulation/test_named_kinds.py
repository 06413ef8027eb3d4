"""Kinds by name: those of the table, and those that a definition made."""

from __future__ import annotations

import re

import pytest

from weir.simulation.cluster import Cluster
from weir.simulation.named_kinds import ObjectError

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ponds.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: ponds, singular: pond, kind: Pond, shortNames: [pd]}
  versions:
  - {name: v1, served: true, storage: true, schema: &open
      {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v1beta1, served: true, storage: false, schema: *open}
"""
POND = {"kind": "Pond", "metadata": {"name": "p"}, "spec": {"depth": 3}}


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as cluster:
        cluster.apply(DEFINITION)
        yield cluster


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_objects_of_a_custom_kind_are_applied_and_read(cluster, version):
    cluster.apply({"apiVersion": f"example.com/{version}", **POND})
    for name in ("Pond", "ponds", "pond", "pd", "ponds.example.com"):
        found = cluster.get(name, "p")
        assert (found["apiVersion"], found["spec"]) == ("example.com/v1", {"depth": 3})
    cluster.patch("Pond", "p", {"spec": {"depth": 4}})
    assert [each["spec"]["depth"] for each in cluster.list("Pond")] == [4]
    cluster.delete("Pond", "p")
    assert cluster.list("Pond") == []


def test_another_version_is_refused_with_those_there_are(cluster):
    with pytest.raises(
        ObjectError, match=re.escape("serves no Pond in example.com/v2; it is served in example.com/v1, ")
    ):
        cluster.apply({"apiVersion": "example.com/v2", **POND})
