"""The work of `bench kubernetes` does on weir what it says, at a small size, given by the same program on client-go."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
from bench._client_go import Step, measure
from bench._systems import System, weir

CONTROLLERS = ("deployment", "replicaset", "job", "resourceclaim", "taint-eviction")


@pytest.fixture(params=[False, True], ids=["uniform", "diverse"])
def diverse(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def system() -> Iterator[System]:
    with weir(CONTROLLERS) as started:
        yield started


def pods(system: System) -> list[dict[str, Any]]:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    request = Request(
        f"{system.server}/api/v1/namespaces/default/pods", headers={"Authorization": f"Bearer {system.token}"}
    )
    with urlopen(request, context=trusting) as answer:
        items: list[dict[str, Any]] = json.load(answer)["items"]
        return items


def test_pods_of_every_kind_are_bound_and_every_process_is_counted(system, diverse):
    before = (Step("nodes", 4), Step("devices", 4))
    measured = measure(system, before, Step("bound", 6), "pods/s", diverse)
    assert measured.value > 0
    assert measured.count == 6
    assert set(measured.cpu) == set(measured.memory) == {"apiserver", "scheduler", "controller-manager"}
    for mode in ("claims", "deployments", "jobs"):
        assert measure(system, (), Step(mode, 10, prefix=mode), "pods/s", diverse).value > 0
    placed = [pod["spec"]["nodeName"] for pod in pods(system)]
    assert len(placed) == 36
    # sla is 0 and 1 on the tainted nodes, which the pods do not tolerate
    assert set(placed) == {"node-0", "node-2"}


def test_the_last_pod_ends_the_clock_of_evictions(system, diverse):
    before = (Step("nodes", 3), Step("placed", 9, ("-nodes", "3")))
    assert measure(system, before, Step("evict", 9, ("-nodes", "3")), "s", diverse).value > 0
    assert pods(system) == []


def test_a_rollout_ends_when_every_pod_is_new_and_ready(system, diverse):
    assert measure(system, (Step("nodes", 4), Step("ready", 60)), Step("rollout", 60), "s", diverse).value > 0
    made = pods(system)
    assert len(made) == (50 if diverse else 60)  # diverse: whole Deployments of 50
    assert {pod["spec"]["containers"][0]["image"] for pod in made} == {"app:v2"}
    assert {pod["status"]["phase"] for pod in made} == {"Running"}


def test_every_informer_sees_every_pod_and_a_list_is_read_to_its_end(system, diverse):
    before = (Step("nodes", 0), Step("create", 5, prefix="w"))
    assert measure(system, before, Step("watch", 40, ("-watchers", "3")), "1/s", diverse).value > 0
    assert len(pods(system)) == 45
    for mode in ("list", "informer"):
        assert measure(system, (), Step(mode, 45), "ms", diverse).value > 0
        with pytest.raises(TimeoutError, match="of 45 pods"):
            measure(system, (), Step(mode, 46), "ms", diverse)


def test_memory_is_counted_when_the_pods_are_there(system, diverse):
    before, work = (Step("nodes", 2),), Step("placed", 8, ("-nodes", "2"))
    measured = measure(system, before, work, "MiB", diverse)
    assert measured.value == pytest.approx(sum(measured.memory.values()))
    assert len(pods(system)) == 8
