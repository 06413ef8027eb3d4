"""Five Python clients, one short life of a pod each: create, list, watch, patch, refuse, delete."""

from __future__ import annotations

import asyncio

import pytest

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "containers": [{"name": "c", "image": "nginx:1.27"}],
        "tolerations": [
            {"key": "sla", "operator": "Gt", "value": "900"},
            {"key": "v", "operator": "SemverGt", "value": "1.2"},
        ],
    },
}
BAD = {**POD, "spec": {**POD["spec"], "tolerations": [{"key": "sla", "operator": "Gt", "value": "0950"}]}}
WORDS = "must be a valid decimal integer in canonical form"


@pytest.fixture
def space(server, request):
    """A namespace made with weir's own client."""
    from weir.client.http import connect
    from weir.objects.kinds import by_kind

    name = f"client-{abs(hash(request.node.nodeid)) % 10**8}"

    async def make():
        client = connect(server.kubeconfig)
        await client.create(by_kind("v1", "Namespace"), {"metadata": {"name": name}})
        await client.close()

    asyncio.run(make())
    return name


def test_a_pod_lives_its_life_through_kubernetes(server, space):
    from kubernetes import client, config, watch

    config.load_kube_config(str(server.kubeconfig))
    api = client.CoreV1Api()
    api.create_namespaced_pod(space, POD)
    listed = api.list_namespaced_pod(space, label_selector="app=web")
    assert [t.operator for t in listed.items[0].spec.tolerations[:2]] == ["Gt", "SemverGt"]
    api.patch_namespaced_pod("web", space, {"metadata": {"labels": {"k": "v"}}})
    events = watch.Watch().stream(
        api.list_namespaced_pod, space, resource_version=listed.metadata.resource_version, timeout_seconds=5
    )
    assert next(iter(events))["object"].metadata.labels["k"] == "v"
    with pytest.raises(client.ApiException) as refused:
        api.create_namespaced_pod(space, {**BAD, "metadata": {"name": "bad"}})
    assert refused.value.status == 422 and WORDS in refused.value.body
    api.delete_namespaced_pod("web", space, grace_period_seconds=0)
    assert not api.list_namespaced_pod(space).items


def test_a_pod_lives_its_life_through_kubernetes_asyncio(server, space):
    from kubernetes_asyncio import client, config, watch

    async def life():
        await config.load_kube_config(str(server.kubeconfig))
        async with client.ApiClient() as connection:
            api = client.CoreV1Api(connection)
            await api.create_namespaced_pod(space, POD)
            listed = await api.list_namespaced_pod(space)
            await api.patch_namespaced_pod("web", space, {"metadata": {"labels": {"k": "v"}}})
            async with watch.Watch() as watching:
                async for event in watching.stream(
                    api.list_namespaced_pod,
                    space,
                    resource_version=listed.metadata.resource_version,
                    timeout_seconds=5,
                ):
                    assert event["object"].metadata.labels["k"] == "v"
                    break
            with pytest.raises(client.ApiException, match=WORDS):
                await api.create_namespaced_pod(space, {**BAD, "metadata": {"name": "bad"}})
            await api.delete_namespaced_pod("web", space, grace_period_seconds=0)
            assert not (await api.list_namespaced_pod(space)).items

    asyncio.run(life())


def test_a_pod_lives_its_life_through_kr8s(server, space):
    import kr8s
    from kr8s.objects import Pod

    api = kr8s.api(kubeconfig=str(server.kubeconfig), namespace=space)
    pod = Pod({**POD, "metadata": {**POD["metadata"], "namespace": space}}, api=api)
    pod.create()
    assert [found.name for found in api.get("pods", namespace=space, label_selector={"app": "web"})] == [
        "web"
    ]
    pod.patch({"metadata": {"labels": {"k": "v"}}})
    pod.refresh()
    assert pod.labels["k"] == "v"
    with pytest.raises(kr8s.ServerError, match=WORDS):
        Pod({**BAD, "metadata": {"name": "bad", "namespace": space}}, api=api).create()
    pod.delete(grace_period=0)
    assert not list(api.get("pods", namespace=space))


def test_a_pod_lives_its_life_through_lightkube(server, space):
    from lightkube import ApiError, Client, KubeConfig
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import Pod

    client = Client(KubeConfig.from_file(str(server.kubeconfig)), namespace=space)
    client.create(Pod.from_dict(POD))
    (listed,) = client.list(Pod, labels={"app": "web"})
    assert listed.spec.tolerations[1].operator == "SemverGt"
    version = listed.metadata.resourceVersion
    client.patch(Pod, "web", {"metadata": {"labels": {"k": "v"}}})
    for kind, changed in client.watch(Pod, resource_version=version, server_timeout=5):
        assert (kind, changed.metadata.labels["k"]) == ("MODIFIED", "v")
        break
    with pytest.raises(ApiError, match=WORDS):
        client.create(Pod.from_dict({**BAD, "metadata": ObjectMeta(name="bad").to_dict()}))
    client.delete(Pod, "web", grace_period=0)
    assert not list(client.list(Pod))


def test_a_pod_lives_its_life_through_weirs_own_client(server, space):
    from weir.client.api import Client
    from weir.client.http import connect
    from weir.errors import Invalid
    from weir.objects.kinds import by_kind

    pods = by_kind("v1", "Pod")

    async def life():
        client: Client = connect(server.kubeconfig)
        try:
            await client.create(pods, POD, namespace=space)
            listed = await client.list(pods, space)
            await client.patch(pods, "web", {"metadata": {"labels": {"k": "v"}}}, namespace=space)
            async with client.watch(pods, space, resource_version=listed.resource_version) as events:
                async for event in events:
                    assert event.type == "MODIFIED"
                    break
            with pytest.raises(Invalid, match=WORDS):
                await client.create(pods, {**BAD, "metadata": {"name": "bad"}}, namespace=space)
            await client.delete(pods, "web", space, grace_period_seconds=0)
            assert not (await client.list(pods, space)).documents()
        finally:
            await client.close()

    asyncio.run(life())
