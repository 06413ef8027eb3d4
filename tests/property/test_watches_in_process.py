"""What is told in the server's own process is what the network is told: shortcuts against the plain way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.apiserver.build import Running, build
from weir.apiserver.options import Options, open_store
from weir.apiserver.registry.lists import matcher
from weir.apiserver.transport.http import Request
from weir.client.api import Client, Unreachable, WatchEvent, path_of, read_event
from weir.client.cache import Cache, ObjectKey
from weir.client.local import LocalTransport
from weir.clock import VirtualClock
from weir.controllers.runtime.listers import decoder
from weir.errors import AlreadyExists, Gone, NotFound
from weir.objects.core import Pod
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS, NODES, PODS, by_kind
from weir.selectors import fields, labels

CONFIGMAPS = by_kind("v1", "ConfigMap")
Document = dict[str, Any]
names = st.sampled_from(["a", "b", "c"])
#: what is done to a ConfigMap: created or changed with this label, or deleted
steps = st.lists(st.tuples(names, st.sampled_from(["x", "y", None])), max_size=12)
selections = st.sampled_from(
    [
        {},
        {"labelSelector": "kind=x"},
        {"labelSelector": "kind!=x"},
        {"fieldSelector": "metadata.name=a"},
        {"fieldSelector": "metadata.name!=a", "labelSelector": "kind=y"},
        {"allowWatchBookmarks": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
    ]
)


async def a_server() -> tuple[Running, LocalTransport]:
    clock = VirtualClock()
    options = Options(data_dir=Path(), store="memory", insecure=True, authorization_modes=("AlwaysAllow",))
    running = await build(options, await open_store(options, clock), clock)
    return running, LocalTransport(
        running.server.handle, Request, {"authorization": f"Bearer {running.admin_token}"}
    )


async def _change(client: Client, name: str, label: str | None) -> None:
    metadata = {"name": name, "namespace": "default", "labels": {"kind": label or ""}}
    try:
        if label is None:
            await client.delete(CONFIGMAPS, name, "default", read=False)
        else:
            await client.create(CONFIGMAPS, {"metadata": metadata}, read=False)
    except AlreadyExists:
        await client.patch(CONFIGMAPS, name, {"metadata": metadata}, "default", read=False)
    except NotFound:
        pass


async def _watched(before: list[Any], after: list[Any], query: dict[str, str]) -> list[list[WatchEvent]]:
    """Return what one watch is told as lines, and what the same watch is told as it is."""
    running, transport = await a_server()
    client = Client(transport)
    for name, label in before:
        await _change(client, name, label)
    target = f"{path_of(CONFIGMAPS)}?{urlencode({'watch': 'true', **query})}"
    heard: list[list[WatchEvent]] = [[], []]
    async with transport.stream(target) as (_, lines), transport.events(target) as (_, events):

        async def read_lines() -> None:
            async for line in lines:
                heard[0].append(read_event(line))

        async def read_events() -> None:
            async for event in events:
                heard[1].append(event)

        readers = [asyncio.ensure_future(read_lines()), asyncio.ensure_future(read_events())]
        for name, label in after:
            await _change(client, name, label)
        running.server.watches.close()  # and both come to an end
        await asyncio.gather(*readers)
    await running.stop()
    return heard


@settings(max_examples=40, deadline=None)
@given(before=steps, after=steps, query=selections)
def test_a_watch_in_process_is_told_what_the_lines_say(
    before: list[Any], after: list[Any], query: dict[str, str]
) -> None:
    lines, events = asyncio.run(_watched(before, after, query))
    assert [(e.type, bytes(e.object)) for e in events] == [(e.type, bytes(e.object)) for e in lines]


def test_a_watch_in_process_from_a_forgotten_revision_says_that_it_is_gone() -> None:
    async def heard() -> object:
        running, transport = await a_server()
        await running.store.compact(running.store.revision)
        try:
            async with transport.events(f"{path_of(CONFIGMAPS)}?watch=true&resourceVersion=1") as (_, events):
                return await anext(events)
        except Gone as error:
            return error
        finally:
            await running.stop()

    assert isinstance(asyncio.run(heard()), Gone)


def test_a_reader_in_process_that_is_far_behind_is_cut_off(monkeypatch: Any) -> None:
    monkeypatch.setattr("weir.apiserver.registry.watch.MAX_PENDING_BYTES", 100)

    async def heard() -> object:
        running, transport = await a_server()
        client = Client(transport)
        try:
            async with transport.events(f"{path_of(CONFIGMAPS)}?watch=true") as (_, events):
                await asyncio.sleep(0)
                for number in range(3):
                    await _change(client, f"c-{number}", "x")
                async for _ in events:
                    pass
        except Unreachable as error:
            return error
        finally:
            await running.stop()
        return None

    assert isinstance(asyncio.run(heard()), Unreachable)


# ── selectors read little of a document ──────────────────────────────────────────────────────────

values = st.sampled_from(["", "n", "m", None, True, False])
pods = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": names, "namespace": names})},
    optional={
        "spec": st.none()
        | st.fixed_dictionaries(
            {}, optional={"nodeName": values, "hostNetwork": values, "containers": st.just([{}])}
        ),
        "status": st.none()
        | st.fixed_dictionaries(
            {}, optional={"phase": values, "podIPs": st.just([{"ip": "n"}]), "podIP": values}
        ),
    },
)
requirements = st.lists(
    st.builds(
        lambda field, operator, value: f"{field}{operator}{value}",
        st.sampled_from(
            ["metadata.name", "spec.nodeName", "spec.hostNetwork", "status.phase", "status.podIP"]
        ),
        st.sampled_from(["=", "!="]),
        st.sampled_from(["", "n", "a", "true", "false"]),
    ),
    min_size=1,
    max_size=3,
).map(",".join)


@given(pod=pods, text=requirements, label=st.sampled_from(["", "app=a"]))
def test_a_field_selector_reads_of_the_stored_bytes_what_it_reads_of_the_document(
    pod: Document, text: str, label: str
) -> None:
    pod["metadata"]["labels"] = {"app": "a" if len(text) % 2 else "b"}
    matches = matcher(PODS, label, text)
    assert matches is not None
    plainly = fields.parse(text).matches(pod, "", "Pod") and labels.parse(label).matches(
        pod["metadata"]["labels"]
    )
    assert matches(msgspec.json.encode(pod)) == plainly


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if k.stored and not k.converted], ids=lambda kind: kind.prefix
)
def test_every_field_of_every_kind_is_found_in_the_stored_bytes(kind: Kind) -> None:
    document: Document = {
        "metadata": {"labels": {}},
        "source": {"component": "v"},
        "status": {"succeeded": "v"},
    }
    offered = [field for field in fields.fields_of(kind.group, kind.kind) if field != "source"]
    for field in offered:
        *parts, last = field.split(".")
        at = document
        for part in parts:
            at = at.setdefault(part, {})
        at[last] = "v" if field != "status.podIPs" else [{"ip": "v"}]
    tests = {field: matcher(kind, "", f"{field}=v") for field in offered}
    found = {field: test is not None and test(msgspec.json.encode(document)) for field, test in tests.items()}
    assert found == dict.fromkeys(offered, True)


# ── names ────────────────────────────────────────────────────────────────────────────────────────


@given(name=st.text() | st.from_regex(r"[a-z0-9.~_-]+", fullmatch=True))
def test_a_name_is_quoted_in_a_path_where_it_must_be(name: str) -> None:
    assert path_of(PODS, name, name) == "/api/v1" + (
        f"/namespaces/{quote(name, safe='')}" if name else ""
    ) + ("/pods" + (f"/{quote(name, safe='')}" if name else ""))


class _Bare(msgspec.Struct):
    """A view that does not say who it is."""

    spec: dict[str, Any] | None = None


@given(namespace=names, name=names, version=st.integers(1, 10**9).map(str))
def test_a_cache_finds_the_name_in_the_view_that_the_bytes_have(
    namespace: str, name: str, version: str
) -> None:
    metadata = {"namespace": namespace, "name": name, "resourceVersion": version}
    item = msgspec.Raw(msgspec.json.encode({"metadata": metadata, "spec": {}}))
    found = []
    for decode in (decoder(PODS), decoder(NODES), decoder(CONFIGMAPS), *map(_of, (Pod, _Bare))):
        cache: Cache[Any] = Cache(decode)
        cache.change("ADDED", item)
        found.append((cache.keys(), cache.resource_version))
    assert found == [([ObjectKey(namespace, name)], version)] * len(found)


def _of(view: type[Any]) -> Any:
    return msgspec.json.Decoder(view).decode
