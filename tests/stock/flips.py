"""Taints that change under running pods, while everything around them is disturbed: nobody may be evicted wrongly.

A flip is a running pod whose node gets another value that the pod tolerates: it must stay. Every tenth write of a
node, and the last, brings a value that it does not: then it must leave. Six situations: idle, churn, a
kube-controller-manager that is frozen and restarted, two API servers, two kube-controller-managers that fail over,
operators that are killed in the middle of a barrier; and three: three API servers that are killed in turn, certificates
that are renewed, operators that are replaced by those of another version and back.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

from tests.contract.etcd_server import free_port
from tests.stock.real import PATIENCE_SECONDS, PODS, SECRETS, Plane, Program, installed, plane
from weir import errors
from weir.certificates import KeyPair, issue, make_authority, subject_name
from weir.client.api import Unreachable
from weir.install.rights import CERTIFICATES
from weir.lowering.names import NAMESPACE
from weir.operator.certificates import AUTHORITY_LIFETIME, LEAF, LEAF_LIFETIME, Certificates

GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}
NODES, PODS_PER_NODE, MISMATCH_EVERY = 4, 5, 10
#: A wrong eviction shows at once; this is how long the last writes are watched.
AFTERWARDS_SECONDS = 2.0
#: The rhythm of disturbances: a pod comes and one goes, a leader is killed, an operator lives.
CHURN_SECONDS, PAUSE_SECONDS, FAIL_OVER_SECONDS, OPERATOR_LIVES_SECONDS = 0.02, 1.0, 3.5, 5.0
#: The version that operators are upgraded from: the last that knew no entries for whole keys.
PREVIOUS = "16ed95b8"


@dataclass
class Result:
    """What one situation came to."""

    situation: str
    flips: int = 0
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    evictions: int = 0

    def line(self) -> str:
        cuts = sorted(self.writes)
        p50, p99 = statistics.median(cuts), cuts[min(len(cuts) - 1, int(len(cuts) * 0.99))]
        return (
            f"{self.situation:28} {self.flips:6} flips  {len(self.wrong):3} wrong  {self.evictions:5} evictions due  "
            f"{len(self.missed):3} missed  node write p50 {p50 * 1000:6.0f} ms  p99 {p99 * 1000:6.0f} ms"
        )


class Situation:
    """Nodes with pods, and writers that change their taints."""

    def __init__(self, made: Plane, result: Result) -> None:
        self.plane, self.result = made, result
        self._values = itertools.count(1_000)
        self._names = itertools.count()
        self._pods: dict[str, list[str]] = {}
        self._due: set[str] = set()

    async def prepare(self) -> None:
        for number in range(NODES):
            node = f"n{number}"
            await self.plane.node(node, ("sla", str(next(self._values)), "NoExecute"))
            await self._fill(node)

    async def _fill(self, node: str) -> None:
        names = [f"{node}-{next(self._names)}" for _ in range(PODS_PER_NODE)]
        for name in names:
            await _patiently(lambda name=name: self.plane.pod(name, GT, node=node))
        await self.plane.until(
            lambda: all(name in self.plane.bound for name in names), f"pods of {node} are bound"
        )
        self._pods[node] = names

    async def write(self, node: str, flips: int) -> None:
        """Change one node's taint until all writers together have made so many flips."""
        servers = len(self.plane.clients)
        for turn in itertools.count(1):
            if self.result.flips >= flips:
                return
            if turn % MISMATCH_EVERY == 0:
                await self._mismatch(node)
                continue
            value = str(next(self._values))
            self.result.writes.append(
                await self.plane.taint(node, ("sla", value, "NoExecute"), via=turn % servers)
            )
            self.result.flips += len(self._pods[node])
            self._check(node)

    async def _mismatch(self, node: str, *, refill: bool = True) -> None:
        names = self._pods[node]
        self._check(node)
        self._due |= set(names)
        self.result.evictions += len(names)
        await self.plane.taint(node, ("sla", str(random.randrange(900)), "NoExecute"))
        try:
            await self.plane.until(lambda: all(name in self.plane.gone for name in names), "evictions", 30.0)
        except AssertionError:
            self.result.missed += [name for name in names if name not in self.plane.gone]
        if refill:
            await self.plane.taint(node, ("sla", str(next(self._values)), "NoExecute"))
            await self._fill(node)

    def _check(self, node: str) -> None:
        for name in self._pods[node]:
            if name in self.plane.gone and name not in self._due:
                self.result.wrong.append(name)
                self._due.add(name)

    async def run(self, flips: int) -> None:
        await asyncio.gather(*(self.write(node, flips) for node in list(self._pods)))
        await asyncio.sleep(AFTERWARDS_SECONDS)
        for node in self._pods:
            self._check(node)
        await asyncio.gather(*(self._mismatch(node, refill=False) for node in self._pods))


