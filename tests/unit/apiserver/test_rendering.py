"""Answers in other forms than JSON are the same whether they are made on the loop or beside it."""

from __future__ import annotations

import gzip
import json

import pytest

from weir.apiserver import rendering
from weir.apiserver.build import build
from weir.apiserver.options import Options, open_store
from weir.apiserver.transport.http import Request
from weir.clock import VirtualClock

FORMS = [
    ("", "application/json"),
    ("pretty=true", "application/json"),
    ("", "application/yaml"),
    ("", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ("", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
]
PATH = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims"  # stored in another version


@pytest.fixture
async def running(tmp_path):
    options, clock = Options(tmp_path, store="memory", insecure=True), VirtualClock()  # ages stay the same
    found = await build(options, await open_store(options, clock), clock)
    claim = {
        "metadata": {"name": "a"},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}},
    }
    assert (await ask(found, "POST", PATH, body=claim)).code == 201
    yield found
    await found.stop()


async def ask(running, method, path, query="", accept="", body=None, encoding=b""):
    headers = {
        b"authorization": b"Bearer " + running.admin_token.encode(),
        b"content-type": b"application/json",
        b"accept": accept.encode(),
        b"accept-encoding": encoding,
    }
    sent = json.dumps(body).encode() if body is not None else b""
    return await running.server.handle(Request(method, path, query, headers, sent))


@pytest.mark.parametrize(("query", "accept"), FORMS)
@pytest.mark.parametrize("name", ["", "/a"])
async def test_large_answers_are_the_same(running, monkeypatch, query, accept, name):
    accept = accept.replace("MetadataList", "Metadata") if name else accept
    small = await ask(running, "GET", PATH + name, query, accept)
    monkeypatch.setattr(rendering, "LARGE_BYTES", 1)
    running.server.verbs.off_loop.start()
    large = await ask(running, "GET", PATH + name, query, accept)
    assert small.code == 200
    assert (large.code, large.content_type, large.body) == (small.code, small.content_type, small.body)


async def test_a_large_answer_is_compressed_for_who_can_read_it(running, monkeypatch):
    plain = await ask(running, "GET", PATH, encoding=b"gzip")
    monkeypatch.setattr(rendering, "GZIP_FROM_BYTES", 1)
    packed = await ask(running, "GET", PATH, encoding=b"gzip")
    assert (b"Content-Encoding", b"gzip") in packed.headers
    assert gzip.decompress(packed.body) == plain.body
