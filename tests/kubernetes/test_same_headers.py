"""A real API server and weir's send the same headers: how warnings are cut, and which audit id an answer has."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse

import pytest

from tests.kubernetes.test_same_requests import TOKEN, both_servers

#: how many unknown fields a body has, and how long their names are
SHAPES = [(3, 10), (20, 300), (200, 20), (300, 60), (10, 3000), (1, 5000), (40, 255), (17, 240), (16, 240)]
ANSWER = http.client.HTTPMessage


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with both_servers(tmp_path_factory.mktemp("headers")) as both:
        yield both


def ask(server: str, body: object = None, **headers: str) -> ANSWER:
    address = urllib.parse.urlsplit(server).netloc
    connection = http.client.HTTPSConnection(address, context=ssl._create_unverified_context(), timeout=30)
    method, data = ("GET", None) if body is None else ("POST", json.dumps(body))
    path = "/api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Warn"
    sent = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **headers}
    connection.request(method, path, data, sent)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.headers


@pytest.mark.parametrize(("count", "size"), SHAPES)
def test_warnings_are_cut_alike(servers, count, size, monkeypatch):
    monkeypatch.setattr(http.client, "_MAXHEADERS", 10_000)
    fields = {f"f{number}{'é' * (number % 3)}{'x' * size}": 1 for number in range(count)}
    real, weir = (ask(server, {"metadata": {"name": "x"}, **fields}).get_all("Warning") for server in servers)
    assert weir == real and real


@pytest.mark.parametrize("brought", ["mine", "a" * 100, "<a> b"])
def test_a_request_may_bring_its_audit_id(servers, brought):
    headers = {"Audit-ID": brought}
    assert [ask(server, **headers)["Audit-Id"] for server in servers] == [brought, brought]


def test_an_audit_id_is_made_where_none_is_brought(servers):
    assert [len(ask(server)["Audit-Id"]) for server in servers] == [36, 36]
