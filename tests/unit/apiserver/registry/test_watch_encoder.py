"""Claims about messages that are encoded once."""

import json
from typing import Any

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.registry.watch_encoder import Messages
from weir.apiserver.transport import protobuf
from weir.objects.kinds import by_kind

# ── answers in protobuf say what the same answers in JSON say, from lists to errors ──


NAMESPACE = "/api/v1/namespaces/golden"
PODS = f"{NAMESPACE}/pods"
PROTOBUF = "application/vnd.kubernetes.protobuf"
BOTH = f"{PROTOBUF},application/json"
METADATA = ";as={};g=meta.k8s.io;v=v1"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"b": "2", "a": "1"}},
    "spec": {
        "containers": [
            {"name": "c", "image": "registry.example/app:1", "resources": {"requests": {"cpu": "1"}}}
        ]
    },
}


@pytest.fixture
async def cluster():
    found = Cluster(GATES_ON)
    await found.start()
    return found


async def call(cluster, method, path, accept, body=None, query="", content="application/json"):
    sent = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    return await cluster.call(method, path, query, {"Accept": accept, "Content-Type": content}, sent)


def without_nulls(value: Any) -> Any:
    """Return a document without what JSON prints for nothing and protobuf leaves out."""
    if isinstance(value, dict):
        pairs = {name: without_nulls(item) for name, item in value.items()}
        return {name: item for name, item in pairs.items() if item not in (None, {}, [], "", 0, False)}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


async def both(cluster, path, query="", shape=""):
    """Return the answer in protobuf and that in JSON."""
    found = await call(cluster, "GET", path, f"{PROTOBUF}{shape},application/json{shape}", query=query)
    assert found["headers"]["Content-Type"].startswith(PROTOBUF)
    return found, await call(cluster, "GET", path, f"application/json{shape}", query=query)


@pytest.mark.parametrize("path", [PODS, f"{PODS}/a", "/api/v1/nodes", f"{NAMESPACE}/configmaps?limit=1"])
async def test_objects_and_lists_say_the_same(cluster, path):
    await call(cluster, "POST", PODS, "", POD)
    path, _, query = path.partition("?")
    ours, theirs = await both(cluster, path, query)
    assert without_nulls(ours["body"]) == without_nulls(theirs["body"])


async def test_a_write_in_protobuf_is_answered_in_protobuf(cluster):
    made = await call(cluster, "POST", PODS, BOTH, protobuf.to_bytes(POD), content=PROTOBUF)
    assert (made["code"], made["headers"]["Content-Type"]) == (201, PROTOBUF)
    assert made["body"]["metadata"]["labels"] == {"a": "1", "b": "2"}
    made["body"]["metadata"]["labels"]["c"] = "3"
    sent = protobuf.to_bytes(made["body"])
    changed = await call(cluster, "PUT", f"{PODS}/a", PROTOBUF, sent, content=PROTOBUF)
    stored = await call(cluster, "GET", f"{PODS}/a", "application/json")
    assert without_nulls(changed["body"]) == without_nulls(stored["body"])
    assert stored["body"]["metadata"]["labels"]["c"] == "3"


async def test_events_say_the_same(cluster):
    made = await call(cluster, "POST", PODS, "", POD)
    version = made["body"]["metadata"]["resourceVersion"]
    await call(
        cluster,
        "PATCH",
        f"{PODS}/a",
        BOTH,
        b'{"metadata":{"labels":{"a":"9"}}}',
        content="application/merge-patch+json",
    )
    await call(cluster, "DELETE", f"{PODS}/a", BOTH, query="gracePeriodSeconds=0")
    query = f"watch=true&resourceVersion={version}&timeoutSeconds=1"
    ours, theirs = await both(cluster, PODS, query)
    types = [event["type"] for event in ours["events"]]
    assert (types[0], types[-1]) == ("MODIFIED", "DELETED")
    assert without_nulls(ours["events"]) == without_nulls(theirs["events"])


async def test_a_watch_begins_with_what_is_there_and_a_bookmark(cluster):
    await call(cluster, "POST", PODS, "", POD)
    query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=1"
    query += "&resourceVersionMatch=NotOlderThan"
    ours, theirs = await both(cluster, PODS, query)
    assert [event["type"] for event in ours["events"]] == ["ADDED", "BOOKMARK"]
    assert without_nulls(ours["events"]) == without_nulls(theirs["events"])


async def test_a_compacted_watch_ends_with_a_status_in_protobuf(cluster):
    await call(cluster, "POST", PODS, "", POD)
    await cluster.store.compact(cluster.store.revision)
    ours, _ = await both(cluster, PODS, "watch=true&resourceVersion=1&timeoutSeconds=1")
    (event,) = ours["events"]
    assert (event["type"], event["object"]["kind"], event["object"]["code"]) == ("ERROR", "Status", 410)


async def test_metadata_alone_is_written_of_one_of_many_and_of_changes(cluster):
    await call(cluster, "POST", PODS, "", POD)
    one = METADATA.format("PartialObjectMetadata")
    many = METADATA.format("PartialObjectMetadataList")
    ours, theirs = await both(cluster, f"{PODS}/a", shape=one)
    assert without_nulls(ours["body"]) == without_nulls(theirs["body"])
    ours, theirs = await both(cluster, PODS, shape=many)
    assert (ours["body"]["kind"], len(ours["body"]["items"])) == ("PartialObjectMetadataList", 1)
    for item in theirs["body"]["items"]:  # which say their kind in JSON only, as those of Kubernetes do
        del item["kind"], item["apiVersion"]
    assert without_nulls(ours["body"]) == without_nulls(theirs["body"])
    ours, theirs = await both(cluster, PODS, "watch=true&timeoutSeconds=1", one)
    assert ours["events"] and without_nulls(ours["events"]) == without_nulls(theirs["events"])


async def test_a_table_is_never_protobuf(cluster):
    table = METADATA.format("Table")
    found = await call(cluster, "GET", PODS, f"{PROTOBUF}{table},application/json{table}")
    assert (found["headers"]["Content-Type"], found["body"]["kind"]) == ("application/json", "Table")


async def test_errors_come_as_asked_for(cluster):
    ours, theirs = await both(cluster, f"{PODS}/none")
    assert ours["code"] == 404 and without_nulls(ours["body"]) == without_nulls(theirs["body"])


async def test_reviews_and_subresources_are_answered_in_protobuf(cluster):
    review = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    found = await call(cluster, "POST", path, BOTH, protobuf.to_bytes(review), content=PROTOBUF)
    assert (found["headers"]["Content-Type"], found["body"]["status"]["allowed"]) == (PROTOBUF, True)


def test_only_the_newest_message_of_an_object_is_kept_and_all_within_the_bound():
    pod, messages = by_kind("v1", "Pod"), Messages(most_bytes=500)
    values = [b'{"metadata":{"resourceVersion":"%d","name":"%s"}}' % (at, b"x" * 150) for at in range(9)]
    first = messages.of(pod, "/a", values[0])
    assert messages.of(pod, "/a", values[0]) is first
    assert messages.of(pod, "/a", values[1]) != first and messages.find(pod, "/a", values[0]) is None
    kept = [messages.of(pod, f"/{at}", value) for at, value in enumerate(values)]
    found = [messages.find(pod, f"/{at}", value) for at, value in enumerate(values)]
    assert found[0] is None and found[-1] == kept[-1]
    assert sum(len(message) for message in found if message) <= 500
