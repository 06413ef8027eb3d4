"""Custom resources that a webhook converts, on a server in this process.

Answers and failures are held against a real server's in tests/kubernetes/test_same_conversion.py.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.unit.apiserver.compat.customresources.world import CRDS, definition, server
from weir.apiserver.compat.customresources import webhook_conversion
from weir.apiserver.compat.customresources.webhook_conversion import converted_objects
from weir.apiserver.compat.webhooks.client import WebhookClient
from weir.apiserver.compat.webhooks.review import CallFailed
from weir.apiserver.registry import conversion
from weir.apiserver.transport.http import Request, Stream
from weir.errors import InternalError

V1, V2 = (f"/apis/example.com/{version}/namespaces/default/widgets" for version in ("v1", "v2"))
MERGE = "application/merge-patch+json"


def two_versions() -> dict:
    first = {"type": "object", "properties": {"address": {"type": "string"}}}
    second = {
        "type": "object",
        "properties": {"host": {"type": "string"}, "late": {"type": "string", "default": "x"}},
    }
    found = definition(first)
    (version,) = found["spec"]["versions"]
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": second}}}
    more = {**version, "name": "v2", "storage": False, "schema": schema}
    found["spec"]["versions"].append({**more, "selectableFields": [{"jsonPath": ".spec.host"}]})
    client = {"url": "https://hook.example.com/convert"}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    found["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return found


class Hook:
    """Answers as a conversion webhook, and keeps what it was asked."""

    def __init__(self):
        self.asked, self.error, self.gate, self.more = [], None, None, asyncio.Condition()

    async def post(self, client, endpoint, body, seconds):
        review = json.loads(body)
        async with self.more:
            self.asked.append(review["request"])
            self.more.notify_all()
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise CallFailed(self.error)
        found = [
            self.convert(one, review["request"]["desiredAPIVersion"]) for one in review["request"]["objects"]
        ]
        response = {
            "uid": review["request"]["uid"],
            "result": {"status": "Success"},
            "convertedObjects": found,
        }
        return json.dumps({**review, "response": response}).encode()

    @staticmethod
    def convert(one, desired):
        spec = one["spec"]
        if desired.endswith("v2"):
            spec = {"host": spec["address"], "bogus": 1}
        else:
            spec = {"address": spec["host"]}
        labels = {**(one["metadata"].get("labels") or {}), "as": desired[-2:]}
        return {**one, "apiVersion": desired, "spec": spec, "metadata": {**one["metadata"], "labels": labels}}

    async def called(self, times):
        """Return once it was asked so often."""
        async with self.more:
            await asyncio.wait_for(self.more.wait_for(lambda: len(self.asked) >= times), 60)

    def names(self):
        return [[one["metadata"]["name"] for one in request["objects"]] for request in self.asked]


@pytest.fixture
def hook(monkeypatch):
    found = Hook()
    monkeypatch.setattr(WebhookClient, "post", lambda *arguments: found.post(*arguments))
    return found


@pytest.fixture
async def world(tmp_path, hook):
    async with server(tmp_path) as found:
        await found.define(two_versions())
        yield found


def widget(version, name, **spec):
    head = {"apiVersion": f"example.com/{version}", "kind": "Widget"}
    return {**head, "metadata": {"name": name}, "spec": spec}


async def test_an_object_in_the_wanted_version_is_not_sent(world, hook):
    await world.ask("POST", V1, widget("v1", "a", address="h"))
    assert (await world.ask("GET", f"{V1}/a"))[1]["spec"] == {"address": "h"}
    assert (await world.ask("GET", V1))[1]["items"][0]["spec"] == {"address": "h"}
    assert hook.asked == []


async def test_a_read_is_pruned_and_gets_no_defaults_of_the_other_version(world, hook):
    await world.ask("POST", V1, widget("v1", "a", address="h"))
    _, found = await world.ask("GET", f"{V2}/a")
    assert (found["apiVersion"], found["spec"]) == ("example.com/v2", {"host": "h"})
    assert found["metadata"]["labels"] == {"as": "v2"}
    (request,) = hook.asked
    assert request["desiredAPIVersion"] == "example.com/v2"
    assert "resourceVersion" not in request["objects"][0]["metadata"]
    assert found["metadata"]["resourceVersion"]


async def test_a_write_is_stored_in_the_storage_version(world, hook):
    code, made = await world.ask("POST", V2, widget("v2", "a", host="h"))
    assert (code, made["spec"]) == (201, {"host": "h"})
    assert [one["desiredAPIVersion"][-2:] for one in hook.asked] == ["v1", "v2"]
    (stored,) = world.running.store.range("/registry/example.com/widgets/").items
    assert json.loads(stored.value)["spec"] == {"address": "h"}
    assert json.loads(stored.value)["apiVersion"] == "example.com/v1"
    _, changed = await world.ask("PATCH", f"{V2}/a", {"spec": {"host": "g"}}, MERGE)
    assert changed["spec"] == {"host": "g"}
    assert (await world.ask("GET", f"{V1}/a"))[1]["spec"] == {"address": "g"}


async def test_a_list_is_one_request_and_selectors_see_what_was_converted(world, hook):
    for name in "abc":
        await world.ask("POST", V1, widget("v1", name, address=f"h-{name}"))
    _, listed = await world.ask("GET", V2)
    assert [one["spec"]["host"] for one in listed["items"]] == ["h-a", "h-b", "h-c"]
    assert hook.names() == [["a", "b", "c"]]
    for query in ("fieldSelector=spec.host%3Dh-b", "labelSelector=as%3Dv2&limit=1"):
        assert len((await world.ask("GET", f"{V2}?{query}"))[1]["items"]) == 1
    assert (await world.ask("GET", f"{V2}?labelSelector=as%3Dv1"))[1]["items"] == []


async def test_a_long_list_is_several_requests(world, hook, monkeypatch):
    monkeypatch.setattr(webhook_conversion, "MOST_OBJECTS", 2)
    for name in "abcde":
        await world.ask("POST", V1, widget("v1", name, address=name))
    _, listed = await world.ask("GET", V2)
    assert [one["spec"]["host"] for one in listed["items"]] == list("abcde")
    assert hook.names() == [["a", "b"], ["c", "d"], ["e"]]


async def test_a_failure_stores_nothing(world, hook):
    hook.error = "failed to call webhook: no luck"
    code, said = await world.ask("POST", V2, widget("v2", "a", host="h"))
    assert (code, said["message"]) == (
        500,
        "conversion webhook for example.com/v2, Kind=Widget failed: no luck",
    )
    assert (await world.ask("GET", f"{V2}/a"))[0] == 404


async def test_requests_are_counted_with_what_failed(world, hook):
    await world.ask("POST", V1, widget("v1", "a", address="h"))
    await world.ask("GET", f"{V2}/a")
    hook.error = "failed to call webhook: no luck"
    await world.ask("GET", f"{V2}/a")
    said = world.running.metrics.registry.render()
    for line in (
        'apiserver_conversion_webhook_request_total{result="success",failure_type=""} 1',
        'apiserver_conversion_webhook_request_total{result="failure",'
        'failure_type="conversion_webhook_call_failure"} 1',
        'apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="widgets.example.com",from_version="v1",'
        'to_version="v2",succeeded="true"} 1',
    ):
        assert line in (said if isinstance(said, str) else said.decode())


async def test_a_definition_goes_with_its_objects_though_its_webhook_is_gone(world, hook):
    await world.ask("POST", V1, widget("v1", "a", address="h"))
    hook.error = "gone"
    await world.ask("DELETE", f"{CRDS}/widgets.example.com")
    await world.until(f"{CRDS}/widgets.example.com", lambda code, _: code == 404)
    assert hook.asked == []


class Sink:
    """Keeps the events a watch sends."""

    pending_bytes = 0

    def __init__(self):
        self.events, self.over = asyncio.Queue(), asyncio.Event()

    def write_chunk(self, data):
        for line in data.split(b"\r\n"):
            if line.startswith(b"{"):
                event = json.loads(line)
                self.events.put_nowait((event["type"], event["object"]))

    def close(self):
        self.over.set()

    async def next(self):
        return await asyncio.wait_for(self.events.get(), 60)

    async def end(self):
        """Return once the watch is over."""
        await asyncio.wait_for(self.over.wait(), 60)


@pytest.fixture
async def watching(world):
    tasks = []

    async def watch(query=""):
        headers = {b"authorization": b"Bearer " + world.running.admin_token.encode()}
        answer = await world.running.server.handle(Request("GET", V2, f"watch=true{query}", headers, b""))
        assert isinstance(answer, Stream)
        sink = Sink()
        tasks.append(asyncio.ensure_future(answer.run(sink)))
        return sink

    yield watch
    for task in tasks:
        task.cancel()


async def test_a_watch_tells_changes_in_order_while_a_webhook_is_slow(world, hook, watching):
    await world.ask("POST", V1, widget("v1", "a", address="first"))
    sinks = [await watching(), await watching()]
    for sink in sinks:
        assert (await sink.next())[1]["spec"] == {"host": "first"}
    hook.asked.clear()
    hook.gate = asyncio.Event()
    await world.ask("PATCH", f"{V1}/a", {"spec": {"address": "second"}}, MERGE)
    await world.ask("DELETE", f"{V1}/a")
    await hook.called(1)
    assert all(sink.events.empty() for sink in sinks)
    hook.gate.set()
    for sink in sinks:
        told = [await sink.next(), await sink.next()]
        assert [(type, one["spec"]["host"]) for type, one in told] == [
            ("MODIFIED", "second"),
            ("DELETED", "second"),
        ]
        versions = [int(one["metadata"]["resourceVersion"]) for _, one in told]
        assert versions == sorted(set(versions))
    assert hook.names() == [["a"], ["a"]]  # once for both watches


async def test_a_watch_selects_by_what_was_converted(world, hook, watching):
    await world.ask("POST", V1, widget("v1", "first", address="yes"))
    sink = await watching("&fieldSelector=spec.host%3Dyes")
    await sink.next()
    await world.ask("POST", V1, widget("v1", "a", address="no"))
    await world.ask("PATCH", f"{V1}/a", {"spec": {"address": "yes"}}, MERGE)
    await world.ask("PATCH", f"{V1}/a", {"spec": {"address": "no"}}, MERGE)
    assert [(await sink.next())[0] for _ in range(2)] == ["ADDED", "DELETED"]


async def test_a_collection_is_deleted_by_what_was_converted(world, hook, watching):
    for name, host in (("a", "yes"), ("b", "yes"), ("c", "no")):
        await world.ask("POST", V1, widget("v1", name, address=host))
    sink = await watching("&fieldSelector=spec.host%3Dyes")
    assert [(await sink.next())[1]["metadata"]["name"] for _ in range(2)] == ["a", "b"]
    code, _ = await world.ask("DELETE", f"{V2}?fieldSelector=spec.host%3Dyes")
    assert code == 200
    _, left = await world.ask("GET", V1)
    assert [one["metadata"]["name"] for one in left["items"]] == ["c"]
    told = [await sink.next(), await sink.next()]
    assert sorted((type, one["metadata"]["name"]) for type, one in told) == [
        ("DELETED", "a"),
        ("DELETED", "b"),
    ]


async def test_a_failing_webhook_ends_the_watch_with_its_failure(world, hook, watching):
    await world.ask("POST", V1, widget("v1", "first", address="h"))
    sink = await watching()
    await sink.next()
    hook.error = "no luck"
    await world.ask("POST", V1, widget("v1", "a", address="h"))
    type, status = await sink.next()
    assert (type, status["code"]) == ("ERROR", 500)
    assert status["message"].endswith("Kind=Widget failed: no luck")
    await sink.end()


async def test_a_watch_too_far_behind_its_webhook_is_ended(world, hook, watching, monkeypatch):
    monkeypatch.setattr(conversion, "MOST_WAITING", 1)
    await world.ask("POST", V1, widget("v1", "first", address="h"))
    sink = await watching()
    await sink.next()
    hook.gate = asyncio.Event()
    for name in "abcd":
        await world.ask("POST", V1, widget("v1", name, address="h"))
    await sink.end()
    assert sink.events.empty()


async def test_another_webhook_ends_the_watches_of_the_last_one(world, hook, watching):
    await world.ask("POST", V1, widget("v1", "first", address="h"))
    sink = await watching()
    await sink.next()
    change = {"spec": {"conversion": {"webhook": {"clientConfig": {"url": "https://other.example.com/"}}}}}
    assert (await world.ask("PATCH", f"{CRDS}/widgets.example.com", change, MERGE))[0] == 200
    await sink.end()


SENT = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
GOOD = {**SENT, "apiVersion": "example.com/v2"}


def answer(review="v1", **response):
    given = {"uid": "u", "result": {"status": "Success"}, "convertedObjects": [GOOD], **response}
    head = {"kind": "ConversionReview", "apiVersion": f"apiextensions.k8s.io/{review}"}
    return json.dumps({**head, "response": given}).encode()


def test_an_old_review_needs_no_uid():
    assert converted_objects(answer("v1beta1", uid=""), "u", "v1beta1", "example.com/v2", [SENT]) == [GOOD]
    with pytest.raises(InternalError) as refused:
        converted_objects(answer(uid=""), "u", "v1", "example.com/v2", [SENT])
    assert 'expected response.uid="u", got ""' in refused.value.message


@pytest.mark.parametrize("text, number", [("1.0", 1), ("1.5", 1.5), ("1e2", 100)])
def test_numbers_come_back_as_they_are_printed(text, number):
    body = answer(convertedObjects=[{**GOOD, "spec": {"n": "NUMBER"}}]).replace(b'"NUMBER"', text.encode())
    (found,) = converted_objects(body, "u", "v1", "example.com/v2", [SENT])
    assert json.dumps(found["spec"]["n"]) == json.dumps(number)


@pytest.mark.parametrize(
    "metadata, words",
    [
        ({"name": "b"}, "must have the same name: a != b"),
        ({"name": "a", "namespace": "b"}, "must have the same namespace:  != b"),
        ({"name": "a", "uid": "b"}, "must have the same UID:  != b"),
        (
            {"name": "a", "labels": {"a b": ""}},
            'returned invalid metadata: metadata.labels: Invalid value: "a b"',
        ),
    ],
)
def test_another_object_is_refused(metadata, words):
    body = answer(convertedObjects=[{**GOOD, "metadata": metadata}])
    with pytest.raises(InternalError) as refused:
        converted_objects(body, "u", "v1", "example.com/v2", [SENT])
    assert words in refused.value.message


def test_only_labels_and_annotations_of_the_metadata_change():
    had = {"name": "a", "generation": 3, "labels": {"a": "b"}}
    now = {"name": "a", "generation": 7, "finalizers": ["f"], "annotations": {"c": "d"}}
    body = answer(convertedObjects=[{**GOOD, "metadata": now}])
    (found,) = converted_objects(body, "u", "v1", "example.com/v2", [{**SENT, "metadata": had}])
    assert found["metadata"] == {"name": "a", "generation": 3, "annotations": {"c": "d"}}
