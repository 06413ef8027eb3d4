"""Step by step: each said when it is done; a step that does not come about ends it with what to do."""

from __future__ import annotations

import pytest

from weir import errors
from weir.cli.operator import _listens_at, operator
from weir.gates import KUBERNETES_DEFAULTS
from weir.install.apply import STUCK_SECONDS, install, rotate_path, undo
from weir.install.manifests import Installation, InstallError, documents, foundation
from weir.install.rights import CERTIFICATES
from weir.lowering.names import NAMESPACE, OPERATOR, SENTINEL
from weir.lowering.sentinel import sentinel_pod
from weir.lowering.webhooks import MUTATING_CONFIGURATION
from weir.objects.kinds import by_kind
from weir.operator.credentials import Credentials
from weir.operator.path_secrets import SETTLED
from weir.simulation.cluster import Cluster


def waits(reason, message=None):
    waiting = {"reason": reason} | ({"message": message} if message else {})
    return {
        "name": "operator",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"waiting": waiting},
    }


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


def policies(cluster, kind="MutatingWebhookConfiguration"):
    return {hook["failurePolicy"] for each in cluster.list(kind) for hook in each["webhooks"]}


def test_hooks_are_open_until_the_api_server_reaches_an_operator():
    """A Secret of an operator that runs no more, the wrong port, a firewall: nobody's pods are refused meanwhile."""

    async def steps(cluster):
        async for _ in install(cluster.client, cluster.clock, OUTSIDE, patience=0):
            pass

    with Cluster(nodes=1, gates=KUBERNETES_DEFAULTS) as cluster:
        for _ in range(2):  # without and with what the operator has made
            with pytest.raises(InstallError):
                cluster._do(steps(cluster))
            cluster._do(credentials(cluster).ensure())
        with pytest.raises(InstallError, match="does not reach the operator"):
            cluster._do(steps(cluster))
        assert policies(cluster) == {"Ignore"} and cluster.list("ValidatingWebhookConfiguration") == []


def test_hooks_that_fail_closed_already_stay_so():
    async def steps(cluster):
        async for _ in install(cluster.client, cluster.clock, OUTSIDE, patience=0):
            pass

    with Cluster(nodes=1, gates=KUBERNETES_DEFAULTS) as cluster:
        cluster.apply(*documents(OUTSIDE))
        before = policies(cluster)
        cluster._do(credentials(cluster).ensure())
        with pytest.raises(InstallError):
            cluster._do(steps(cluster))
        assert policies(cluster) == before == {"Fail", "Ignore"}


def test_what_was_created_is_taken_back_and_what_was_there_stays():
    created, said = [], []

    async def attempt(cluster):
        with pytest.raises(InstallError):
            async for _ in install(cluster.client, cluster.clock, OUTSIDE, 0, created=created):
                pass
        async for line in undo(cluster.client, created):
            said.append(line)

    with Cluster(nodes=1, gates=KUBERNETES_DEFAULTS) as cluster:
        theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "weir-triples"}}
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        cluster.create({**theirs, "metadata": {"name": "weir-triples", "namespace": NAMESPACE}})
        cluster._do(attempt(cluster))
        cluster.advance(60)
        assert {line.split()[-1] for line in said} == {"deleted"} and len(said) == len(created) > 5
        left = [
            f"{each['kind']}/{each['metadata']['name']}"
            for each in documents(OUTSIDE)
            if cluster.get(each["kind"], each["metadata"]["name"], each["metadata"].get("namespace", ""))
        ]
        assert left == [f"Namespace/{NAMESPACE}", "ConfigMap/weir-triples"]


@pytest.mark.parametrize(
    "status, says",
    [
        (
            {"containerStatuses": [waits("ErrImagePull", "not found")]},
            "cannot start: ErrImagePull: not found",
        ),
        ({"containerStatuses": [waits("CrashLoopBackOff")]}, "cannot start: CrashLoopBackOff"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]},
            "is not scheduled: 0/1 nodes",
        ),
    ],
)
def test_a_pod_that_cannot_start_ends_the_wait_with_its_reason(status, says):
    async def steps(cluster):
        async for _ in install(cluster.client, cluster.clock, Installation(image="i"), patience=600):
            pass

    with Cluster(nodes=0, gates=KUBERNETES_DEFAULTS, controllers=("namespace",)) as cluster:
        task = cluster._loop.create_task(steps(cluster))
        cluster.advance(5)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{OPERATOR}-1", "uid": "1"}
        metadata = {"name": f"{OPERATOR}-1-2", "namespace": NAMESPACE, "ownerReferences": [owner]}
        spec = {
            "nodeName": "nowhere",
            "serviceAccountName": OPERATOR,
            "containers": [{"name": "operator", "image": "i"}],
        }
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        pods = by_kind("v1", "Pod")
        patch = cluster.client.patch(
            pods, f"{OPERATOR}-1-2", {"status": status}, NAMESPACE, subresource="status"
        )
        cluster._do(patch)
        cluster.advance(STUCK_SECONDS)
        with pytest.raises(InstallError, match=says):
            task.result()


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
