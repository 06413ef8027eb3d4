"""One user floods, another hardly notices: counted in requests that begin before the other's, not in seconds.

Every request here takes its seats, holds the loop for a moment, keeps its seats for some turns and goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from weir.apiserver.auth.authn import User, proven
from weir.apiserver.compat.flowcontrol import dispatcher
from weir.apiserver.compat.flowcontrol.bootstrap import FLOW_SCHEMA, PRIORITY_LEVEL, new_object
from weir.apiserver.compat.flowcontrol.dispatcher import SEATS_A_TURN, FlowControl, Refused
from weir.apiserver.transport.paths import parse
from weir.objects.flow_control import rows
from weir.observe.metrics import Registry

JANE, JOE = proven("jane"), proven("joe")
MASTER = proven("admin", ["system:masters"])
PODS = "/api/v1/namespaces/a/pods"


def account(number: int) -> User:
    return proven(
        f"system:serviceaccount:a:s{number}", ["system:serviceaccounts", "system:serviceaccounts:a"]
    )


class Objects:
    """The stored configuration, which tests change."""

    def __init__(self) -> None:
        self.changes = 1
        self.held = {
            (row.kind, row.name): {
                **new_object(row),
                "metadata": {"name": row.name, "uid": f"{row.kind}-{row.name}"},
            }
            for row in rows()
        }

    def version(self, kind: Any) -> int:
        return self.changes

    def list_now(self, kind: Any, namespace: str | None = None) -> list[Any]:
        return [found for (name, _), found in self.held.items() if name == kind.kind]

    def put(self, kind: Any, name: str, spec: dict[str, Any]) -> None:
        self.held[kind.kind, name] = {"metadata": {"name": name, "uid": name}, "spec": spec}
        self.changes += 1


class Server:
    """Flow control with requests that are not answered by anything."""

    def __init__(self, seats: int = 600, objects: int = 0) -> None:
        self.objects = Objects()
        self.registry = Registry()
        self.now = 1000.0
        self.flow = FlowControl(self.objects, seats, lambda prefix: objects, self.registry, lambda: self.now)
        self.begun: list[str] = []
        self.refused: list[tuple[str, str]] = []
        self.tasks: list[asyncio.Task[None]] = []

    def narrow(self, level: str, queues: int = 1, hand_size: int = 1, queue_length: int = 99) -> None:
        """Give a level one seat."""
        queuing = {"queues": queues, "handSize": hand_size, "queueLengthLimit": queue_length}
        limited = {
            "nominalConcurrencyShares": 0,
            "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Queue", "queuing": queuing},
        }
        self.objects.put(PRIORITY_LEVEL, level, {"type": "Limited", "limited": limited})

    def send(
        self,
        user: User,
        method: str = "GET",
        path: str = f"{PODS}/x",
        *,
        watch: bool = False,
        turns: int = 0,
        until: asyncio.Event | None = None,
    ) -> asyncio.Task[None]:
        """Send a request that holds its seats for some turns of the loop, or until something happens."""
        task = asyncio.ensure_future(self._request(user, parse(method, path, watch), turns, until))
        self.tasks.append(task)
        return task

    async def _request(self, user: User, info: Any, turns: int, until: asyncio.Event | None) -> None:
        ticket = None
        try:
            ticket = self.flow.admit(user, info, {})
            if ticket.waiting is not None:
                await ticket.waiting
            self.begun.append(user.name)
            for _ in range(turns):
                await asyncio.sleep(0)
            if until is not None:
                await until.wait()
        except Refused as refused:
            self.refused.append((user.name, refused.reason))
        finally:
            if ticket is not None:
                self.flow.finish(ticket)

    async def all(self) -> None:
        await asyncio.gather(*self.tasks)

    def before(self, name: str) -> int:
        """Return how many requests began before the first of *name*."""
        return self.begun.index(name)

    def metric(self, line: str) -> float:
        found = [each for each in self.registry.render().decode().splitlines() if each.startswith(f"{line} ")]
        return float(found[0].rpartition(" ")[2]) if found else 0.0


async def behind(server: Server, flood: Callable[[], Any], other: User, **rest: Any) -> int:
    """Return how many requests of a flood begin before one of *other* that comes after all of them."""
    flood()
    await asyncio.sleep(0)  # the flood is here and waits
    began = len(server.begun)
    server.send(other, **rest)
    await server.all()
    assert server.refused == []
    return server.before(other.name) - began


async def test_behind_a_flood_of_reads_another_user_waits_one_turn():
    server = Server()
    waited = await behind(server, lambda: [server.send(JANE) for _ in range(250)], JOE)
    assert waited <= SEATS_A_TURN


async def test_behind_a_flood_of_writes_that_keep_their_seats():
    server = Server()
    waited = await behind(
        server, lambda: [server.send(JANE, "POST", PODS, turns=20) for _ in range(250)], JOE
    )
    assert waited <= SEATS_A_TURN


async def test_a_request_that_goes_on_beside_the_loop_frees_its_seat():
    server = Server()
    server.narrow("global-default")
    large = server.flow.admit(JANE, parse("POST", PODS, False), {})
    waits = server.flow.admit(JOE, parse("GET", f"{PODS}/x", False), {})
    assert large.waiting is None and waits.waiting is not None
    server.flow.release_seats(large)
    await asyncio.wait_for(waits.waiting, 60)
    server.flow.finish(large)
    server.flow.finish(waits)
    (level,) = [each for each in server.flow.levels() if each.name == "global-default"]
    assert (level.seats_in_use, level.executing, level.waiting) == (0, 0, 0)


async def test_one_user_through_many_namespaces_is_one_user():
    server = Server()

    def flood() -> None:
        for number in range(250):
            server.send(JANE, path=f"/api/v1/namespaces/n{number}/pods/x")

    assert await behind(server, flood, JOE) <= SEATS_A_TURN


async def test_many_users_of_a_group_do_not_hold_up_another_level():
    server = Server()
    waited = await behind(server, lambda: [server.send(account(number)) for number in range(1000)], JOE)
    assert waited <= 2 * SEATS_A_TURN


async def test_many_users_of_a_group_do_not_hold_up_one_of_them_for_all_of_theirs():
    server = Server()

    def flood() -> None:
        for number in range(40):
            for _ in range(20):
                server.send(account(number))

    waited = await behind(server, flood, account(99))
    assert (
        waited <= 2 * 40 + SEATS_A_TURN
    )  # each of them once or twice (some share a queue), not twenty times


async def test_long_lists_use_up_the_turns_of_their_user():
    server = Server(objects=5000)  # a list takes eight of the level's forty-nine seats
    waited = await behind(server, lambda: [server.send(JANE, path=PODS) for _ in range(40)], JOE)
    assert waited <= 1


async def test_in_one_level_one_long_list_counts_as_much_as_many_gets():
    server = Server(objects=5000)
    for _ in range(20):
        server.send(JANE, path=PODS)
        for _ in range(4):
            server.send(JOE)
    await server.all()
    half = server.begun[: len(server.begun) // 2]
    assert half.count("joe") > 4 * half.count("jane")


async def test_a_flood_of_watches_is_charged_at_its_start():
    server = Server()
    waited = await behind(server, lambda: [server.send(JANE, path=PODS, watch=True) for _ in range(250)], JOE)
    assert waited <= SEATS_A_TURN
    kind = 'flow_schema="global-default",type="watch"'
    name = "apiserver_flowcontrol_request_execution_seconds_count"
    assert server.metric(f'{name}{{priority_level="global-default",{kind}}}') == 250


async def test_whoever_is_exempt_takes_half_of_the_turns_at_most():
    server = Server()
    for _ in range(200):
        server.send(MASTER)
    for number in range(200):
        server.send(proven(f"user-{number % 40}"))
    await server.all()
    first = server.begun[SEATS_A_TURN:200]
    assert 0.2 < sum(name != "admin" for name in first) / len(first) < 0.6


async def test_whoever_is_exempt_is_never_refused_and_needs_no_seat():
    server = Server(seats=1)
    for _ in range(2000):
        server.send(MASTER, turns=3)
    await server.all()
    assert server.refused == [] and len(server.begun) == 2000


async def test_a_level_that_is_full_leaves_the_others_alone():
    server = Server()
    stuck = asyncio.Event()
    for number in range(900):
        server.send(account(number), "POST", PODS, until=stuck)  # all it may have, and all it may borrow
    for _ in range(200):
        await asyncio.sleep(0)
    began = len(server.begun)
    assert began < 600 and server.flow._waiting
    other = server.send(JOE, turns=1)
    await asyncio.wait_for(other, 60)
    node = server.send(proven("system:node:n", ["system:nodes"]), "PATCH", "/api/v1/nodes/n/status")
    await asyncio.wait_for(node, 60)
    assert server.begun[began:] == ["joe", "system:node:n"]
    stuck.set()
    await server.all()


async def test_what_is_lent_comes_back():
    server = Server()
    stuck = asyncio.Event()
    for number in range(900):
        server.send(account(number), until=stuck)
    for _ in range(200):
        await asyncio.sleep(0)
    levels = {level.name: level for level in server.flow.levels()}
    low = levels["workload-low"]
    assert low.seats_in_use > low.seats.nominal  # it borrows
    kept = sum(level.seats.lower for level in levels.values() if level is not low)
    assert low.seats_in_use == sum(level.seats.nominal for level in levels.values()) - kept
    for _ in range(20):  # more than it never lends
        server.send(proven("system:kube-scheduler"), "POST", PODS, until=stuck)
    for _ in range(20):
        await asyncio.sleep(0)
    assert levels["workload-high"].seats_in_use == 20
    stuck.set()
    await server.all()
    assert all(level.seats_in_use == level.waiting == 0 for level in server.flow.levels())


async def test_a_full_queue_refuses():
    server = Server()
    server.narrow("workload-low", queues=128, hand_size=6, queue_length=50)
    stuck = asyncio.Event()
    for _ in range(1500):
        server.send(account(1), until=stuck)
    for _ in range(20):
        await asyncio.sleep(0)
    assert {reason for _, reason in server.refused} == {"queue-full"}
    labels = 'priority_level="workload-low",flow_schema="service-accounts",reason="queue-full"'
    assert server.metric(f"apiserver_flowcontrol_rejected_requests_total{{{labels}}}") == len(server.refused)
    waiting = 'priority_level="workload-low",flow_schema="service-accounts"'
    assert (
        server.metric(f"apiserver_flowcontrol_current_inqueue_requests{{{waiting}}}") == 6 * 50
    )  # its hand, full
    stuck.set()
    await server.all()


async def test_a_level_without_queues_refuses_what_finds_no_seat_but_not_what_waits_for_the_loop():
    server = Server()
    stuck = asyncio.Event()
    odd = User("odd")  # in no group: catch-all
    for _ in range(40):
        server.send(odd, until=stuck)
    for _ in range(20):
        await asyncio.sleep(0)
    level = next(level for level in server.flow.levels() if level.name == "catch-all")
    assert len(server.begun) == level.seats_in_use > SEATS_A_TURN
    assert server.refused == [("odd", "concurrency-limit")] * (40 - level.seats_in_use)
    stuck.set()
    await server.all()


async def test_what_waits_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(dispatcher, "SWEEP_SECONDS", 0.0)
    server = Server()
    server.narrow("global-default")
    stuck = asyncio.Event()
    holds, waits = server.send(JANE, until=stuck), server.send(JANE)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    server.now += dispatcher.WAIT_SECONDS + 1
    await asyncio.wait_for(waits, 60)
    assert server.refused == [("jane", "time-out")] and not holds.done()
    stuck.set()
    await server.all()


async def test_a_client_that_goes_leaves_nothing_behind():
    server = Server()
    server.narrow("global-default")
    stuck = asyncio.Event()
    server.send(JANE, until=stuck)
    for _ in range(30):
        server.send(JANE)
    await asyncio.sleep(0)
    for task in server.tasks[5:20]:
        task.cancel()
    await asyncio.sleep(0)
    assert server.flow._waiting == 15
    stuck.set()
    await asyncio.gather(*server.tasks, return_exceptions=True)
    assert len(server.begun) == 16
    assert all(level.seats_in_use == level.waiting == level.executing == 0 for level in server.flow.levels())


async def test_a_client_that_goes_in_the_moment_its_turn_comes_leaves_nothing_behind():
    server = Server()
    for _ in range(100):
        server.send(JANE)
    await asyncio.sleep(0)
    while server.flow._waiting:
        for task in server.tasks:
            if not task.done():
                task.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*server.tasks, return_exceptions=True)
    assert all(level.seats_in_use == level.waiting == level.executing == 0 for level in server.flow.levels())


async def test_a_changed_object_counts_at_once():
    server = Server()
    info = parse("GET", f"{PODS}/x")
    assert server.flow.admit(JANE, info, {}).flow.schema == "global-default"
    server.objects.put(
        PRIORITY_LEVEL,
        "mine",
        {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}, "nominalConcurrencyShares": 5}},
    )
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    rules = [{"subjects": [{"kind": "User", "user": {"name": "jane"}}], "resourceRules": [everything]}]
    server.objects.put(
        FLOW_SCHEMA,
        "janes",
        {"priorityLevelConfiguration": {"name": "mine"}, "matchingPrecedence": 50, "rules": rules},
    )
    flow = server.flow.admit(JANE, info, {}).flow
    assert (flow.schema, flow.level.name) == ("janes", "mine")
    assert flow.headers == (
        (b"X-Kubernetes-PF-FlowSchema-UID", b"janes"),
        (b"X-Kubernetes-PF-PriorityLevel-UID", b"mine"),
    )
    del server.objects.held["PriorityLevelConfiguration", "mine"]
    server.objects.changes += 1
    assert server.flow.admit(JANE, info, {}).flow.schema == "global-default"  # it dangles


async def test_a_level_that_is_gone_serves_out_what_waits():
    server = Server()
    limited = {
        "limitResponse": {"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 99}}
    }
    server.objects.put(
        PRIORITY_LEVEL,
        "workload-low",
        {"type": "Limited", "limited": {**limited, "nominalConcurrencyShares": 1}},
    )
    for _ in range(60):
        server.send(account(1), turns=3)
    await asyncio.sleep(0)
    assert server.flow._waiting
    del server.objects.held["PriorityLevelConfiguration", "workload-low"]
    server.objects.changes += 1
    await server.all()
    assert len(server.begun) == 60 and server.refused == []


async def test_the_seats_of_a_new_cluster_are_those_of_a_real_one():
    server = Server()
    found = {level.name: tuple(level.seats) for level in server.flow.levels()}
    assert found == {
        "exempt": (0, 0, 600),
        "catch-all": (13, 13, 613),
        "global-default": (49, 24, 649),
        "leader-election": (25, 25, 625),
        "node-high": (98, 73, 698),
        "system": (74, 50, 674),
        "workload-high": (98, 49, 698),
        "workload-low": (245, 24, 845),
    }


@pytest.mark.parametrize("groups", [1, 500])
async def test_flows_are_remembered_within_bounds(monkeypatch, groups):
    monkeypatch.setattr(dispatcher, "MOST_FLOWS", 100)
    server = Server()
    for number in range(1000):
        user = proven(f"user-{number}", [f"group-{each}" for each in range(groups)])
        server.flow.finish(server.flow.admit(user, parse("GET", "/" + "x" * number), {}))
        assert len(server.flow._flows) <= 100
    assert bool(server.flow._flows) is (groups == 1)
