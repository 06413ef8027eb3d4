"""Requests for groups of other servers; held against a real server in tests/kubernetes/test_same_api_services.py."""

from __future__ import annotations

import pytest

from weir.apiserver.aggregation.answers import of_another_server
from weir.objects.served_kinds import Registered, ServedKinds


@pytest.fixture
def served():
    found = ServedKinds()
    found.register(
        {
            ("far.example.com", "v1"): Registered(100, 10, True),
            ("near.example.com", "v1"): Registered(100, 10, False),
        }
    )
    return found


@pytest.mark.parametrize(
    "path",
    [
        "/apis/far.example.com/v1",
        "/apis/far.example.com/v1/",
        "/apis/far.example.com/v1/namespaces/default/things/a/status",
    ],
)
def test_everything_of_a_version_is_unavailable(served, path):
    answer = of_another_server(path, served)
    assert (answer.code, answer.body) == (503, b"service unavailable\n")
    assert (
        answer.content_type.startswith(b"text/plain")
        and (b"X-Content-Type-Options", b"nosniff") in answer.headers
    )


@pytest.mark.parametrize(
    "path",
    [
        *("/apis", "/apis/far.example.com", "/apis/far.example.com/v2", "/apis/far.example.com/v12/things"),
        *("/apis/near.example.com/v1/things", "/api/far.example.com/v1", "/", "/apis//far.example.com/v1"),
    ],
)
def test_everything_else_is_not_its_affair(served, path):
    assert of_another_server(path, served) is None


def test_what_is_registered_counts_as_a_change_only_when_it_is_one(served):
    before = served.version
    served.register(dict(served.registered))
    assert served.version == before
    served.register({})
    assert served.version == before + 1 and of_another_server("/apis/far.example.com/v1", served) is None
