"""A real API server and weir's give the same whole answers about custom resources and their definitions."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.kubernetes.caches import both_answers
from tests.kubernetes.custom_resource_requests import CASES, CRDS, SETUP
from tests.kubernetes.custom_rule_requests import RATCHETED, RULE_CASES, RULE_SETUP
from tests.kubernetes.requests import Asked
from tests.kubernetes.test_same_requests import both_servers, call, masked

#: case → why the two may differ
DIFFERENT = {
    f"more custom changes {name}": "the real server forgets who wrote what when versions have different fields"
    for name in ("58: planet changed", "59: planet as v1")
}
SETTLE_SECONDS = 20.0
EVERYTHING = [*SETUP, *RULE_SETUP, *CASES, *RULE_CASES, *RATCHETED]


def wait_established(server: str, name: str) -> None:
    """Return once a definition is established and its kind is served."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        _, found, _ = call(server, Asked("", "GET", f"{CRDS}/{name}"))
        conditions = {one["type"]: one["status"] for one in found["status"].get("conditions") or ()}
        if conditions.get("Established") == "True":
            spec = found["spec"]
            served = next(one["name"] for one in spec["versions"] if one["served"])
            path = f"/apis/{spec['group']}/{served}"
            code, listed, _ = call(server, Asked("", "GET", path))
            if code == 200 and any(one["name"] == spec["names"]["plural"] for one in listed["resources"]):
                return
        assert time.monotonic() < deadline, conditions
        time.sleep(0.1)


def unordered(answer: Any) -> Any:
    """Return an answer without the orders that come from Go's maps: of errors about values, and of resources."""
    body = answer[1]
    if isinstance(body, dict) and body.get("kind") == "APIResourceList":
        body["resources"].sort(key=lambda one: one["name"])
    causes = (body.get("details") or {}).get("causes") if isinstance(body, dict) else None
    if causes and len(causes) > 1:
        causes.sort(key=str)
        body["message"] = body["message"].partition("is invalid: ")[0]
    return answer


def ask(server: str, case: Asked) -> Any:
    return unordered(masked(list(call(server, case))))


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, tuple[Any, Any]]:
    """What both servers say to every case, in order."""
    with both_servers(tmp_path_factory.mktemp("custom")) as servers:
        found = {}
        for case in [*SETUP, *RULE_SETUP]:
            found[case.name] = tuple(ask(server, case) for server in servers)
            for server in servers:
                wait_established(server, case.body["metadata"]["name"])
        for case in [*CASES, *RULE_CASES]:
            found[case.name] = tuple(ask(server, case) for server in servers)
        for case in RATCHETED:
            found[case.name] = both_answers(servers, case, ask)
        return found


@pytest.mark.parametrize("name", [case.name for case in EVERYTHING if case.name not in DIFFERENT])
def test_both_servers_answer_the_same(answers, name):
    real, weir = answers[name]
    assert weir == real


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_listed_difference_is_one(answers, name):
    real, weir = answers[name]
    assert weir != real
