"""The handler chain: the order of its filters, and what each does to a request or its answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir import errors
from weir.apiserver import filters
from weir.apiserver.auth.authn import User
from weir.apiserver.transport.http import Request, Response, Stream
from weir.apiserver.transport.limits import InFlight
from weir.apiserver.transport.paths import parse

PODS = "/api/v1/namespaces/default/pods"


def exchange(method: str = "GET", path: str = PODS, **params: str) -> filters.Exchange:
    request = Request(method, path)
    return filters.Exchange(request, parse(method, path, False), params, b"id")


async def answer_200(_: filters.Exchange) -> filters.Answer:
    return Response(200, b"{}")


async def test_the_first_filter_sees_the_request_first_and_the_answer_last():
    seen: list[str] = []

    def noting(name: str) -> filters.Filter:
        async def each(exchange: filters.Exchange, handler: filters.Handler) -> filters.Answer:
            seen.append(name)
            answer = await handler(exchange)
            seen.append(f"/{name}")
            return answer

        return each

    handle = filters.chain([noting("a"), noting("b")], answer_200)
    assert (await handle(exchange())).code == 200
    assert seen == ["a", "b", "/b", "/a"]


def test_a_server_authenticates_before_it_impersonates_authorizes_and_reads_the_body():
    names = [type(each).__name__ for each in Cluster(GATES_ON).server.filters()]
    order = ["Observed", "Recovered", "Authenticated", "Impersonated", "Authorized", "BodyChecked"]
    assert [name for name in names if name in order] == order


@pytest.mark.parametrize(
    ("raised", "code"),
    [(errors.Unauthorized(), 401), (RecursionError(), 400), (ZeroDivisionError(), 500)],
)
async def test_every_failure_becomes_a_status(raised: Exception, code: int):
    async def fail(_: filters.Exchange) -> filters.Answer:
        raise raised

    server = Cluster(GATES_ON).server
    (recovered,) = (each for each in server.filters() if isinstance(each, filters.Recovered))
    answer = await filters.chain([recovered], fail)(exchange())
    assert answer.code == code and isinstance(answer, Response) and b'"kind":"Status"' in answer.body


async def test_a_place_in_flight_is_given_back_however_the_request_ends():
    in_flight = InFlight(1, 1)

    async def fail(_: filters.Exchange) -> filters.Answer:
        assert in_flight.reading.now == 1
        raise errors.Unauthorized

    handle = filters.chain([filters.LimitedInFlight(in_flight)], fail)
    for _ in range(3):
        with pytest.raises(errors.Unauthorized):
            await handle(exchange())
    assert in_flight.reading.now == 0


class _Audit:
    """An audit backend that keeps what it is told."""

    wants_received = True

    def __init__(self) -> None:
        self.stages: list[tuple[str, str, int]] = []
        self.fails = False

    def record(self, user: User, info: Any, code: int, *, stage: str, **rest: Any) -> None:
        if self.fails:
            raise OSError("full")
        self.stages.append((stage, user.name, code))


async def test_the_audit_log_has_a_stream_when_it_begins_and_when_it_ends():
    audit, health = _Audit(), filters.Health()
    audited = filters.Audited(audit, Cluster(GATES_ON).clock, health, None)  # type: ignore[arg-type]

    async def run(_: Any) -> None:
        audit.stages.append(("running", "", 0))

    async def watch(_: filters.Exchange) -> filters.Answer:
        return Stream(run)

    one = exchange()
    one.real_user = one.user = User("jane")
    answer = await filters.chain([audited.answered, audited.received], watch)(one)
    assert isinstance(answer, Stream)
    await answer.run(None)  # type: ignore[arg-type]
    assert audit.stages == [
        ("RequestReceived", "jane", 0),
        ("ResponseStarted", "jane", 200),
        ("running", "", 0),
        ("ResponseComplete", "jane", 200),
    ]


async def test_an_audit_log_that_is_full_fails_a_health_check_until_it_takes_a_line():
    audit, health = _Audit(), filters.Health()
    audited = filters.Audited(audit, Cluster(GATES_ON).clock, health, None)  # type: ignore[arg-type]
    handle = filters.chain([audited.answered], answer_200)
    audit.fails = True
    assert (await handle(exchange())).code == 200 and health.failed_checks() == ["audit"]
    audit.fails = False
    assert (await handle(exchange())).code == 200 and health.failed_checks() == []
