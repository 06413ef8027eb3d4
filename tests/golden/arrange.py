"""Replay the exchanges of one area, putting the state before each one in place.

What happened between two exchanges of the recording is not in the folder. Before each one the objects it speaks
about get the state the recordings show; when the answer differs, other states the recordings allow are
tried. The answer always comes from the server and is always compared whole.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from tests.golden.cluster import Cluster
from tests.golden.compare import compare
from tests.golden.recording import Document, Evidence, Exchange, key_of, kind_of, shown
from tests.golden.report import Report
from tests.golden.undo import alive, before, renamed, unbound, undo, without_causes
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind


class Replay:
    """One area on one cluster."""

    def __init__(self, cluster: Cluster, evidence: Evidence, exchanges: list[Exchange]) -> None:
        self._cluster, self._evidence, self._exchanges = cluster, evidence, exchanges
        self._live: dict[tuple[str, str, str, str], int] = {}  # recorded version our object corresponds to
        self._uids: dict[str, str] = {}  # recorded uid → ours

    async def run(self, report: Report) -> None:
        for position, exchange in enumerate(self._exchanges):
            name = f"{exchange.area}/{exchange.name}"
            try:
                wrong = await self._attempts(position, exchange)
            except Exception as error:
                wrong = [f"the replay failed: {type(error).__name__}: {error}"]
            if wrong:
                report.failed[name] = wrong
            else:
                report.passed.append(name)
            await self._learn(exchange)

    async def _attempts(self, position: int, exchange: Exchange) -> list[str]:
        """Try with the state as it is; when that differs, with the state the recordings show."""
        best: list[str] = []
        recorded = times_of(exchange)
        if recorded and (ahead := max(recorded).timestamp() - self._cluster.clock.time()) > 0:
            await self._cluster.clock.advance(ahead)
        for arrange in self._arrangements(position, exchange):
            await arrange()
            wrong = await self._once(exchange)
            if not wrong:
                return []
            best = wrong if not best or len(wrong) < len(best) else best
        return best

    # -------------------------------------------------------------------------------------- arranging

    def _arrangements(self, position: int, exchange: Exchange) -> Iterable[Any]:
        info = exchange.info
        kind = info.kind
        if kind is None or not kind.stored:
            if kind is not None and info.verb == "create":
                yield lambda: self._before_create(exchange, kind)
            else:
                yield _nothing
            return
        if info.verb == "list" and exchange.response["code"] == 200:
            yield _nothing  # what is there may be what was there: nothing needs to be put in place
        if info.verb in ("list", "deletecollection", "watch"):
            yield lambda: self._before_list(exchange, kind)
            return
        if info.verb == "create" and not info.subresource:
            yield lambda: self._before_create(exchange, kind)
            return
        current = self._known_state(position, exchange, kind)
        yield lambda: self._ensure(exchange, kind, current)
        for candidate in self._candidates(position, exchange, kind):
            yield lambda document=candidate: self._force(exchange, kind, document)

    async def _ensure(self, exchange: Exchange, kind: Kind, known: tuple[int, Document] | None) -> None:
        info = exchange.info
        namespace = info.namespace if kind.namespaced else ""
        if (
            exchange.response["code"] == 404
            and info.subresource != "nope"
            and (
                isinstance(exchange.body, dict)
                and (exchange.body.get("details") or {}).get("name") == info.name
            )
        ):
            await self._cluster.drop(kind, namespace, info.name)
            return
        if known is None:
            return
        version, document = known
        key = key_of(document)
        if self._live.get(key, -1) >= version and self._cluster.find(kind, namespace, info.name):
            return
        await self._place(document)

    async def _place(self, document: Document) -> None:
        copied = json.loads(self._translate(json.dumps(document)))
        await self._cluster.put(copied)
        self._live[key_of(document)] = int(document["metadata"].get("resourceVersion") or 0)

    def _known_state(self, position: int, exchange: Exchange, kind: Kind) -> tuple[int, Document] | None:
        """The newest recorded version of the object that the request can have met."""
        info = exchange.info
        key = (kind.api_version, kind.kind, info.namespace if kind.namespaced else "", info.name)
        body = exchange.request.get("body")
        if isinstance(body, dict) and exchange.request["method"] == "PUT":
            text = (body.get("metadata") or {}).get("resourceVersion") or ""
            if text.isdigit() and (found := self._evidence.exact(key, int(text))):
                return int(text), found
        after = exchange.version
        if info.verb == "get" and after and (found := self._evidence.exact(key, after)):
            return after, found
        if not after:
            later = [e.version for e in self._exchanges[position:] if e.version and e.info.name == info.name]
            after = min(later) + 1 if later else 0
            earlier = [
                e.version for e in self._exchanges[:position] if e.version and e.info.name == info.name
            ]
            if earlier and (found := self._evidence.exact(key, max(earlier))):
                return max(earlier), found
        return self._evidence.latest(key, after)

    def _candidates(self, position: int, exchange: Exchange, kind: Kind) -> Iterable[Document]:
        """States the object may have been in, made from the response or from later ones."""
        info = exchange.info
        key = (kind.api_version, kind.kind, info.namespace if kind.namespaced else "", info.name)
        body = exchange.body
        whole = isinstance(body, dict) and body.get("kind") == kind.kind and "metadata" in body
        sent = exchange.request.get("body")
        if (
            exchange.request["method"] == "PUT"
            and isinstance(sent, dict)
            and "uid" in sent.get("metadata", {})
        ):
            yield undo(sent, body if whole else None)
            if exchange.response["code"] == 422:
                yield without_causes(sent, body)
        if whole:
            yield before(exchange, body)
            yield before(exchange, body, spec_changed=False)
            if exchange.request["method"] == "DELETE" and "deletionTimestamp" in body["metadata"]:
                yield body  # a second delete that changes nothing
                longer = {**body["metadata"], "deletionGracePeriodSeconds": 30}
                yield {**body, "metadata": longer}  # a second delete that shortens the wait
            touched = set(sent) if isinstance(sent, dict) else set()
            if touched and touched <= ({"spec"} if info.subresource == "status" else {"status"}):
                yield body  # the endpoint ignores all of the patch, so the object was what it is
        yield from self._shaped(exchange, kind, key)
        found = self._evidence.earliest(key, 0)
        if found is not None:
            yield alive(found[1])
            yield unbound(alive(found[1]))
        name = info.name
        if found is None and info.verb == "delete":
            yield {
                "metadata": {
                    "name": name,
                    "namespace": key[2],
                    "uid": name,
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                }
            }
        if kind.kind == "Pod" and info.verb != "get" and (other := self._any_pod()) is not None:
            yield renamed(other, name)

    def _shaped(self, exchange: Exchange, kind: Kind, key: tuple[str, str, str, str]) -> Iterable[Document]:
        """The object behind a response that shows it in another shape: a table row, a Scale."""
        body = exchange.body if isinstance(exchange.body, dict) else {}
        live = self._cluster.find(kind, key[2], key[3])
        known = live or (self._evidence.latest(key, 0) or (0, None))[1]
        if known is None:
            return
        if body.get("kind") == "Table" and body.get("rows"):
            partial = (body["rows"][0].get("object") or {}).get("metadata")
            if partial:
                yield {**known, "metadata": partial}
                for other in self._evidence.versions.get(key, {}).values():
                    yield {**other, "metadata": partial}
        if body.get("kind") == "Scale":
            before = known.get("spec", {}).get("replicas")
            replicas = body["spec"].get("replicas", 0) if exchange.info.verb == "get" else before
            status = {**known.get("status", {}), "replicas": body["status"]["replicas"]}
            yield {**known, "spec": {**known["spec"], "replicas": replicas}, "status": status}

    def _any_pod(self) -> Document | None:
        for (_, kind, _, _), versions in self._evidence.versions.items():
            if kind == "Pod":
                pod = alive(versions[min(versions)])
                if not pod["spec"].get("nodeName") and not pod["spec"].get("schedulingGates"):
                    return pod
        return None

    async def _force(self, exchange: Exchange, kind: Kind, document: Document) -> None:
        await self._place({"kind": kind.kind, "apiVersion": kind.api_version, **document})

    async def _before_create(self, exchange: Exchange, kind: Kind) -> None:
        """A create that worked met no object of that name; one that was refused as taken met one."""
        body = exchange.request.get("body")
        metadata = body.get("metadata") or {} if isinstance(body, dict) else {}
        name, namespace = metadata.get("name"), exchange.info.namespace if kind.namespaced else ""
        if kind.kind == "Binding":
            pod = by_kind("v1", "Pod")
            have = self._cluster.find(pod, namespace, name or "")
            known = self._evidence.earliest(("v1", "Pod", namespace, name or ""), 0)
            if have is None and known is not None:
                await self._place(unbound(alive(known[1])))
            elif have is None and (other := self._any_pod()):
                await self._place(renamed(other, name or ""))
            return
        if not name:
            return
        taken = (
            (exchange.body or {}).get("reason") == "AlreadyExists"
            if isinstance(exchange.body, dict)
            else False
        )
        there = self._cluster.find(kind, namespace, name) is not None
        if taken and not there:
            found = self._evidence.earliest((kind.api_version, kind.kind, namespace, name), 0)
            if found is not None:
                await self._place(alive(found[1]))
            elif isinstance(body, dict):
                await self._cluster.put({**body, "metadata": {**metadata, "namespace": namespace}})
        elif there and not taken:
            await self._cluster.drop(kind, namespace, name)

    async def _before_list(self, exchange: Exchange, kind: Kind) -> None:
        """Make the collection hold what the recorded list shows, and as much after it as it says."""
        if exchange.response["code"] >= 400:
            return
        namespace = exchange.info.namespace if kind.namespaced else ""
        wanted: list[Document] = []
        exact = 1_000_000
        body = exchange.body if isinstance(exchange.body, dict) else {}
        if exchange.info.verb == "watch":
            if dict(parse_qsl(exchange.query)).get("resourceVersion", "0") == "0":
                wanted = [e["object"] for e in exchange.response["events"] if e["type"] == "ADDED"]
            else:
                return
        else:
            wanted = list(shown(exchange))
            exact = len(wanted)
            names = [d["metadata"]["name"] for d in wanted]
            for row in body.get("rows") or ():
                cell = row["cells"][0]
                partial = (row.get("object") or {}).get("metadata")
                if cell in names or kind.kind == "Event":
                    continue
                found = self._row_object(kind, partial, namespace, cell, body)
                if found is not None:
                    wanted.append(found)
        keep = {(d["metadata"].get("namespace", ""), d["metadata"]["name"]) for d in wanted}
        for position, document in enumerate(wanted):
            inner = document["metadata"]
            have = self._cluster.find(kind, inner.get("namespace", ""), inner["name"])
            same = self._live.get(key_of(document)) == int(inner.get("resourceVersion") or 0)
            if have is None or not same:
                await self._place(document)
                if position >= exact:  # only the metadata of a table row is recorded
                    self._live.pop(key_of(document), None)
        await self._clear(exchange, kind, namespace, keep)
        await self._fill(exchange, kind, namespace, wanted, body)

    def _row_object(
        self, kind: Kind, partial: Document | None, namespace: str, name: str, body: Document
    ) -> Document | None:
        """The object behind a table row: live, recorded, or a plain one with the row's metadata."""
        space = (partial or {}).get("namespace", namespace if kind.namespaced else "")
        have = self._cluster.find(kind, space, name)
        if have is not None:
            return {**have, "metadata": partial} if partial is not None else have
        found = self._evidence.latest((kind.api_version, kind.kind, space, name), 0)
        if found is not None:
            return found[1]
        if partial is not None and kind.kind == "Pod" and (other := self._any_pod()):
            return {**other, "metadata": partial}
        return None

    async def _clear(
        self, exchange: Exchange, kind: Kind, namespace: str, keep: set[tuple[str, str]]
    ) -> None:
        """Remove what the recorded list would have shown, had it been there."""
        params = dict(parse_qsl(exchange.query, keep_blank_values=True))
        last = max((name for _, name in keep), default="")
        paged = bool((exchange.body or {}).get("metadata", {}).get("continue")) if exchange.body else False
        start = _token_start(params.get("continue", ""))
        chosen = await self._cluster.server.lists.select(
            kind,
            namespace,
            {k: v for k, v in params.items() if k in ("labelSelector", "fieldSelector")},
        )
        for item in list(chosen.items):
            metadata = msgspec.json.decode(item.value)["metadata"]
            place = (metadata.get("namespace", ""), metadata["name"])
            if place in keep or (start and metadata["name"] <= start.strip("/\0")):
                continue
            if paged and metadata["name"] > last:
                continue
            await self._cluster.drop(kind, *place)
            self._live.pop((kind.api_version, kind.kind, *place), None)

    async def _fill(
        self, exchange: Exchange, kind: Kind, namespace: str, wanted: list[Document], body: Document
    ) -> None:
        """Put as many objects after the page as the recording says remain."""
        metadata = body.get("metadata") or {}
        if not metadata.get("continue") or not wanted:
            return
        last = wanted[-1]
        remaining = metadata.get("remainingItemCount", 1)
        for item in list((await self._cluster.server.lists.select(kind, namespace, {})).items):
            name = msgspec.json.decode(item.value)["metadata"]["name"]
            if name > last["metadata"]["name"]:
                await self._cluster.drop(kind, namespace, name)
                self._live.pop((kind.api_version, kind.kind, namespace, name), None)
        for index in range(remaining):
            copied = json.loads(json.dumps(last))
            copied["metadata"]["name"] = f"{last['metadata']['name']}-more-{index:03d}"
            await self._cluster.put(copied)

    # --------------------------------------------------------------------------------------- calling

    async def _once(self, exchange: Exchange) -> list[str]:
        info = exchange.info
        headers = dict(exchange.request.get("headers") or {})
        body = exchange.request.get("body")
        query = exchange.query
        if info.verb == "watch" and exchange.response["code"] == 200:
            query = await self._stage_watch(exchange, query)
        elif info.verb == "list":
            query = await self._stage_list(exchange, query)
        sent = b""
        if body is not None:
            sent = body.encode() if isinstance(body, str) else self._request_body(exchange, body)
        if sent and "Content-Type" not in headers:
            headers["Content-Type"] = "application/json"
        token = not exchange.request.get("noAuthorization")
        path = quote(exchange.path, safe="/:%~")
        got = await self._cluster.call(exchange.request["method"], path, query, headers, sent, token=token)
        self._note_uid(exchange, got)
        return compare(exchange, got)

    def _request_body(self, exchange: Exchange, body: Any) -> bytes:
        if isinstance(body, dict) and exchange.request["method"] == "PUT":
            conflict = (
                (exchange.body or {}).get("reason") == "Conflict"
                if isinstance(exchange.body, dict)
                else False
            )
            metadata = body.get("metadata") or {}
            info = exchange.info
            kind = info.kind
            if kind is not None and str(metadata.get("resourceVersion", "")).isdigit() and not conflict:
                live = self._cluster.find(kind, info.namespace if kind.namespaced else "", info.name)
                if live is not None:
                    body = {
                        **body,
                        "metadata": {**metadata, "resourceVersion": live["metadata"]["resourceVersion"]},
                    }
        return self._translate(json.dumps(body)).encode()

    def _translate(self, text: str) -> str:
        for recorded, ours in self._uids.items():
            if recorded in text:
                text = text.replace(recorded, ours)
        return text

    def _note_uid(self, exchange: Exchange, got: Document) -> None:
        theirs, ours = exchange.body, got.get("body")
        if isinstance(theirs, dict) and isinstance(ours, dict) and "dryRun" not in exchange.query:
            recorded = (theirs.get("metadata") or {}).get("uid")
            own = (ours.get("metadata") or {}).get("uid")
            if recorded and own and recorded != own:
                self._uids[recorded] = own

    async def _stage_list(self, exchange: Exchange, query: str) -> str:
        """Give the request versions that mean here what the recorded ones meant there."""
        params = dict(parse_qsl(query, keep_blank_values=True))
        revision = self._cluster.store.revision
        if exchange.response["code"] == 410:
            await self._move_on()
            await self._cluster.store.compact(self._cluster.store.revision)
        version = params.get("resourceVersion", "")
        if version.isdigit() and version != "0" and exchange.response["code"] in (200, 410):
            params["resourceVersion"] = str(revision)
        token = params.get("continue", "")
        if token and exchange.response["code"] in (200, 410):
            start = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            start["rv"] = revision if start["rv"] > 0 else start["rv"]
            text = json.dumps(start, separators=(",", ":")).encode()
            params["continue"] = base64.urlsafe_b64encode(text).rstrip(b"=").decode()
        return urlencode(params)

    async def _move_on(self) -> None:
        """Write something, so that the current revision can be compacted away."""
        node = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": "move-on", "namespace": "default"},
        }
        await self._cluster.put(node)
        await self._cluster.put({**node, "data": {"a": "b"}})

    async def _stage_watch(self, exchange: Exchange, query: str) -> str:
        """Make the recorded changes happen after the revision the watch starts from."""
        params = dict(parse_qsl(query, keep_blank_values=True))
        version = params.get("resourceVersion", "")
        if not version.isdigit() or version == "0":
            return query
        start = self._cluster.store.revision
        params["resourceVersion"] = str(start)
        events = exchange.response["events"]
        if events and events[0]["type"] == "ERROR":
            await self._move_on()
            await self._cluster.store.compact(self._cluster.store.revision)
            params["resourceVersion"] = "1"
            return urlencode(params)
        kind = exchange.info.kind
        assert kind is not None
        for event in events:
            inner = event["object"]
            if event["type"] == "ADDED" and inner.get("kind") != "Table":
                await self._cluster.drop(
                    kind, inner["metadata"].get("namespace", ""), inner["metadata"]["name"]
                )
        params["resourceVersion"] = str(self._cluster.store.revision)
        for event in events:
            document = event["object"]
            if document.get("kind") == "Table":
                metadata = document["rows"][0]["object"]["metadata"]
                other = self._any_pod()
                assert other is not None
                document = {**other, "metadata": metadata}
                if metadata.get("deletionTimestamp"):
                    document["metadata"] = metadata
            if event["type"] in ("ADDED", "MODIFIED"):
                await self._cluster.put(document)
            elif event["type"] == "DELETED":
                await self._cluster.drop(
                    kind, document["metadata"].get("namespace", ""), document["metadata"]["name"]
                )
        return urlencode(params)

    async def _learn(self, exchange: Exchange) -> None:
        """Follow the recording: what it stored is what the next exchange meets."""
        body = exchange.body
        if not isinstance(body, dict) or "dryRun" in exchange.query or exchange.response["code"] >= 300:
            return
        info = exchange.info
        if info.verb in ("create", "update", "patch") and exchange.version and body.get("kind") != "Scale":
            document = body
            if kind_of(document) is not None:
                self._live[key_of(document)] = exchange.version
                kind = info.kind
                name = f"{exchange.area}/{exchange.name}"
                if kind is not None and name:
                    have = self._cluster.find(
                        kind, document["metadata"].get("namespace", ""), document["metadata"]["name"]
                    )
                    if have is None and not document["metadata"].get("deletionTimestamp"):
                        await self._place(document)


def times_of(exchange: Exchange) -> list[datetime]:
    """Return when the recorded server wrote what the response shows."""
    text = json.dumps(exchange.response.get("body") or exchange.response.get("events") or "")
    found = re.findall(r'"(?:time|creationTimestamp)": "(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"', text)
    return [datetime.fromisoformat(each) for each in found]


async def _nothing() -> None:
    return None


def _token_start(token: str) -> str:
    if not token:
        return ""
    try:
        return str(json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))["start"])
    except (ValueError, KeyError):
        return ""