async def _patiently(act: Callable[[], Awaitable[None]]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            await act()
            return
        except errors.AlreadyExists:
            return
        except (errors.ApiError, Unreachable):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


# ── disturbances ─────────────────────────────────────────────────────────────────────────────────


async def churn(made: Plane) -> None:
    """Extended and plain pods come and go, and everybody writes labels."""
    for number in itertools.count():
        name = f"churn-{number}"
        with suppress(errors.ApiError, Unreachable):
            await made.pod(name, *([GT] if number % 2 else []))
            await made.client.patch(PODS, name, {"metadata": {"labels": {"a": "b"}}}, "default", read=False)
        if number >= 20:
            with suppress(errors.ApiError, Unreachable):
                await made.client.delete(PODS, f"churn-{number - 20}", "default", grace_period_seconds=0)
        await asyncio.sleep(CHURN_SECONDS)


async def freeze_and_restart(made: Plane) -> None:
    """kube-controller-manager is stopped for a second, goes on, and is killed and started again."""
    manager = made.managers[0]
    while True:
        await asyncio.sleep(1.0)
        manager.freeze()
        await asyncio.sleep(1.0)
        manager.thaw()
        await asyncio.sleep(1.0)
        manager.kill()
        await asyncio.sleep(0.2)
        manager.start()
        await asyncio.sleep(2.0)


async def fail_over(made: Plane) -> None:
    """Whichever kube-controller-manager leads is killed; the other takes over and the first comes back."""
    for number in itertools.count():
        await asyncio.sleep(FAIL_OVER_SECONDS)
        await _kill_for(made.managers[number % 2], 1.0)
        await asyncio.sleep(FAIL_OVER_SECONDS)


async def kill_operators(made: Plane) -> None:
    """One operator after the other is killed, wherever it is in a barrier, and comes back."""
    for number in itertools.count():
        await asyncio.sleep(random.uniform(0.3, 0.8))
        await _kill_for(made.operators[number % 2], 0.3)
        await asyncio.sleep(OPERATOR_LIVES_SECONDS)


async def kill_servers(made: Plane) -> None:
    """One API server after the other is killed, and comes back."""
    servers = [each for each in made.programs if each.name.startswith("kube-apiserver")]
    for number in itertools.count():
        await asyncio.sleep(OPERATOR_LIVES_SECONDS)
        await _kill_for(servers[number % len(servers)], 1.0)
        await made.answering(number % len(servers))


async def renew_certificates(made: Plane) -> None:
    """The certificate is found to be near its end, then its authority, again and again: operators renew both."""
    for number in itertools.count():
        await asyncio.sleep(PAUSE_SECONDS)
        secret = await made.client.get(SECRETS, CERTIFICATES, NAMESPACE)
        found = Certificates.read(secret["data"])
        assert found is not None
        authority = KeyPair(found.authority, found.authority_key)
        if number % 2:
            began = datetime.now(UTC) - (AUTHORITY_LIFETIME - timedelta(days=100))
            authority = make_authority("ca", began, AUTHORITY_LIFETIME, key=authority.key, path_length=0)
        began = datetime.now(UTC) - (LEAF_LIFETIME - timedelta(days=1))
        leaf = issue(authority, subject_name("weir-operator"), began, LEAF_LIFETIME, names=["127.0.0.1"])
        old = Certificates(authority.certificate, authority.key, leaf.certificate, leaf.key)
        await made.client.patch(SECRETS, CERTIFICATES, {"data": old.data()}, NAMESPACE)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (await made.client.get(SECRETS, CERTIFICATES, NAMESPACE))["data"][LEAF] == old.data()[LEAF]:
            assert time.monotonic() < deadline, "nobody renews the certificate"
            await asyncio.sleep(0.1)


async def roll(made: Plane) -> None:
    """Operators of one version give way to those of the other, one by one, once the new one is ready; then back."""
    running, free = list(made.operators), made.hook_ports[len(made.operators) :]
    ports = made.hook_ports[: len(running)]
    for turn in itertools.count():
        for place, old in enumerate(running):
            source = None if turn % 2 == 0 else previous_version()
            running[place] = made.operator(f"operator-{turn}-{place}", free[place], free_port(), source)
            new = running[place]
            await made.until(lambda new=new: " Ready " in new.log, f"{new.name} is ready")
            await asyncio.to_thread(old.stop)
            ports[place], free[place] = free[place], ports[place]
            await asyncio.sleep(PAUSE_SECONDS)


@cache
def previous_version() -> Path:
    """Return the source of an earlier version of weir; skips where the repository has no history."""
    folder = Path(tempfile.mkdtemp(prefix="weir-previous-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = Path(__file__).parents[2]
    archive = subprocess.run(["git", "archive", PREVIOUS, "src"], cwd=root, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"this copy of the repository does not have commit {PREVIOUS}")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder / "src"


async def _kill_for(program: Program, seconds: float) -> None:
    program.kill()
    await asyncio.sleep(seconds)
    program.start()


async def nothing(made: Plane) -> None:
    await asyncio.Event().wait()


@dataclass(frozen=True)
class Setting:
    disturb: Callable[[Plane], Awaitable[None]] = nothing
    servers: int = 1
    managers: int = 1
    replicas: int = 1
    grace_seconds: int | None = None
    own_certificate: bool = False
    from_previous: bool = False  #: begin with operators of an earlier version


SITUATIONS = {
    "idle": Setting(),
    "churn": Setting(churn),
    "controller manager frozen": Setting(freeze_and_restart),
    "two API servers": Setting(churn, servers=2),
    # What an operator gives by default where it sees several API servers; here both have one address.
    "two controller managers": Setting(fail_over, servers=2, managers=2, grace_seconds=10),
    "operators killed": Setting(kill_operators, replicas=2),
    "three API servers killed": Setting(kill_servers, servers=3, replicas=2, grace_seconds=10),
    "certificates renewed": Setting(renew_certificates, replicas=2, own_certificate=True),
    "operators upgraded": Setting(roll, replicas=2, own_certificate=True, from_previous=True),
}


async def play(folder: Path, situation: str, flips: int) -> Result:
    """Return what *situation* comes to after so many flips."""
    setting, result = SITUATIONS[situation], Result(situation)
    async with (
        plane(folder, servers=setting.servers, managers=setting.managers) as made,
        installed(
            made,
            replicas=setting.replicas,
            grace_seconds=setting.grace_seconds,
            own_certificate=setting.own_certificate,
            source=previous_version() if setting.from_previous else None,
        ),
    ):
        acting = Situation(made, result)
        await acting.prepare()
        disturbing = asyncio.ensure_future(setting.disturb(made))
        try:
            await acting.run(flips)
        finally:
            disturbing.cancel()
            (ended,) = await asyncio.gather(disturbing, return_exceptions=True)
        if not isinstance(ended, asyncio.CancelledError):
            raise AssertionError("the situation ended by itself") from ended
    return result
