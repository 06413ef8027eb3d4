"""Step by step: each said when it is done; a step that does not come about ends it with what to do."""

from __future__ import annotations

import pytest

from weir import errors
from weir.gates import KUBERNETES_DEFAULTS
from weir.install.apply import install
from weir.install.manifests import Installation, InstallError
from weir.lowering.names import NAMESPACE, OPERATOR, SENTINEL
from weir.lowering.sentinel import sentinel_pod
from weir.simulation.cluster import Cluster

OUTSIDE = Installation(url="https://192.0.2.1:9443")


def test_the_barrier_is_not_switched_on_before_the_operator_answers():
    said: list[str] = []

    async def steps(cluster, installation):
        async for line in install(cluster.client, cluster.clock, installation, patience=0):
            said.append(line)

    with Cluster(nodes=1, gates=KUBERNETES_DEFAULTS) as cluster:
        with pytest.raises(
            InstallError, match=r"start it now: weir operator --url https://192\.0\.2\.1:9443"
        ):
            cluster._do(steps(cluster, Installation(url="https://192.0.2.1:9443")))
        assert said[0] == "namespace/weir-system created"
        assert said[-1] == "mutatingwebhookconfiguration/weir-lowering created"
        assert cluster.list("ValidatingWebhookConfiguration") == []
        said.clear()
        with pytest.raises(InstallError):
            cluster._do(steps(cluster, Installation(url="https://192.0.2.1:9443")))
        assert {line.split()[-1] for line in said} == {"unchanged"}, "again, and nothing changes"


def test_in_the_cluster_the_hooks_wait_for_the_deployment():
    async def steps(cluster):
        async for _ in install(cluster.client, cluster.clock, Installation(image="i"), patience=0):
            pass

    with Cluster(nodes=0, gates=KUBERNETES_DEFAULTS) as cluster:
        with pytest.raises(InstallError, match="does not become available"):
            cluster._do(steps(cluster))
        assert cluster.list("MutatingWebhookConfiguration") == []


def test_a_sentinel_of_another_version_is_replaced_and_that_is_said():
    said: list[str] = []

    async def steps(cluster):
        async for line in install(cluster.client, cluster.clock, OUTSIDE, patience=0):
            said.append(line)

    with Cluster(nodes=1, gates=KUBERNETES_DEFAULTS) as cluster:
        older = sentinel_pod(NAMESPACE)
        del older["spec"]["serviceAccountName"], older["spec"]["securityContext"]
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        cluster.advance(1)
        before = cluster.create(older)
        with pytest.raises(InstallError, match="start it now"):
            cluster._do(steps(cluster))
        assert (
            f"pod/{SENTINEL} replaced: the one of another version of weir cannot be changed into it" in said
        )
        after = cluster.get("Pod", SENTINEL, NAMESPACE)
        assert after is not None and after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["spec"]["serviceAccountName"] == OPERATOR


def test_what_is_wrong_with_another_object_is_not_hidden():
    async def steps(cluster):
        async for _ in install(cluster.client, cluster.clock, Installation(image="i", replicas=-1)):
            pass

    with (
        Cluster(nodes=0, gates=KUBERNETES_DEFAULTS) as cluster,
        pytest.raises(errors.Invalid, match=r"spec\.replicas"),
    ):
        cluster._do(steps(cluster))
