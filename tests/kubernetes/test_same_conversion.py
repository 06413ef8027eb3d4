"""A real API server and weir's convert custom resources by a webhook alike: same answers, and the same is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kubernetes.conversion_webhook import BAD, GROUP, client_config, definition, running_webhook
from tests.kubernetes.custom_resource_requests import CRDS
from tests.kubernetes.more_requests import Questions
from tests.kubernetes.requests import APPLY, JSON_PATCH, MERGE, PARTIAL, TABLE, Asked, Document
from tests.kubernetes.test_same_custom_resources import ask, wait_established
from tests.kubernetes.test_same_requests import CONNECTIONS, both_servers, call, masked


def path(plural: str, version: str, name: str = "") -> str:
    return f"/apis/{GROUP}/{version}/namespaces/default/{plural}" + (f"/{name}" if name else "")


def made(kind: str, version: str, name: str, /, metadata: Document | None = None, **spec: Any) -> Document:
    head = {"apiVersion": f"{GROUP}/{version}", "kind": kind}
    return {**head, "metadata": {"name": name, **(metadata or {})}, "spec": spec}


def links() -> Iterator[Asked]:
    """What can be done with objects that a webhook converts."""
    q = Questions("links")
    labels = {"labels": {"of": "a"}}
    q.ask("stored", "POST", path("links", "v1"), made("Link", "v1", "a", labels, address="h:1", replicas=2))
    q.ask("as stored", "GET", path("links", "v1", "a"))
    q.ask("converted", "GET", path("links", "v2", "a"))
    q.ask("as table", "GET", path("links", "v2", "a"), accept=TABLE)
    q.ask("metadata", "GET", path("links", "v2", "a"), accept=PARTIAL)
    q.ask("made in v2", "POST", path("links", "v2"), made("Link", "v2", "b", host="x", port=2))
    q.ask("read in v1", "GET", path("links", "v1", "b"))
    q.ask("read in v2", "GET", path("links", "v2", "b"))
    q.ask("dry run", "POST", f"{path('links', 'v2')}?dryRun=All", made("Link", "v2", "dry", host="x"))
    q.ask("wrong", "POST", path("links", "v2"), made("Link", "v2", "c", host="x", port=70000))
    q.ask("unknown", "POST", path("links", "v2"), made("Link", "v2", "c", host="x", address="y:1"))
    q.ask("merge", "PATCH", path("links", "v2", "a"), {"spec": {"port": 3}}, MERGE)
    q.ask("merged", "GET", path("links", "v1", "a"))
    q.ask("merge wrong", "PATCH", path("links", "v2", "a"), {"spec": {"port": 70000}}, MERGE)
    q.ask("merge dry", "PATCH", f"{path('links', 'v2', 'a')}?dryRun=All", {"spec": {"port": 4}}, MERGE)
    change = [{"op": "replace", "path": "/spec/host", "value": "other"}]
    q.ask("json", "PATCH", path("links", "v2", "a"), change, JSON_PATCH)
    q.ask("json v1", "PATCH", path("links", "v1", "a"), change, JSON_PATCH)
    applied = made("Link", "v2", "d", host="applied", port=5)
    q.ask("applied new", "PATCH", f"{path('links', 'v2', 'd')}?fieldManager=m", applied, APPLY)
    applied = made("Link", "v2", "d", host="applied", port=6)
    q.ask("applied again", "PATCH", f"{path('links', 'v2', 'd')}?fieldManager=m", applied, APPLY)
    q.ask(
        "conflict",
        "PATCH",
        f"{path('links', 'v2', 'd')}?fieldManager=o",
        {**applied, "spec": {"port": 7}},
        APPLY,
    )
    q.ask("applied read", "GET", path("links", "v1", "d"))
    q.ask("status", "PATCH", f"{path('links', 'v2', 'a')}/status", {"status": {"replicas": 4}}, MERGE)
    q.ask("status read", "GET", f"{path('links', 'v2', 'a')}/status")
    q.ask("scale", "GET", f"{path('links', 'v2', 'a')}/scale")
    q.ask("scaled", "PATCH", f"{path('links', 'v2', 'a')}/scale", {"spec": {"replicas": 9}}, MERGE)
    q.ask("scaled read", "GET", path("links", "v1", "a"))
    q.ask("list", "GET", path("links", "v2"))
    q.ask("list stored", "GET", path("links", "v1"))
    q.ask("list table", "GET", path("links", "v2"), accept=TABLE)
    q.ask("list by field", "GET", f"{path('links', 'v2')}?fieldSelector=spec.host%3Dother")
    q.ask("list by label", "GET", f"{path('links', 'v2')}?labelSelector=version%3Dv2")
    q.ask("list by old label", "GET", f"{path('links', 'v2')}?labelSelector=version%3Dv1")
    q.ask("page", "GET", f"{path('links', 'v2')}?limit=2")
    q.ask("watch", "GET", f"{path('links', 'v2')}?watch=true&timeoutSeconds=2")
    q.ask("beta", "POST", path("betas", "v2"), made("Beta", "v2", "a", host="x", port=2))
    q.ask("beta read", "GET", path("betas", "v1", "a"))
    q.ask("delete", "DELETE", path("links", "v2", "a"))
    q.ask("gone", "GET", path("links", "v2", "a"))
    held = {"finalizers": ["example.com/f"]}
    q.ask("held", "POST", path("links", "v2"), made("Link", "v2", "h", held, host="x", port=2))
    q.ask("delete held", "DELETE", path("links", "v2", "h"))
    q.ask("let go", "PATCH", path("links", "v2", "h"), {"metadata": {"finalizers": None}}, MERGE)
    q.ask("delete all", "DELETE", path("links", "v2"))
    q.ask("list empty", "GET", path("links", "v2"))
    yield from q.asked


def breaks() -> Iterator[Asked]:
    """Objects whose webhook answers wrongly when they are read, and when they are written."""
    q = Questions("breaks")
    for name in BAD:
        labels = {"labels": {"of": "a"}, "annotations": {"of": "a"}}
        body = made("Break", "v1", name, labels, address="h:1")
        q.ask(f"{name} stored", "POST", path("breaks", "v1"), body)
        q.ask(f"{name} read", "GET", path("breaks", "v2", name))
        q.ask(
            f"{name} written", "POST", f"{path('breaks', 'v2')}", made("Break", "v2", name, labels, host="h")
        )
        q.ask(f"{name} deleted", "DELETE", path("breaks", "v1", name))
        q.ask(f"{name} made", "POST", f"{path('breaks', 'v2')}", made("Break", "v2", name, labels, host="h"))
        q.ask(f"{name} patched", "PATCH", path("breaks", "v2", name), {"spec": {"port": 3}}, MERGE)
    for plural in ("nowheres", "nobodies", "untrusteds"):
        kind = plural.capitalize()[:-1]
        q.ask(f"{plural} stored", "POST", path(plural, "v1"), made(kind, "v1", "a", address="h:1"))
        q.ask(f"{plural} stored too", "POST", path(plural, "v1"), made(kind, "v1", "z", address="h:1"))
        q.ask(f"{plural} read", "GET", path(plural, "v2", "a"))
        q.ask(f"{plural} written", "POST", path(plural, "v2"), made(kind, "v2", "b", host="h"))
        q.ask(f"{plural} patched", "PATCH", path(plural, "v2", "a"), {"spec": {"port": 1}}, MERGE)
        q.ask(
            f"{plural} put", "PUT", path(plural, "v2", "a"), made(kind, "v2", "a", {"resourceVersion": "1"})
        )
        q.ask(f"{plural} listed", "GET", path(plural, "v2"))
        q.ask(f"{plural} selected", "GET", f"{path(plural, 'v2')}?labelSelector=a")
        q.ask(f"{plural} status", "GET", f"{path(plural, 'v2', 'a')}/status")
        q.ask(
            f"{plural} scaled", "PATCH", f"{path(plural, 'v2', 'a')}/scale", {"spec": {"replicas": 9}}, MERGE
        )
        q.ask(f"{plural} deleted in v2", "DELETE", path(plural, "v2", "a"))
        q.ask(f"{plural} deleted", "DELETE", path(plural, "v1", "a"))
        q.ask(f"{plural} scale", "GET", f"{path(plural, 'v2', 'a')}/scale")
    yield from q.asked


CASES = [*links(), *breaks()]
#: Answers about an object that was written in both versions. A real server asks the webhook which fields of the other
#: version changed with it; weir lets their owners keep them (decision 86).
OWNED_APART = frozenset(
    f"more links {name}"
    for name in (
        *("11: merge", "12: merged", "14: merge dry", "15: json", "16: json v1", "21: status"),
        *("22: status read", "25: scaled read", "26: list", "27: list stored", "28: list table"),
        *("29: list by field", "30: list by label", "32: page", "33: watch"),
    )
)


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> tuple[dict[str, list[Any]], list[set[str]]]:
    """What both servers say to every case, and which objects of each kind they had converted."""
    folder = tmp_path_factory.mktemp("conversion")
    answers: dict[str, list[Any]] = {case.name: [] for case in CASES}
    sent: list[set[str]] = []
    with both_servers(folder) as servers, running_webhook(folder) as (base, authority, asked):
        good = client_config(base, authority)
        service = {"service": {"name": "none", "namespace": "default", "path": "/convert"}}
        for server in servers:
            for body in (
                definition("links", good),
                definition("betas", good, ("v9", "v1beta1", "v1")),
                definition("breaks", good),
                definition("nowheres", {"url": "https://127.0.0.1:1/x"}),
                definition("nobodies", service),
                definition("untrusteds", {"url": good["url"]}),
            ):
                code, said, _ = call(server, Asked("", "POST", CRDS, body))
                assert code == 201, said
                wait_established(server, body["metadata"]["name"])
            asked.clear()
            for case in CASES:
                answers[case.name].append(ask(server, case))
            sent.append({shown for review in asked for shown in objects_of(review)})
            CONNECTIONS.pop(server).close()
    return answers, sent


def without(value: Any, *names: str) -> Any:
    """Return *value* without the fields of these names, wherever they are."""
    if isinstance(value, dict):
        return {key: without(inner, *names) for key, inner in value.items() if key not in names}
    return [without(inner, *names) for inner in value] if isinstance(value, list) else value


def objects_of(review: Document) -> Iterator[str]:
    """Yield what a review asks about, object by object: how many go together is each server's own affair."""
    request = review["request"]
    assert set(request) == {"uid", "desiredAPIVersion", "objects"}
    for one in request["objects"]:
        if one["kind"] in ("Link", "Beta"):
            what = [review["path"], review["kind"], review["apiVersion"], request["desiredAPIVersion"]]
            # A dry run sends what was read with its version; who owns what is told apart above.
            yield json.dumps(
                [*what, masked(without(one, "managedFields", "resourceVersion"))], sort_keys=True
            )


@pytest.mark.parametrize("name", [case.name for case in CASES if case.name not in OWNED_APART])
def test_both_servers_answer_the_same(found, name):
    real, weir = found[0][name]
    assert weir == real


@pytest.mark.parametrize("name", sorted(OWNED_APART))
def test_answers_differ_in_owners_alone(found, name):
    real, weir = found[0][name]
    assert weir != real
    assert without(weir, "managedFields") == without(real, "managedFields")


def test_weir_asks_for_nothing_that_a_real_server_does_not_ask_for(found):
    """A real server asks for more: its cache of every version does, and the owners of fields."""
    real, weir = found[1]
    assert len(weir) > 20
    assert not weir - real
