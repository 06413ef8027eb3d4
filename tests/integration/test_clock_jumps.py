"""The time of day jumps: what a clock measures goes on, what a date limits follows the new date.

Taint evictions and node health are in test_clock_steps.py.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from tests.golden.cluster import MemorySink
from tests.unit.client.test_leases import Scene
from tests.unit.operator.test_credentials import SECRET, used
from tests.unit.operator.test_credentials import own as own_credentials
from weir.apiserver import run
from weir.apiserver.build import build
from weir.apiserver.options import Options, open_store
from weir.apiserver.own_endpoints import GONE_SECONDS, IdentityLease, OwnEndpoints
from weir.apiserver.transport.http import Request
from weir.certificates import load_certificate
from weir.client.leases import Timing
from weir.clock import VirtualClock
from weir.lowering.triples import Triple
from weir.lowering.webhooks import mutating_configuration, validating_configuration
from weir.objects.kinds import ENDPOINTS
from weir.operator.holds import HOLD_SECONDS, RENEW_SECONDS
from weir.operator.known_triples import KnownTriples
from weir.simulation.cluster import Cluster
from weir.store.memory import DEFAULT_KEEP_SECONDS, upkeep_loop

HOUR, DAY = 3600.0, 86400.0
JUMPS = pytest.mark.parametrize(
    "jump", [HOUR, -HOUR, DAY, -DAY], ids=["hour", "hour back", "day", "day back"]
)
HOME = "/api/v1/namespaces/default"


class Server:
    """An API server whose clock can be set, and its administrator."""

    def __init__(self, running, clock):
        self.running, self.clock = running, clock

    async def send(self, method, path, document=None, *, query="", token=""):
        headers = {b"authorization": f"Bearer {token or self.running.admin_token}".encode()}
        body = b"" if document is None else json.dumps(document).encode()
        request = Request(method, path, query, {**headers, b"content-type": b"application/json"}, body)
        if not token and (certificate := self.running.admin_certificate) is not None:
            request.peer_certificate = certificate
            del request.headers[b"authorization"]
        return await self.running.server.handle(request)

    async def ask(self, method, path, document=None, **more):
        answer = await self.send(method, path, document, **more)
        assert answer.code < 300, answer.body
        return json.loads(answer.body)

    async def watch(self, **query):
        """Begin a watch of ConfigMaps; return where it writes and its task."""
        text = "&".join(["watch=true", *(f"{name}={value}" for name, value in query.items())])
        answer, sink = await self.send("GET", f"{HOME}/configmaps", query=text), MemorySink()
        task = asyncio.ensure_future(answer.run(sink))
        await self.clock.settle()
        return sink, task


@asynccontextmanager
async def serve(folder, store="memory", *, insecure=True):
    clock = VirtualClock(can_be_set=True)
    options = Options(folder, store=store, insecure=insecure)
    running = await build(options, await open_store(options, clock), clock)
    running.chores.append(asyncio.ensure_future(upkeep_loop(running.store, clock)))
    try:
        yield Server(running, clock)
    finally:
        await running.stop()


@pytest.fixture
async def server(tmp_path):
    async with serve(tmp_path) as made:
        yield made


# ── what a date limits ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def secure_server(tmp_path):
    async with serve(tmp_path, insecure=False) as made:
        yield made


async def test_a_token_is_good_between_its_dates_whatever_way_the_clock_gets_there(secure_server):
    server = secure_server
    await server.ask("POST", f"{HOME}/serviceaccounts", {"metadata": {"name": "robot"}})
    request = {"spec": {"expirationSeconds": 600}}
    answer = await server.ask("POST", f"{HOME}/serviceaccounts/robot/token", request)
    token = answer["status"]["token"]

    async def knows():
        return (await server.send("GET", "/api", token=token)).code != 401

    assert await knows()
    for jump, good in (
        (HOUR, False),
        (-HOUR, True),
        (-HOUR, False),
        (HOUR, True),
        (DAY, False),
        (-DAY, True),
    ):
        server.clock.set_by(jump)
        assert await knows() is good, jump
    await server.clock.advance(599)
    assert await knows()
    await server.clock.advance(1)
    assert not await knows()
    server.clock.set_by(-300.0)
    assert await knows()
    await server.clock.advance(300)
    assert not await knows(), "no longer than to its date"


@pytest.mark.parametrize("jump", [HOUR, -HOUR, DAY, -DAY, 400 * DAY, -400 * DAY])
async def test_the_api_server_shows_a_certificate_of_today_within_a_minute(tmp_path, jump):
    clock = VirtualClock(can_be_set=True)
    options = Options(tmp_path, store="memory")
    running = await build(options, await open_store(options, clock), clock)
    running.chores.append(asyncio.ensure_future(run._renew(running, clock)))
    try:
        await clock.advance(2 * run.RENEW_SECONDS)
        before = running.credentials.server_cert_path.read_bytes()
        clock.set_by(jump)
        await clock.advance(60)
        for pem in (
            running.credentials.server_cert_path.read_bytes(),
            running.credentials.authority.certificate,
            running.credentials.admin.certificate,
        ):
            certificate = load_certificate(pem)
            assert certificate.not_valid_before_utc <= clock.now() < certificate.not_valid_after_utc
        kept = running.credentials.server_cert_path.read_bytes() == before
        assert kept is (0 < jump <= DAY), "and makes none without need"
    finally:
        await running.stop()


@pytest.mark.parametrize("jump", [HOUR, -HOUR, DAY, -DAY, 100 * DAY, -100 * DAY])
def test_the_operator_serves_a_certificate_of_today_under_a_path_that_is_heard(jump):
    clock = VirtualClock(can_be_set=True)
    with Cluster(clock=clock) as cluster:
        config = {"url": "https://192.0.2.1:9443"}
        cluster.apply(SECRET, mutating_configuration(config), validating_configuration(config))
        replicas = [own_credentials(cluster), own_credentials(cluster)]
        for each in replicas:
            cluster._do(each.ensure())
            cluster.background(each.run())
        cluster.advance(3600)
        clock.set_by(jump)
        for turn in range(60):
            if turn == 2:  # a jump ahead by a day has just rotated the paths
                clock.set_by(-jump)
            named = used(cluster)
            cluster.advance(20)
            for each in replicas:
                assert all(map(each.admits, named | used(cluster)))
                leaf = load_certificate(each.served.leaf)
                assert leaf.not_valid_before_utc <= clock.now() < leaf.not_valid_after_utc


# ── what a clock measures ────────────────────────────────────────────────────────────────────────


@JUMPS
async def test_a_watch_lasts_its_time_and_sends_its_bookmarks(server, jump):
    sink, watching = await server.watch(timeoutSeconds=600, allowWatchBookmarks="true")
    await server.clock.advance(100)
    server.clock.set_by(jump)
    before = sink.text.count(b"BOOKMARK")
    await server.clock.advance(400)
    assert not watching.done() and 5 <= sink.text.count(b"BOOKMARK") - before <= 8
    await server.clock.advance(101)
    assert watching.done()


@JUMPS
async def test_changes_are_kept_for_watches_as_long_as_ever_and_no_longer(server, jump):
    async def write(name):
        made = await server.ask("POST", f"{HOME}/configmaps", {"metadata": {"name": name}})
        return made["metadata"]["resourceVersion"]

    async def resumed(version):
        sink, watching = await server.watch(resourceVersion=version, timeoutSeconds=5)
        await server.clock.advance(6)
        await watching
        return [json.loads(line)["type"] for line in bytes(sink.text).splitlines()]

    version = await write("a")
    await server.clock.advance(2)
    await write("b")
    await server.clock.advance(2)
    server.clock.set_by(jump)
    await server.clock.advance(DEFAULT_KEEP_SECONDS / 2)
    assert await resumed(version) == ["ADDED"]
    await server.clock.advance(DEFAULT_KEEP_SECONDS)
    assert await resumed(version) == ["ERROR"]


@JUMPS
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_events_live_an_hour(tmp_path, store, jump):
    async def names(server):
        return {each["metadata"]["name"] for each in (await server.ask("GET", f"{HOME}/events"))["items"]}

    async def passing(server, seconds):
        for _ in range(10):  # SQLite's writer is a thread, which virtual time does not wait for
            await server.clock.advance(seconds / 10)
            await server.running.store.commit(())

    def event(name):
        return {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}}

    async with serve(tmp_path, store) as server:
        await server.ask("POST", f"{HOME}/events", event("before"))
        await passing(server, HOUR / 2)
        server.clock.set_by(jump)
        await server.ask("POST", f"{HOME}/events", event("after"))
        await passing(server, HOUR / 2 - 60)
        assert await names(server) == {"before", "after"}
        await passing(server, 120)
        assert await names(server) == {"after"}


@JUMPS
async def test_a_leader_keeps_its_term_and_a_silent_one_is_followed_in_its_time(jump):
    scene = Scene()
    scene.clock = VirtualClock(can_be_set=True)
    try:
        for name in ("a", "b"):
            scene.join(name)
        await scene.clock.advance(30)
        for step in (jump, -2 * jump, jump):
            scene.clock.set_by(step)
            await scene.clock.advance(30)
            assert list(scene.acting) == ["a"] and scene.most_at_once == 1
        scene.transports["a"].away = True
        scene.clock.set_by(jump)
        timing = Timing()
        await scene.clock.advance(timing.lease_duration_seconds - timing.retry_seconds - 1)
        assert "b" not in scene.acting, "its lease is not over yet"
        await scene.clock.advance(3 * timing.retry_seconds + 1)
        assert list(scene.acting) == ["b"] and scene.most_at_once == 1
    finally:
        for name in list(scene.tasks):
            await scene.leave(name)


@JUMPS
async def test_other_api_servers_stay_endpoints_until_they_are_silent(server, jump):
    verbs, clock = server.running.server.verbs, server.clock
    other = IdentityLease(verbs, clock, "other", "10.9.0.10:6443", "1")
    own = OwnEndpoints(verbs, clock, "10.9.0.7", 6443)

    async def addresses():
        await own.reconcile()
        (subset,) = verbs.reader.get_now(ENDPOINTS, "default", "kubernetes")["subsets"]
        return [each["ip"] for each in subset["addresses"]]

    await other.renew()
    assert await addresses() == ["10.9.0.7", "10.9.0.10"]
    await clock.advance(5)
    clock.set_by(jump)
    assert await addresses() == ["10.9.0.7", "10.9.0.10"]
    await other.renew()
    await clock.advance(GONE_SECONDS - 1)
    assert await addresses() == ["10.9.0.7", "10.9.0.10"]
    await clock.advance(GONE_SECONDS)
    assert await addresses() == ["10.9.0.7"]


@JUMPS
def test_a_taint_that_a_barrier_relies_on_stays_in_the_operators_table(jump):
    clock = VirtualClock(can_be_set=True)
    triple = Triple("sla", "950", "NoExecute")
    with Cluster(clock=clock) as cluster:
        barrier, leader = (KnownTriples(cluster.client, clock, "default") for _ in range(2))
        cluster._do(barrier.add([triple]))
        cluster._do(leader.read())
        for _ in range(4):
            cluster.advance(RENEW_SECONDS - 1)
            clock.set_by(jump)
            cluster._do(barrier.add([triple]))  # relied on now, whether its stamp is renewed or not
            cluster.advance(HOLD_SECONDS - RENEW_SECONDS - 1)
            cluster._do(leader.read())
            assert cluster._do(leader.forget(set())) == ()
        cluster.advance(HOLD_SECONDS + 1)
        assert cluster._do(leader.forget(set())) == (triple,)
