"""A real API server and weir's give the same whole answers about certificates, registered groups and migrations."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.kubernetes.certificate_requests import CERTIFICATES, DIFFERENT, REQUESTS, acting, setup
from tests.kubernetes.requests import Asked
from tests.kubernetes.test_same_requests import both_servers, call, masked

PATIENCE_SECONDS = 30


def wait_for_rights(server: str) -> None:
    """Return when the authorizer of *server* knows the last role that was written."""
    asked = Asked("may it?", "GET", REQUESTS, headers=acting("wide"))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while call(server, asked)[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, tuple[Any, Any]]:
    """What both servers say to every case, in order."""
    with both_servers(tmp_path_factory.mktemp("certificates")) as servers:
        for case in setup():
            assert [call(server, case)[0] for server in servers] == [201, 201]
        for server in servers:
            wait_for_rights(server)
        return {
            case.name: tuple(masked(list(call(server, case))) for server in servers) for case in CERTIFICATES
        }


@pytest.mark.parametrize("name", [case.name for case in CERTIFICATES if case.name not in DIFFERENT])
def test_both_servers_answer_the_same(answers, name):
    real, weir = answers[name]
    assert weir == real


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_listed_difference_is_one(answers, name):
    real, weir = answers[name]
    assert weir != real
