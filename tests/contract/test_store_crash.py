"""A process that dies at any moment loses nothing it acknowledged, and reuses no revision."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.contract.etcd_server import running_cluster, running_etcd
from weir.store import Event, Store, StoreUnavailable, Write
from weir.store.etcd import EtcdStore
from weir.store.sqlite import SqliteStore

KILLS = 50
ROOT = Path(__file__).parents[2]


class Observer:
    """What the outside world knows: what was acknowledged, and what a watcher has been told so far."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}  # key -> last acknowledged value, "-" deleted
        self.asked: dict[str, str] = {}  # key -> a value asked for and not acknowledged
        self.revisions: dict[int, str] = {}  # acknowledged revision -> what it was for
        self.told: dict[str, bytes] = {}  # the state according to the watcher
        self.told_up_to = 1

    def listen(self, output: bytes) -> int:
        """Take in what a writer said before it died; return how many writes it had acknowledged."""
        self.asked.clear()
        count = 0
        for line in output.decode().split("\n")[:-1]:
            kind, *words = line.split(" ")
            if kind == "S":
                self.asked[words[0]] = words[1]
            elif kind == "A":
                key, revision = words[0], int(words[1])
                count += 1
                assert revision not in self.revisions, f"revision {revision} was used twice"
                assert not self.revisions or revision > self.told_up_to
                value = self.asked.pop(key)
                self.revisions[revision] = f"{key} {value}"
                self.acknowledged[key] = value
        return count

    def resume(self, store: Store) -> None:
        """Go on watching where the watcher stopped."""

        def take(events: list[Event]) -> None:
            for event in events:
                assert event.revision > self.told_up_to, "told twice or out of order"
                self.told_up_to = event.revision
                value = "-" if event.now is None else event.value.decode()
                expected = self.revisions.get(event.revision, f"{event.key} {self.asked.get(event.key)}")
                assert f"{event.key} {value}" == expected, "a revision means something else now"
                self.revisions[event.revision] = expected
                if event.now is None:
                    del self.told[event.key]
                else:
                    self.told[event.key] = event.value

        store.watch("/", self.told_up_to, take).cancel()  # type: ignore[arg-type]

    def check(self, store: Store) -> None:
        """Hold what the store has against what the world was told."""
        held = {item.key: item.value for item in store.range("/").items}
        assert held == self.told, "the watcher missed something"
        for key, value in self.acknowledged.items():
            allowed = {value, self.asked.get(key, value)}
            assert (held[key].decode() if key in held else "-") in allowed, f"{key} lost {value[:30]}"
        self.acknowledged.update({key: value.decode() for key, value in held.items()})
        for key in self.acknowledged.keys() - held.keys():
            self.acknowledged[key] = "-"


def run_and_kill(path: Path, needed: int, seed: int, chance: random.Random) -> bytes:
    """Let a writer run for a random moment, kill it, and return what it said."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.contract.crash_writer", str(path), str(needed), str(seed)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert writer.stdout is not None
    first = writer.stdout.readline()  # it has the store open
    time.sleep(chance.random() * 0.08)
    writer.send_signal(signal.SIGKILL)
    output = first + writer.stdout.read()
    writer.wait()
    writer.stdout.close()
    assert writer.returncode == -signal.SIGKILL
    return output


async def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(tmp_path: Path) -> None:
    path, observer, total = tmp_path / "store.db", Observer(), 0
    chance = random.Random()
    for seed in range(KILLS):
        total += observer.listen(run_and_kill(path, observer.told_up_to, seed, chance))
        store = await SqliteStore.open(path)
        observer.resume(store)
        observer.check(store)
        await store.close()
    assert total > KILLS, "the writers were killed before they did anything"


async def test_nothing_acknowledged_is_lost_when_etcd_is_killed() -> None:
    with running_etcd() as server:
        store = await EtcdStore.open(server.endpoint)
        told: list[int] = []
        store.watch("/", store.revision, lambda events: told.extend(event.revision for event in events))
        kept: dict[str, int] = {}
        unknown: set[str] = set()
        for round_ in range(3):

            async def write(n: int, round_: int = round_) -> None:
                key = f"/{round_}/{n}"
                try:
                    [result] = await store.commit([Write(key, b"x", expect=0)])
                    kept[key] = result.check().revision
                except StoreUnavailable as error:
                    assert error.unknown
                    unknown.add(key)

            writers = [asyncio.create_task(write(n)) for n in range(500)]
            await store.until(store.revision + 1)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await asyncio.gather(*writers)
            await fresh_again(store)
        assert kept, "etcd was killed before it did anything"
        held = {item.key: item.mod_revision for item in store.range("/").items}
        assert kept.items() <= held.items() and held.keys() <= kept.keys() | unknown
        assert told == sorted(held.values())
        await store.close()


async def fresh_again(store: EtcdStore) -> None:
    """Return when the store has found its etcd again."""
    for _ in range(1200):
        try:
            await store.fresh()
            return
        except StoreUnavailable:
            await asyncio.sleep(0.05)
    pytest.fail("the store did not reconnect")


async def test_a_cluster_of_etcd_members_loses_nothing_when_one_after_another_dies() -> None:
    with running_cluster(3) as members:
        store = await EtcdStore.open(",".join(member.endpoint for member in members))
        told: list[int] = []
        store.watch("/", store.revision, lambda events: told.extend(event.revision for event in events))
        kept: dict[str, int] = {}
        unknown: set[str] = set()
        for member in members:
            await asyncio.to_thread(member.kill)
            for n in range(60):
                key = f"/{member.name}/{n}"
                try:
                    [result] = await asyncio.wait_for(store.commit([Write(key, b"x", expect=0)]), 60)
                    kept[key] = result.check().revision
                except StoreUnavailable:
                    unknown.add(key)
                    await asyncio.sleep(0.02)
            await asyncio.to_thread(member.start)
            await fresh_again(store)
        assert len(kept) > 100, "two members of three are enough to write"
        held = {item.key: item.mod_revision for item in store.range("/").items}
        assert kept.items() <= held.items() and held.keys() <= kept.keys() | unknown
        assert told == sorted(held.values())
        await store.close()
