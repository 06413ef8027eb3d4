"""A real API server and weir's say the same of webhooks that fail, and ask them the same."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.kubernetes.requests import MERGE, Asked, pod
from tests.kubernetes.test_same_requests import CONNECTIONS, PATIENCE_SECONDS, both_servers, call, masked
from tests.kubernetes.webhook_answers import CASES, Case, configuration, running_webhooks

pytestmark = pytest.mark.proves("5055-24")

PODS = "/api/v1/namespaces/default/pods"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


def requests_of(case: Case) -> list[Asked]:
    """Return what is asked of a server in *case*."""
    document = pod(case.name, metadata={"labels": {"case": case.name}})
    one = f"{PODS}/{case.name}{case.query}"
    by_method = {
        "POST": Asked(case.name, "POST", f"{PODS}{case.query}", document),
        "PATCH": Asked(case.name, "PATCH", one, {"metadata": {"annotations": {"a": "b"}}}, MERGE),
        "DELETE": Asked(case.name, "DELETE", f"{one}?gracePeriodSeconds=0"),
        "GET": Asked(case.name, "GET", one),
    }
    return [by_method[method] for method in case.methods]


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, list[Any]]:
    """What both servers say to every case, and what they asked the webhooks."""
    folder = tmp_path_factory.mktemp("webhooks")
    found: dict[str, list[Any]] = {name: [] for name in CASES}
    with both_servers(folder) as servers, running_webhooks(folder) as (base, authority, asked):
        for server in servers:
            for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
                document = configuration(kind, base, authority)
                path = f"{REGISTRATION}/{kind.lower()}s"
                code, said, _ = call(server, Asked(kind, "POST", path, document))
                assert code == 201, said
            for name in ("m-denied", "v-denied"):  # both configurations have reached the server
                deadline = time.monotonic() + PATIENCE_SECONDS
                while call(server, requests_of(CASES[name])[0])[0] == 201:
                    assert time.monotonic() < deadline
                    call(server, Asked(name, "DELETE", f"{PODS}/{name}?gracePeriodSeconds=0"))
                    time.sleep(0.1)
            asked.clear()
            for case in CASES.values():
                said = [masked(list(call(server, one))) for one in requests_of(case)]
                found[case.name].append((said, masked(asked.pop(case.name, []))))
            CONNECTIONS.pop(server).close()  # a server that stops waits for it
    return found


@pytest.mark.parametrize("name", list(CASES))
def test_both_servers_say_the_same_of_a_webhook(answers, name):
    real, weir = answers[name]
    assert weir == real
