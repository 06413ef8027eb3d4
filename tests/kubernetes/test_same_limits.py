"""A real API server and weir's refuse the same for the same LimitRanges and ResourceQuotas, in the same words."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Any

import pytest

from tests.kubernetes.quota_requests import CASES, LAST, NAMESPACES
from tests.kubernetes.requests import Asked
from tests.kubernetes.test_same_requests import CONNECTIONS, PATIENCE_SECONDS, both_servers, call, masked

LISTED = re.compile(r"forbidden: \[(.*)\]")


def in_order(answer: list[Any]) -> list[Any]:
    """Return an answer whose list of broken bounds is sorted: a real server tells them in any order."""
    body = answer[1]
    listed = LISTED.search(body.get("message", ""))
    if listed:
        body["message"] = sorted(re.split(r", (?=minimum|maximum|\w+ max)", listed[1]))
    return answer


def answered(server: str, case: Asked) -> list[Any]:
    """Return what a server says once it has seen the status of the quotas."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "status unknown for quota" in str((answer := list(call(server, case)))[1]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return answer


def settle(server: str) -> None:
    """Wait until a server's informers have seen what was made last, and so everything before it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for case in LAST.asked:
        dry = dataclasses.replace(case, path=f"{case.path}?dryRun=All")
        while call(server, dry)[0] != 403 or "status unknown for quota" in str(call(server, dry)[1]):
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, tuple[Any, Any]]:
    """What both servers say to every case, in order."""
    found: dict[str, list[Any]] = {case.name: [] for case in CASES}
    with both_servers(tmp_path_factory.mktemp("limits")) as servers:
        for server in servers:
            for namespace in (*NAMESPACES, LAST):
                for prepared in namespace.prepared:
                    code, said, _ = call(server, prepared)
                    assert code in (200, 201), said
            settle(server)
            for case in CASES:
                found[case.name].append(in_order(masked(answered(server, case))))
            CONNECTIONS.pop(server).close()  # a server that stops waits for it
    return found


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_both_servers_answer_the_same(answers, name):
    real, weir = answers[name]
    assert weir == real
