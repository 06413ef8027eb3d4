"""Step by step: each said when it is done; a step that does not come about ends it with what to do."""

from __future__ import annotations

import pytest

from weir.gates import KUBERNETES_DEFAULTS
from weir.install.apply import install
from weir.install.manifests import Installation, InstallError
from weir.simulation.cluster import Cluster


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
