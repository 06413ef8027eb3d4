"""What a component may rely on, over the network and in process alike: one suite, both transports.

The server is the real one, with its certificates, RBAC and admission; the network transport goes through TLS
and a kubeconfig.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.contract.etcd_server import EtcdServer
from weir import errors
from weir.apiserver.build import Running, build
from weir.apiserver.options import Options, open_store
from weir.apiserver.run import serve
from weir.apiserver.transport.http import Request
from weir.client.api import JSON_PATCH, STRATEGIC_MERGE_PATCH, Client, Unreachable, WatchEvent
from weir.client.cache import Informer, decode_document
from weir.client.events import ObjectReference, Recorder
from weir.client.http import HttpTransport
from weir.client.kubeconfig import Access, FixedCredentials, Identity, load
from weir.client.leases import Elector, Leadership
from weir.client.local import LocalTransport
from weir.clock import RealClock
from weir.objects.kinds import by_kind

PODS, NODES = by_kind("v1", "Pod"), by_kind("v1", "Node")
CONFIGMAPS, NAMESPACES = by_kind("v1", "ConfigMap"), by_kind("v1", "Namespace")
TOKENS = 'admin-token,admin,1,"system:masters"\nnobody-token,nobody,2\n'
Document = dict[str, Any]


class Place:
    """A running server and a way to it."""

    def __init__(self, running: Running, directory: Path, transport: str) -> None:
        self.running, self._directory, self._transport = running, directory, transport
        self.clients: list[Client] = []

    def client(self, token: str | None = "admin-token") -> Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if self._transport == "local":
            made = Client(LocalTransport(self.running.server.handle, Request, headers))
        else:
            access = replace(
                load(self._directory / "kubeconfig"), credentials=FixedCredentials(Identity(headers))
            )
            made = Client(HttpTransport(access))
        self.clients.append(made)
        return made


@asynccontextmanager
async def a_server(directory: Path, **options: Any) -> AsyncIterator[Running]:
    (directory / "tokens").write_text(TOKENS)
    chosen = Options(
        data_dir=directory,
        kubeconfig=directory / "kubeconfig",
        token_file=directory / "tokens",
        **{"store": "memory", "secure_port": 0, **options},
    )
    clock = RealClock()
    running = await build(chosen, await open_store(chosen, clock), clock)
    await serve(running, clock)
    try:
        yield running
    finally:
        await running.stop()


@pytest.fixture(params=["http", "local"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with a_server(tmp_path) as running:
        made = Place(running, tmp_path, request.param)
        yield made
        for client in made.clients:
            await client.close()


@pytest.fixture
def client(place: Place) -> Client:
    return place.client()


def configmap(name: str, **data: str) -> Document:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


def pod(name: str) -> Document:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


# --------------------------------------------------------------------------------------------------- verbs


async def test_what_is_created_is_read_back(client: Client) -> None:
    made = await client.create(CONFIGMAPS, configmap("a", x="1"))
    assert await client.get(CONFIGMAPS, "a", "default") == made and made["metadata"]["uid"]


async def test_an_object_can_be_decoded_into_a_type(client: Client) -> None:
    class View(msgspec.Struct):
        data: dict[str, str]

    await client.create(CONFIGMAPS, configmap("a", x="1"))
    assert await client.get(CONFIGMAPS, "a", "default", into=View) == View({"x": "1"})


async def test_bytes_are_sent_as_they_are(client: Client) -> None:
    made = await client.create(CONFIGMAPS, msgspec.json.encode(configmap("a", x="1")), "default")
    assert made["data"] == {"x": "1"}


async def test_what_is_not_there_is_found_to_be_none(client: Client) -> None:
    assert await client.find(CONFIGMAPS, "a", "default") is None


async def test_an_update_from_a_stale_read_is_a_conflict(client: Client) -> None:
    first = await client.create(CONFIGMAPS, configmap("a", x="1"))
    await client.update(CONFIGMAPS, {**first, "data": {"x": "2"}})
    with pytest.raises(errors.Conflict, match="the object has been modified"):
        await client.update(CONFIGMAPS, {**first, "data": {"x": "3"}})


async def test_refusals_are_raised_as_the_class_the_server_raised(client: Client) -> None:
    await client.create(CONFIGMAPS, configmap("a"))
    refused: dict[str, Callable[[], Any]] = {
        "NotFound": lambda: client.get(CONFIGMAPS, "b", "default"),
        "AlreadyExists": lambda: client.create(CONFIGMAPS, configmap("a")),
        "Invalid": lambda: client.create(CONFIGMAPS, configmap("Not A Name")),
        "BadRequest": lambda: client.list(CONFIGMAPS, label_selector="a in (b"),
    }
    for name, attempt in refused.items():
        with pytest.raises(getattr(errors, name)) as caught:
            await attempt()
        assert caught.value.message and caught.value.reason == name


async def test_an_invalid_object_comes_with_its_causes(client: Client) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await client.create(PODS, {**pod("a"), "spec": {"containers": []}})
    assert [cause["field"] for cause in caught.value.causes] == ["spec.containers"]


@pytest.mark.parametrize(
    "patch_type, patch",
    [
        ("application/merge-patch+json", {"data": {"y": "2", "x": None}}),
        (STRATEGIC_MERGE_PATCH, {"data": {"y": "2", "x": None}}),
        (JSON_PATCH, [{"op": "add", "path": "/data/y", "value": "2"}, {"op": "remove", "path": "/data/x"}]),
    ],
)
async def test_every_kind_of_patch(client: Client, patch_type: str, patch: Any) -> None:
    await client.create(CONFIGMAPS, configmap("a", x="1"))
    assert (await client.patch(CONFIGMAPS, "a", patch, "default", patch_type=patch_type))["data"] == {
        "y": "2"
    }


async def test_a_delete_that_means_another_object_is_a_conflict(client: Client) -> None:
    await client.create(CONFIGMAPS, configmap("a"))
    with pytest.raises(errors.Conflict):
        await client.delete(CONFIGMAPS, "a", "default", uid="another")
    await client.delete(CONFIGMAPS, "a", "default")
    assert await client.find(CONFIGMAPS, "a", "default") is None


async def test_a_collection_is_deleted_by_selector(client: Client) -> None:
    for name, tier in (("a", "front"), ("b", "back")):
        document = configmap(name)
        document["metadata"]["labels"] = {"tier": tier}
        await client.create(CONFIGMAPS, document)
    await client.delete_collection(CONFIGMAPS, "default", label_selector="tier=front")
    left = {item["metadata"]["name"] for item in (await client.list(CONFIGMAPS, "default")).documents()}
    assert "b" in left and "a" not in left


async def test_a_list_comes_in_pages_of_one_revision(client: Client) -> None:
    for n in range(5):
        await client.create(CONFIGMAPS, configmap(f"c{n}"))
    pages = [page async for page in client.pages(CONFIGMAPS, "default", limit=2)]
    names = [item["metadata"]["name"] for page in pages for item in page.documents()]
    assert [name for name in names if name.startswith("c")] == [f"c{n}" for n in range(5)]
    assert len({page.resource_version for page in pages}) == 1 and pages[0].remaining == len(names) - 2


async def test_a_pod_is_bound_once_and_evicted(client: Client) -> None:
    await client.create(PODS, pod("p"))
    await client.bind("p", "default", "node-1")
    assert (await client.get(PODS, "p", "default"))["spec"]["nodeName"] == "node-1"
    with pytest.raises(errors.Conflict):
        await client.bind("p", "default", "node-2")
    await client.evict("p", "default")
    assert "deletionTimestamp" in (await client.get(PODS, "p", "default"))["metadata"]


async def test_a_status_is_updated_without_touching_the_spec(client: Client) -> None:
    made = await client.create(PODS, pod("p"))
    made["status"]["phase"] = "Running"
    made["spec"]["containers"][0]["image"] = "other"
    after = await client.update_status(PODS, made)
    assert (after["status"]["phase"], after["spec"]["containers"][0]["image"]) == ("Running", "i")


async def test_a_dry_run_changes_nothing(client: Client) -> None:
    await client.create(CONFIGMAPS, configmap("a"), dry_run=True)
    assert await client.find(CONFIGMAPS, "a", "default") is None


async def test_names_are_quoted_on_their_way(client: Client) -> None:
    with pytest.raises(errors.ApiError):
        await client.get(CONFIGMAPS, "../../nodes?x=1", "default")


# -------------------------------------------------------------------------------------------- who may come in


async def test_without_credentials_nobody_comes_in(place: Place) -> None:
    with pytest.raises(errors.Unauthorized):
        await place.client(token=None).list(PODS)


async def test_who_may_nothing_is_told_what(place: Place) -> None:
    with pytest.raises(errors.Forbidden, match='User "nobody" cannot list resource "pods"'):
        await place.client("nobody-token").list(PODS)
    with pytest.raises(errors.Forbidden):
        async with place.client("nobody-token").watch(PODS):
            pass


async def test_admission_is_not_passed_by(client: Client) -> None:
    made = await client.create(PODS, pod("p"))
    keys = {toleration["key"] for toleration in made["spec"]["tolerations"]}
    assert keys == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    with pytest.raises(errors.NotFound, match='namespaces "nowhere" not found'):
        await client.create(CONFIGMAPS, {**configmap("a"), "metadata": {"name": "a", "namespace": "nowhere"}})


# ---------------------------------------------------------------------------------------------------- watches


async def next_events(events: AsyncIterator[WatchEvent], count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while len(found) < count:
        event = await asyncio.wait_for(anext(events), 60)
        if event.type != "BOOKMARK":
            found.append((event.type, decode_document(event.object)["metadata"]["name"]))
    return found


async def test_a_watch_tells_changes_after_its_revision_in_order(client: Client) -> None:
    first = await client.create(CONFIGMAPS, configmap("a"))
    async with client.watch(
        CONFIGMAPS, "default", resource_version=first["metadata"]["resourceVersion"]
    ) as events:
        await client.create(CONFIGMAPS, configmap("b"))
        await client.patch(CONFIGMAPS, "a", {"data": {"x": "1"}}, "default")
        await client.delete(CONFIGMAPS, "b", "default")
        assert await next_events(events, 3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_a_watch_by_selector_tells_of_entering_and_leaving(client: Client) -> None:
    async with client.watch(CONFIGMAPS, "default", label_selector="in=yes", resource_version="") as events:
        document = configmap("a")
        await client.create(CONFIGMAPS, document)
        for labels in ({"in": "yes"}, {"in": "no"}):
            await client.patch(CONFIGMAPS, "a", {"metadata": {"labels": labels}}, "default")
        assert await next_events(events, 2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_ends_by_itself_at_its_time(client: Client) -> None:
    async with asyncio.timeout(30), client.watch(CONFIGMAPS, "default", timeout_seconds=1) as events:
        assert {event.type async for event in events} <= {"ADDED"}  # what was there, and then the end


async def test_a_watch_too_far_back_says_gone(place: Place, client: Client) -> None:
    first = await client.create(CONFIGMAPS, configmap("a"))
    for n in range(3):
        await client.patch(CONFIGMAPS, "a", {"data": {"x": str(n)}}, "default")
    await place.running.store.compact(place.running.store.revision)
    with pytest.raises(errors.Gone):
        version = first["metadata"]["resourceVersion"]
        async with client.watch(CONFIGMAPS, "default", resource_version=version) as events:
            await asyncio.wait_for(anext(events), 60)


async def test_large_objects_arrive_whole(client: Client) -> None:
    async with client.watch(CONFIGMAPS, "default") as events:
        await client.create(CONFIGMAPS, configmap("big", x="é" * 200_000))
        names = []
        while "big" not in names:
            names += [name for _, name in await next_events(events, 1)]
    assert len((await client.get(CONFIGMAPS, "big", "default"))["data"]["x"]) == 200_000


# ------------------------------------------------------------------------------------------ what builds on it


async def eventually(claim: Callable[[], bool]) -> None:
    for _ in range(6000):
        if claim():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never became true")


async def test_an_informer_follows_the_server_across_a_compaction(place: Place, client: Client) -> None:
    informer = Informer(client, CONFIGMAPS, RealClock(), decode_document, namespace="default")
    task = asyncio.create_task(informer.run())
    await asyncio.wait_for(informer.cache.wait_synced(), 60)
    await client.create(CONFIGMAPS, configmap("a", x="1"))
    await eventually(lambda: any(item["metadata"]["name"] == "a" for item in informer.cache))
    informer.reflector.resource_version = "1"  # as after a long sleep
    await place.running.store.compact(place.running.store.revision)
    place.running.server.watches.close()
    await client.patch(CONFIGMAPS, "a", {"data": {"x": "2"}}, "default")
    await eventually(lambda: any(item.get("data") == {"x": "2"} for item in informer.cache))
    assert not task.done()
    task.cancel()


async def test_events_are_recorded_and_counted(client: Client) -> None:
    recorder = Recorder(client, RealClock(), "weir-test")
    task = asyncio.create_task(recorder.run())
    for _ in range(3):
        recorder.record(ObjectReference("Pod", "p", "default"), "Normal", "Testing", "hello")
    await asyncio.wait_for(recorder.flush(), 60)
    found = await client.list(by_kind("v1", "Event"), "default", field_selector="reason=Testing")
    assert [item["count"] for item in found.documents()] == [3]
    task.cancel()


async def test_of_two_electors_one_acts_and_the_other_takes_over(client: Client) -> None:
    acting: list[str] = []
    holding: set[str] = set()
    most_at_once = 0
    tasks = {}
    for name in ("a", "b"):

        async def act(leadership: Leadership, name: str = name) -> None:
            nonlocal most_at_once
            acting.append(name)
            holding.add(name)
            most_at_once = max(most_at_once, len(holding))
            try:
                await leadership.confirm()
                await leadership.lost.wait()
            finally:
                holding.discard(name)

        elector = Elector(client, RealClock(), name="test", namespace="default", identity=name)
        tasks[name] = asyncio.create_task(elector.run(act))
        await eventually(lambda: acting == ["a"])
    tasks["a"].cancel()
    await eventually(lambda: acting == ["a", "b"])
    tasks["b"].cancel()
    await asyncio.wait(tasks.values())
    assert (acting, most_at_once) == (["a", "b"], 1)


# ----------------------------------------------------------------------------------------------- network only


async def test_a_client_certificate_of_the_kubeconfig_lets_in(tmp_path: Path) -> None:
    async with a_server(tmp_path):
        client = Client(HttpTransport(load(tmp_path / "kubeconfig")))
        assert (await client.list(NAMESPACES)).items
        await client.close()


async def test_a_server_with_another_authority_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with a_server(tmp_path / "one") as one, a_server(tmp_path / "two"):
        access = replace(load(tmp_path / "two" / "kubeconfig"), server=one.url)
        client = Client(HttpTransport(access))
        with pytest.raises(Unreachable, match="its certificate is not trusted"):
            await client.list(NAMESPACES)
        await client.close()


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    client = Client(HttpTransport(Access("http://127.0.0.1:1")))
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        await client.list(PODS)
    await client.close()


async def test_a_server_that_is_busy_is_asked_again_when_it_says() -> None:
    from weir.client.api import Reply
    from weir.clock import VirtualClock

    class Busy:
        calls = 0

        async def request(
            self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
        ) -> Reply:
            self.calls += 1
            if self.calls < 3:
                return Reply(429, b"{}", {"retry-after": "5"})
            return Reply(200, b'{"metadata":{"resourceVersion":"1"},"items":[]}', {})

    clock, transport = VirtualClock(), Busy()
    task = asyncio.create_task(Client(transport, clock=clock).list(PODS))  # type: ignore[arg-type]
    await clock.advance(9.9)
    assert not task.done()
    await clock.advance(0.2)
    assert (await task).items == [] and transport.calls == 3


async def test_two_servers_on_one_etcd_are_one_cluster(tmp_path: Path, etcd_server: EtcdServer) -> None:
    """What one server acknowledged, the other lists; both tell the same history under the same revisions."""
    store = f"etcd={etcd_server.endpoint}"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with a_server(tmp_path / "one", store=store) as one, a_server(tmp_path / "two", store=store) as two:
        clients = [Place(running, tmp_path, "local").client() for running in (one, two)]
        start = (await clients[1].list(CONFIGMAPS, "default")).resource_version
        async with clients[1].watch(CONFIGMAPS, "default", resource_version=start) as events:
            made = [await clients[n % 2].create(CONFIGMAPS, configmap(f"c{n}")) for n in range(6)]
            listed = (await clients[1].list(CONFIGMAPS, "default")).documents()
            assert {item["metadata"]["name"] for item in listed} >= {f"c{n}" for n in range(6)}
            told: list[str] = []
            while len(told) < 6:
                event = await asyncio.wait_for(anext(events), 60)
                if event.type != "BOOKMARK":
                    told.append(decode_document(event.object)["metadata"]["resourceVersion"])
        assert told == [item["metadata"]["resourceVersion"] for item in made]
        answers = await asyncio.gather(
            *(clients[n % 2].create(CONFIGMAPS, configmap("same")) for n in range(10)), return_exceptions=True
        )
        assert sum(isinstance(answer, dict) for answer in answers) == 1
        assert sum(isinstance(answer, errors.AlreadyExists) for answer in answers) == 9
        await clients[0].delete_collection(CONFIGMAPS, "default")


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_the_server_is_the_same_on_every_store(tmp_path: Path, store: str) -> None:
    async with a_server(tmp_path, store=store) as running:
        client = Place(running, tmp_path, "http").client()
        made = await client.create(CONFIGMAPS, configmap("a", x="1"))
        assert await client.get(CONFIGMAPS, "a", "default") == made
        await client.close()


async def test_a_restarted_server_resumes_its_clients_watches(tmp_path: Path) -> None:
    async with a_server(tmp_path, store="sqlite") as running:
        client = Place(running, tmp_path, "local").client()
        first = await client.create(CONFIGMAPS, configmap("a"))
        await client.create(CONFIGMAPS, configmap("b"))
    async with a_server(tmp_path, store="sqlite") as running:
        client = Place(running, tmp_path, "local").client()
        version = first["metadata"]["resourceVersion"]
        async with client.watch(CONFIGMAPS, "default", resource_version=version) as events:
            assert await next_events(events, 1) == [("ADDED", "b")]
