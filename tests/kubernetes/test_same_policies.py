"""A real API server and weir's store the same policies, refuse the same, and say the same of writes they judge."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.kubernetes import policy_cases
from tests.kubernetes.mutating_cases import MUTATING, MUTATING_REQUESTS
from tests.kubernetes.policy_cases import SENTINEL, Judged
from tests.kubernetes.policy_requests import GROUP, POLICY_REQUESTS
from tests.kubernetes.requests import Asked
from tests.kubernetes.test_same_requests import CONNECTIONS, PATIENCE_SECONDS, both_servers, call, masked

#: case → why the two may differ
DIFFERENT: dict[str, str] = {}
REQUESTS = [*POLICY_REQUESTS, *MUTATING_REQUESTS]
CASES = {**policy_cases.CASES, **MUTATING}
#: field of a case → where its documents are written
PATHS = {"policies": "{}admissionpolicies", "bindings": "{}admissionpolicybindings"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, list[Any]]:
    """What both servers say to every request about policies, and to every write that policies judge."""
    folder = tmp_path_factory.mktemp("policies")
    found: dict[str, list[Any]] = {}
    with both_servers(folder) as servers:
        for server in servers:
            for asked in REQUESTS:
                found.setdefault(asked.name, []).append(masked(list(call(server, asked))))
            judged(server, found)
            CONNECTIONS.pop(server).close()  # a server that stops waits for it
    return found


def judged(server: str, found: dict[str, list[Any]]) -> None:
    """Put every case's policies up at once, wait until they act, and ask."""
    for case in CASES.values():
        for asked in case.before:
            code, said, _ = call(server, asked)
            assert code in (200, 201, 409), (case.name, said)
    for documents in PATHS:
        for case in [*CASES.values(), SENTINEL]:
            for document in getattr(case, documents):
                path = (
                    f"{GROUP}/{PATHS[documents].format(document['kind'].partition('Admission')[0].lower())}"
                )
                code, said, _ = call(server, Asked(case.name, "POST", path, document))
                assert code == 201, (case.name, said)
    deadline = time.monotonic() + PATIENCE_SECONDS
    # Policies act a moment after they are written, and those with parameters once their kinds have been read.
    for name, code in (("zz-sentinel", 422), ("params", 201), ("params-cluster", 201), ("m-params", 201)):
        first = {**CASES, SENTINEL.name: SENTINEL}[name].asked[0]
        while call(server, first)[0] != code:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    for case in CASES.values():
        found.setdefault(case.name, []).append([masked(list(call(server, asked))) for asked in case.asked])


NAMES = [asked.name for asked in REQUESTS] + list(CASES)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DIFFERENT])
def test_both_servers_say_the_same_of_policies(answers, name):
    real, weir = answers[name]
    assert weir == real


def test_some_writes_are_refused_and_some_are_not(answers):
    codes = {code for case in CASES.values() for code, *_ in answers[case.name][0]}
    assert {201, 403, 422} <= codes and isinstance(SENTINEL, Judged)
