"""The seventy worked examples of device taints, each answered by the part that decides it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.devices.builders import (
    DRIVER,
    T0,
    after,
    allocated,
    device,
    device_class,
    pod,
    rule,
    slice_of,
    taint_slice,
)
from tests.unit.scheduler.claim_scene import Scene, allocation, ask
from tests.unit.scheduler.claim_scene import pod as claiming
from weir.controllers.devices.eviction_queue import EvictionRate
from weir.devices.allocation_search import Allocator
from weir.devices.device_matcher import untolerated
from weir.devices.eviction import claim_eviction, pod_eviction
from weir.devices.outcome import Unallocatable
from weir.devices.tracker import Tracker
from weir.devices.usage import InUse
from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import Node, Toleration, read
from weir.objects.resource import DeviceID, ResourceClaim
from weir.scheduler.cycle import Placement

pytestmark = pytest.mark.proves(
    "5055-5", "5055-33", "5055-34", "5055-36", "5055-37", "5055-38", "5055-61", "5055-63", "5055-78"
)

FOLDER = Path(__file__).parents[2] / "vectors" / "devices"
TAINTS = yaml.safe_load((FOLDER / "taints.yaml").read_text())
SCENARIOS = yaml.safe_load((FOLDER / "scenarios.yaml").read_text())


def gates_of(vector: dict[str, Any]) -> Gates:
    settings = dict(item.split("=") for item in vector.get("gates", "").split(",") if item)
    return ALL_FEATURES.replace({name: value == "true" for name, value in settings.items()})


def tracked(vector: dict[str, Any], gates: Gates = ALL_FEATURES) -> Tracker:
    place = {"driver": vector.get("driver", DRIVER), "pool": vector.get("pool", "node-1")}
    tracker = Tracker(gates)
    tracker.put_slice(slice_of("devices", device("gpu-0", *vector.get("taints", ())), **place))
    if "separate" in vector:
        tracker.put_slice(taint_slice("taints", vector["separate"], **place))
    for number, entry in enumerate(vector.get("rules", ())):
        tracker.put_rule(rule(f"rule-{number}", entry.get("selector"), entry["taint"]))
    return tracker


def leaves(claim: ResourceClaim, tracker: Tracker, gates: Gates = ALL_FEATURES) -> float | None:
    found = claim_eviction(claim, tracker.taints_on, gates, T0)
    return (found.at - T0).total_seconds() if found else None


#: Rows of docs/coverage, by the number of the vector that shows them.
PROVES = {"71": ("5055-118",)}


@pytest.mark.parametrize("vector", TAINTS, ids=lambda v: str(v["n"]))
def test_a_new_claim_may_have_the_device_or_not(vector: dict[str, Any]) -> None:
    gates = gates_of(vector)
    tolerations = [read(Toleration, entry) for entry in vector["tolerations"]]
    (found,) = tracked(vector, gates).devices("devices")
    assert (not untolerated(found.taints, tolerations, gates)) == vector["alloc"]


@pytest.mark.parametrize("vector", TAINTS, ids=lambda v: str(v["n"]))
def test_a_running_pod_leaves_when_it_should(vector: dict[str, Any]) -> None:
    gates = gates_of(vector)
    place = {"driver": vector.get("driver", DRIVER), "pool": vector.get("pool", "node-1")}
    claim = allocated("c", vector["tolerations"], "gpu-0", **place)
    assert leaves(claim, tracked(vector, gates), gates) == vector["evict"]


def run_allocation(vector: dict[str, Any]) -> None:
    tracker = Tracker(ALL_FEATURES)
    tracker.put_slice(slice_of("s", *(device(name, *taints) for name, taints in vector["devices"].items())))
    request = {"name": "gpu", **vector["request"]}
    for asked in [request["exactly"]] if "exactly" in request else request["firstAvailable"]:
        asked["deviceClassName"] = "gpu"
    claim = read(ResourceClaim, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
    allocator = Allocator(tracker, {"gpu": device_class("gpu")}, InUse(), ALL_FEATURES)
    found = allocator.allocate([claim], read(Node, {"metadata": {"name": "node-1"}}))
    if isinstance(found, Unallocatable):
        assert found.message == vector.get("message")
        return
    results = found.claims[0]["devices"]["results"]
    assert [result["device"] for result in results] == vector["gets"]
    if "request_name" in vector:
        assert (results[0]["request"], results[0]["tolerations"]) == (
            vector["request_name"],
            vector["tolerations"],
        )


def run_claim(vector: dict[str, Any]) -> None:
    tracker = Tracker(ALL_FEATURES)
    tracker.put_slice(slice_of("s", *(device(name, *taints) for name, taints in vector["devices"].items())))
    assert leaves(allocated("c", [], *vector["devices"]), tracker) == vector["evict"]


def run_pod(vector: dict[str, Any]) -> None:
    tracker, claims, evictions = Tracker(ALL_FEATURES), {}, {}
    for name, entry in vector["claims"].items():
        tracker.put_slice(slice_of(name, device(name, *entry["taints"]), count=2))
        allows = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": entry["seconds"]}
        claim = claims[f"default/{name}"] = allocated(name, [allows], name)
        found = claim_eviction(claim, tracker.taints_on, ALL_FEATURES, T0)
        assert found is not None
        evictions[claim.key] = found
    together = pod_eviction(pod(*vector["claims"]), claims, evictions)
    assert together is not None
    assert (together.at, len(together.reasons)) == (after(vector["evict"]), vector["reasons"])


def run_rule_edit(vector: dict[str, Any]) -> None:
    tracker = tracked({"rules": [{"selector": {}, "taint": vector["taint"]}]})
    claim = allocated("c", vector["tolerations"], "gpu-0")
    assert leaves(claim, tracker) is None
    tracker.put_rule(rule("rule-0", {}, vector["becomes"]))
    assert leaves(claim, tracker) == vector["evict"]


def run_driver_edit(vector: dict[str, Any]) -> None:
    tracker = tracked({"taints": [vector["taint"]]})
    claim = allocated("c", vector["tolerations"], "gpu-0")
    assert leaves(claim, tracker) is None
    tracker.put_slice(slice_of("devices", device("gpu-0", vector["becomes"])))
    assert leaves(claim, tracker) == vector["evict"]


def run_slice_gone(vector: dict[str, Any]) -> None:
    tracker = tracked(vector)
    claim = allocated("c", [], "gpu-0")
    assert leaves(claim, tracker) == 0
    tracker.remove_slice("devices")
    assert leaves(claim, tracker) == vector["evict"]


def run_late_pod(vector: dict[str, Any]) -> None:
    allows = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": vector["seconds"]}
    tracker = tracked(vector)
    (found,) = tracker.devices("devices")
    assert not untolerated(found.taints, [read(Toleration, allows)], ALL_FEATURES)
    assert leaves(allocated("c", [allows], "gpu-0"), tracker) == vector["evict"] < vector["pod_created"]


def run_unreserved(vector: dict[str, Any]) -> None:
    reserved, free = allocated("c", [], "gpu-0"), allocated("c", [], "gpu-0", reserved=())
    eviction = claim_eviction(reserved, tracked(vector).taints_on, ALL_FEATURES, T0)
    assert eviction is not None
    assert pod_eviction(pod("c"), {"default/c": reserved}, {"default/c": eviction}) is not None
    assert (
        pod_eviction(pod("c", node=""), {"default/c": reserved}, {"default/c": eviction}) is vector["evict"]
    )
    assert pod_eviction(pod("c"), {"default/c": free}, {"default/c": eviction}) is vector["evict"]


def run_pod_toleration(vector: dict[str, Any]) -> None:
    claim = allocated("c", [], "gpu-0")
    eviction = claim_eviction(claim, tracked(vector).taints_on, ALL_FEATURES, T0)
    assert eviction is not None
    tolerant = pod("c", tolerations=[{"key": "a", "operator": "Exists"}])
    found = pod_eviction(tolerant, {"default/c": claim}, {"default/c": eviction})
    assert found is not None
    assert found.at == after(vector["evict"])


def run_rate(vector: dict[str, Any]) -> None:
    tracker = tracked({})
    for number, per_second in enumerate(vector["rates"]):
        more = {} if per_second is None else {"evictionsPerSecond": per_second}
        tracker.put_rule(rule(f"r{number}", {}, "a:NoExecute", **more))
    found = claim_eviction(allocated("c", [], "gpu-0"), tracker.taints_on, ALL_FEATURES, T0)
    assert found is not None
    rate, now = EvictionRate(), T0
    for _ in range(vector["pods"]):
        while (again := rate.admit(found.due_reasons(now), now)) is not None:
            assert again > now, "waiting must bring a token nearer"
            now = again
    assert (now - T0).total_seconds() == pytest.approx(vector["done"], abs=0.001)


def run_new_generation(vector: dict[str, Any]) -> None:
    tracker = Tracker(ALL_FEATURES)
    tracker.put_slice(slice_of("devices", device("gpu-0"), count=2))
    tracker.put_slice(taint_slice("taints", {"gpu-0": ["a:NoExecute"]}, count=2))
    (pool,) = tracker.pools()
    assert pool.usable
    assert leaves(allocated("c", [], "gpu-0"), tracker) == 0
    tracker.put_slice(slice_of("devices", device("gpu-0"), count=2, generation=2))
    (pool,) = tracker.pools()
    assert not pool.usable
    assert leaves(allocated("c", [], "gpu-0"), tracker) is None


def run_schedule(vector: dict[str, Any]) -> None:
    scene = Scene(nodes=2, gpus=1)
    scene.claim("c", status=allocation("node-1", "gpu-0", reserved=tuple(vector["reserved"])))
    for pool, text in vector["rules"].items():
        scene.put(rule("r", {"pool": pool}, text))
    wanted = claiming("p", "c")
    assert scene.why(wanted) == f"0/2 nodes are available: {vector['message']}."
    assert (scene.engine.post_filter(wanted) is not None) == vector["frees"]
    if vector["frees"]:
        scene.claim("c")
        assert scene.schedule(wanted)[0] == vector["then"]


def run_both_tainted(vector: dict[str, Any]) -> None:
    key, _, rest = vector["taint"].partition("=")
    value, _, effect = rest.partition(":")
    scene = Scene(nodes=0)
    scene.node("node-1", taints=[{"key": key, "value": value, "effect": effect}])
    scene.put(slice_of("s", device("gpu-0", vector["taint"]), pool="node-1"))
    scene.claim("plain")
    scene.claim("tolerant", ask(tolerations=[vector["toleration"]]))
    tolerant = {"spec": {"tolerations": [vector["toleration"]]}}
    placed = {
        (claim, bool(more)): isinstance(scene.place(claiming("p", claim, **more)), Placement)
        for claim in ("plain", "tolerant")
        for more in ({}, tolerant)
    }
    assert [key for key, there in placed.items() if there] == [("tolerant", True)]


@pytest.mark.proves("5055-53")
@pytest.mark.parametrize("vector", [v for v in SCENARIOS if "run" in v], ids=lambda v: str(v["n"]))
def test_a_scenario_comes_out_as_written(vector: dict[str, Any]) -> None:
    assert f"run_{vector['run']}" in globals(), "no such scenario"
    globals()[f"run_{vector['run']}"](vector)


def test_every_example_is_answered() -> None:
    numbers = {int(str(v["n"]).rstrip("bc")) for v in (*TAINTS, *SCENARIOS)}
    assert numbers == set(range(1, 72))
    assert all(len({"run", "lives"} & v.keys()) == 1 for v in SCENARIOS)


@pytest.mark.proves("5055-45")
def test_a_taint_of_an_unknown_device_is_not_kept_anywhere() -> None:
    tracker = tracked({"separate": {"gpu-9": ["a:NoExecute"]}})
    names = [DeviceID(DRIVER, "node-1", name) for name in ("gpu-9", "gpu-0")]
    assert [tracker.taints_on(name) for name in names] == [[], []]


@pytest.mark.proves("5055-35", "5055-115")
def test_an_allocated_device_has_the_taints_of_rules_and_of_its_driver() -> None:
    vector = {"taints": ["a:NoExecute"], "rules": [{"selector": {}, "taint": "b:NoExecute"}]}
    found = tracked(vector).taints_on(DeviceID(DRIVER, "node-1", "gpu-0"))
    assert [taint.taint.key for taint in found] == ["b", "a"]


@pytest.mark.proves("5055-62")
@pytest.mark.parametrize("value, tolerated", [("1", True), ("2", False)])
def test_a_toleration_without_an_operator_compares_values(value: str, tolerated: bool) -> None:
    (found,) = tracked({"taints": ["a=1:NoSchedule"]}).devices("devices")
    entry = read(Toleration, {"key": "a", "value": value})
    assert (not untolerated(found.taints, [entry], ALL_FEATURES)) is tolerated
