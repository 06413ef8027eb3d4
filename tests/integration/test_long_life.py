"""A server that lives long: values that come and go leave nothing behind, whoever remembers them."""

from __future__ import annotations

import gc
import json
from collections import deque
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType

import numpy as np
import pytest

from weir.apiserver.build import build
from weir.apiserver.options import Options, open_store
from weir.apiserver.transport.http import Request
from weir.clock import VirtualClock

CONTAINERS = (dict, list, set, frozenset, tuple, deque)
LEAVES = (str, bytes, int, float, type, ModuleType, BuiltinFunctionType, type(None))


def held(root: object) -> int:
    """Return how many entries all containers that *root* leads to have together."""
    seen, todo, total = set(), [root], 0
    while todo:
        each = todo.pop()
        if isinstance(each, LEAVES) or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            total += each.size
        elif isinstance(each, FunctionType):  # what it closes over, not the module it is from
            todo += [cell.cell_contents for cell in each.__closure__ or () if cell != CellType()]
        else:
            total += len(each) if isinstance(each, CONTAINERS) else 0
            todo += gc.get_referents(each)
    return total


class World:
    """A server in memory under virtual time, and one administrator."""

    async def start(self, folder) -> None:
        self.clock = VirtualClock()
        options = Options(folder, store="memory", insecure=True)
        self.running = await build(options, await open_store(options, self.clock), self.clock)

    async def ask(self, method: str, path: str, document=None, media: bytes = b"application/json") -> int:
        token = f"Bearer {self.running.admin_token}".encode()
        body = b"" if document is None else json.dumps(document).encode()
        request = Request(method, path, "", {b"authorization": token, b"content-type": media}, body)
        answer = await self.running.server.handle(request)
        assert answer.code < 300, (method, path, answer.body)
        return answer.code

    async def settle(self) -> int:
        """Forget what may be forgotten, and return how much is held."""
        store = self.running.store
        await store.compact(store.revision)
        await self.ask("GET", "/metrics")  # adds up what was observed
        gc.collect()
        return held(self.running)


@pytest.fixture
async def world(tmp_path):
    made = World()
    await made.start(tmp_path)
    yield made
    await made.running.stop()


async def churn(world: World, first: int, count: int) -> None:
    """Rewrite the taints of 50 nodes; let namespaces, services, events and their names come and go."""
    merge = b"application/merge-patch+json"
    for number in range(first, first + count):
        taint = {"key": "load", "value": str(number), "effect": "NoSchedule"}
        patch = {"spec": {"taints": [taint]}}
        await world.ask("PATCH", f"/api/v1/nodes/n{number % 50}", patch, merge)
        if number % 5:
            continue
        home = "/api/v1/namespaces/default"
        await world.ask(
            "POST", f"{home}/configmaps", {"metadata": {"name": f"c{number}"}, "data": {"a": str(number)}}
        )
        await world.ask("DELETE", f"{home}/configmaps/c{number}")
        event = {
            "metadata": {"name": f"e{number}"},
            "involvedObject": {"namespace": "default"},
            "reason": f"r{number}",
        }
        await world.ask("POST", f"{home}/events", event)
        quota = {"metadata": {"name": f"q{number}"}, "spec": {"hard": {f"count/x{number}": "5"}}}
        await world.ask("POST", f"{home}/resourcequotas", quota)
        await world.ask("DELETE", f"{home}/resourcequotas/q{number}")


async def test_values_that_come_and_go_leave_nothing_behind(world):
    for number in range(50):
        await world.ask("POST", "/api/v1/nodes", {"metadata": {"name": f"n{number}"}})
    await churn(world, 0, 300)
    await world.running.store.upkeep(world.clock.time() + 7200)
    before = await world.settle()
    await churn(world, 300, 900)
    await world.running.store.upkeep(world.clock.time() + 7200)
    after = await world.settle()
    assert after <= 1.05 * before
    for number in range(100):  # the count notices what stays
        await world.ask(
            "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"kept{number}"}}
        )
    assert await world.settle() >= after + 100
