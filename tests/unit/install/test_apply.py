"""Step by step: each said when it is done; a step that does not come about ends it with what to do."""

from __future__ import annotations

import pytest

from weir import errors
from weir.cli.operator import _listens_at, operator
from weir.gates import KUBERNETES_DEFAULTS
from weir.install.apply import install, rotate_path
from weir.install.manifests import Installation, InstallError, foundation
from weir.install.rights import CERTIFICATES
from weir.lowering.names import NAMESPACE, OPERATOR, SENTINEL
from weir.lowering.sentinel import sentinel_pod
from weir.lowering.webhooks import MUTATING_CONFIGURATION
from weir.operator.credentials import Credentials
from weir.operator.path_secrets import SETTLED
from weir.simulation.cluster import Cluster

OUTSIDE = Installation(url="https://192.0.2.1:9443")


def test_no_hook_is_installed_before_there_is_an_operator_to_answer():
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
        assert said[-1] == "start it now: weir operator --url https://192.0.2.1:9443"
        assert cluster.list("MutatingWebhookConfiguration") == []
        assert cluster.list("ValidatingWebhookConfiguration") == []
        said.clear()
        with pytest.raises(InstallError):
            cluster._do(steps(cluster, Installation(url="https://192.0.2.1:9443")))
        assert {line.split()[-1] for line in said[:-1]} == {"unchanged"}, "again, and nothing changes"


def test_the_hooks_come_when_the_operator_has_made_its_credentials_and_keep_their_paths():
    """The command that is printed is the one that works: same port, same address, same namespace."""
    said: list[str] = []

    async def steps(cluster):
        async for line in install(cluster.client, cluster.clock, OUTSIDE, patience=0):
            said.append(line)

    with Cluster(nodes=1, gates=KUBERNETES_DEFAULTS) as cluster:
        with pytest.raises(InstallError, match="the operator does not answer; start it now"):
            cluster._do(steps(cluster))
        command = said[-1].removeprefix("start it now: weir operator ").split()
        read = operator.make_context("operator", command).params
        assert _listens_at(read["url"], read["bind_address"], read["secure_port"]) == ("192.0.2.1", 9443)
        replica = credentials(cluster)
        cluster._do(replica.ensure())
        said.clear()
        with pytest.raises(InstallError, match="the operator does not answer"):
            cluster._do(steps(cluster))
        assert said[-1] == "mutatingwebhookconfiguration/weir-lowering created"
        cluster._do(replica.ensure())
        urls = hook_urls(cluster)
        assert all(replica.admits(url.split("/")[3]) for url in urls) and len(urls) > 5
        said.clear()
        with pytest.raises(InstallError, match="does not reach the operator"):
            cluster._do(steps(cluster))
        assert hook_urls(cluster) == urls


def hook_urls(cluster):
    found = cluster.get("MutatingWebhookConfiguration", MUTATING_CONFIGURATION, "")
    return [hook["clientConfig"]["url"] for hook in found["webhooks"]]


def credentials(cluster):
    return Credentials(
        cluster.client,
        cluster.clock,
        namespace=NAMESPACE,
        secret=CERTIFICATES,
        names=["192.0.2.1"],
        configurations=[("MutatingWebhookConfiguration", MUTATING_CONFIGURATION)],
    )


def test_a_new_path_secret_is_made_by_command():
    with Cluster(nodes=0, gates=KUBERNETES_DEFAULTS) as cluster:
        cluster.apply(*foundation(OUTSIDE))
        with pytest.raises(InstallError, match="does the operator run"):
            cluster._do(rotate_path(cluster.client, cluster.clock, NAMESPACE))
        replica = credentials(cluster)
        cluster._do(replica.ensure())
        assert "nothing was changed" in cluster._do(rotate_path(cluster.client, cluster.clock, NAMESPACE))
        cluster.advance(SETTLED.total_seconds())
        assert "new path secret" in cluster._do(rotate_path(cluster.client, cluster.clock, NAMESPACE))
        before = replica._paths
        cluster._do(replica.ensure())
        assert len(before.made) == 1 and replica._paths.made[0] == before.made[0]
        assert len(replica._paths.made) == 2


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
