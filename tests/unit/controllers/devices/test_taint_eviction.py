"""dra.md 7: who leaves because of a device's taint, when, how fast, and what is said about it. All in virtual time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.unit.controllers.device_cluster import (
    DRIVER,
    VERSION,
    Devices,
    rule_document,
    slice_document,
    taint,
    tolerate,
)
from weir.apiserver.transport.http import Request
from weir.client.api import Client
from weir.client.local import LocalTransport
from weir.clock import VirtualClock
from weir.controllers.devices.eviction_queue import PodKey
from weir.controllers.devices.taint_eviction import DeviceTaintEviction, EvictPod, about
from weir.controllers.runtime.pod_eviction import Evicted
from weir.gates import ALL_FEATURES
from weir.objects.kinds import by_kind
from weir.scheduler.informers import Informers

pytestmark = pytest.mark.proves("5055-113")

KIND_POD, KIND_RULE = by_kind("v1", "Pod"), by_kind(VERSION, "DeviceTaintRule")
NAME = "device-taint-eviction-controller"
LONG = 1800  # events are kept for an hour
MARKING, CANCELLING = "Marking for deletion", "Cancelling deletion"


@pytest.fixture
def devices():
    with Devices() as found:
        yield found


# ── one pod ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves("5055-3", "5055-26", "5055-58", "5055-80", "5055-99")
def test_a_rule_deletes_the_pod_that_uses_the_device(devices):
    devices.use(1)
    devices.put(rule_document())
    assert (devices.leaving, devices.told()) == (["p-0000"], [MARKING])


@pytest.mark.proves("5055-3", "5055-80")
def test_a_drivers_taint_deletes_it_as_well(devices):
    devices.use(1)
    devices.put(slice_document(devices={"gpu-0": [taint("a:NoExecute")]}))
    assert (devices.leaving, devices.told()) == (["p-0000"], [MARKING])


def test_taints_in_a_slice_of_their_own_count_the_same(devices):
    devices.put(slice_document(devices=1, count=2))
    devices.claim("c", "node-0/gpu-0")
    devices.pod("p", "c")
    separate = slice_document(count=2)
    separate["metadata"]["name"] = "taints-node-0"
    separate["spec"] = {**separate["spec"], "taints": [{"device": "gpu-0", "taint": taint("a:NoExecute")}]}
    del separate["spec"]["devices"]
    devices.put(separate)
    assert devices.leaving == ["p"]


def test_the_pod_says_why_it_goes(devices):
    devices.use(1)
    devices.put(rule_document())
    (condition,) = [
        c
        for c in devices.cluster.get("Pod", "p-0000")["status"]["conditions"]
        if c["type"] == "DisruptionTarget"
    ]
    assert {key: condition.get(key) for key in ("status", "reason", "message", "observedGeneration")} == {
        "status": "True",
        "reason": "DeletionByDeviceTaintManager",
        "message": "Device Taint manager: deleting due to NoExecute taint",
        "observedGeneration": None,
    }


@pytest.mark.parametrize("effect", ["NoSchedule", "None"])
def test_other_effects_delete_nobody(devices, effect):
    devices.use(1)
    devices.put(rule_document(text=f"a:{effect}"))
    devices.cluster.advance(LONG)
    assert devices.leaving == []


def test_the_window_counts_from_when_the_taint_was_added(devices):
    devices.use(1, tolerations=(tolerate(seconds=300),))
    devices.cluster.advance(1000)
    devices.put(rule_document(timeAdded="2026-01-01T00:15:00Z"))  # 900 s after the start
    devices.cluster.advance(199)
    before = devices.leaving
    devices.cluster.advance(1)
    assert (before, devices.leaving) == ([], ["p-0000"])


def test_a_window_that_passed_long_ago_means_now(devices):
    devices.use(1, tolerations=(tolerate(seconds=300),))
    devices.put(rule_document(timeAdded="2020-01-01T00:00:00Z"))
    assert devices.leaving == ["p-0000"]


def test_an_hour_of_waiting_costs_nothing(devices):
    devices.use(3, tolerations=(tolerate(seconds=3600),))
    devices.put(rule_document())
    devices.cluster.advance(3599)
    before = devices.leaving
    devices.cluster.advance(1)
    assert (before, len(devices.leaving)) == ([], 3)


def test_more_seconds_than_there_are_never_come(devices):
    devices.use(1, tolerations=(tolerate(seconds=2**63 - 1),))
    devices.put(rule_document())
    devices.cluster.advance(LONG)
    assert devices.leaving == []


@pytest.mark.proves("5055-26")
def test_the_claims_own_tolerations_count_and_not_the_pods(devices):
    devices.put(slice_document())
    devices.claim("c", "node-0/gpu-0", tolerations=(tolerate(),))
    devices.pod("p", "c")
    devices.put(rule_document())
    assert devices.leaving == []


@pytest.mark.parametrize(
    "change",
    [{"node": ""}, {"reserve": False}],
    ids=["without a node", "without a reservation"],
)
def test_a_pod_that_does_not_use_the_device_stays(devices, change):
    devices.put(slice_document())
    devices.claim("c", "node-0/gpu-0")
    devices.pod("p", "c", **change)
    devices.put(rule_document())
    assert devices.leaving == []


def test_a_pod_that_has_ended_is_never_deleted(devices):
    devices.use(1)
    devices.status("Pod", "p-0000", {"phase": "Succeeded"})
    devices.put(rule_document())
    assert (devices.leaving, devices.told()) == ([], [])


@pytest.mark.proves("5055-20", "5055-25")
def test_a_pod_gets_a_reservation_on_a_tainted_device_and_leaves_at_once(devices):
    devices.put(slice_document())
    devices.put(rule_document())
    devices.claim("c", "node-0/gpu-0")
    devices.pod("p", "c")
    early = devices.pod("q", "d", reserve=False)  # the controller hears of the allocation after the pod
    request = {"name": "r", "exactly": {"deviceClassName": DRIVER}}
    waiting = {"metadata": {"name": "d"}, "spec": {"devices": {"requests": [request]}}}
    devices.cluster.create({"apiVersion": VERSION, "kind": "ResourceClaim", **waiting})
    devices.cluster.advance(1)
    result = {"request": "r", "driver": DRIVER, "pool": "node-0", "device": "gpu-1"}
    user = {"resource": "pods", "name": "q", "uid": early["metadata"]["uid"]}
    allocated = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    devices.status("ResourceClaim", "d", allocated)
    assert devices.leaving == ["p", "q"]


def test_the_claim_of_an_extended_resource_counts(devices):
    devices.put(slice_document())
    pod = devices.pod("p")
    devices.claim("c", "node-0/gpu-0")
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "uid": pod["metadata"]["uid"],
        "controller": True,
    }
    devices.cluster.patch("ResourceClaim", "c", {"metadata": {"ownerReferences": [owner]}})
    devices.reserve("c", pod)
    mapping = [{"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}]
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": mapping}}
    devices.status("Pod", "p", status)
    devices.put(rule_document())
    assert devices.leaving == ["p"]


def test_two_claims_mean_the_earlier_time_and_one_deletion(devices):
    devices.put(slice_document())
    devices.claim("x", "node-0/gpu-0", tolerations=(tolerate(seconds=100),))
    devices.claim("y", "node-0/gpu-1", tolerations=(tolerate(seconds=20),))
    devices.pod("p", "x", "y")
    devices.put(rule_document())
    devices.cluster.advance(19)
    before = devices.leaving
    devices.cluster.advance(1)
    devices.cluster.advance(200)
    assert (before, devices.leaving, devices.told()) == ([], ["p"], [MARKING])


def test_a_pod_replaced_under_the_same_name_is_not_the_one_meant(devices):
    devices.use(1, tolerations=(tolerate(seconds=60),))
    devices.put(rule_document())
    devices.cluster._do(devices.cluster.client.delete(KIND_POD, "p-0000", "default", grace_period_seconds=0))
    devices.pod("p-0000", "c-0000", reserve=False)
    devices.cluster.advance(LONG)
    assert (devices.staying, devices.told()) == (["p-0000"], [])


# ── cancelling ───────────────────────────────────────────────────────────────────────────────────


def remove_rule(devices):
    devices.cluster.delete("DeviceTaintRule", "bad")


def weaken_rule(devices):
    devices.put(rule_document(text="a:NoSchedule"))


def move_rule(devices):
    devices.put(rule_document(selector={"driver": "other.example.com"}))


def remove_claim(devices):
    devices.status("ResourceClaim", "c-0000", {"allocation": None, "reservedFor": None})


@pytest.mark.parametrize("change", [remove_rule, weaken_rule, move_rule, remove_claim])
def test_what_no_longer_ends_the_use_cancels_the_eviction(devices, change):
    devices.use(1, tolerations=(tolerate(seconds=60),))
    devices.put(rule_document())
    devices.cluster.advance(30)
    change(devices)
    devices.cluster.advance(LONG)
    assert (devices.leaving, devices.told()) == ([], [CANCELLING])


def test_a_slice_that_vanishes_takes_its_drivers_taints_along(devices):
    devices.put(slice_document(devices={"gpu-0": [taint("a:NoExecute")]}))
    devices.claim("c", "node-0/gpu-0", tolerations=(tolerate(seconds=60),))
    devices.pod("p", "c")
    devices.cluster.delete("ResourceSlice", "slice-node-0")
    devices.cluster.advance(LONG)
    assert (devices.leaving, devices.told()) == ([], [CANCELLING])


@pytest.mark.parametrize(
    "selector, leaves",
    [
        ({"driver": DRIVER}, True),
        ({"pool": "node-0", "device": "gpu-0"}, True),
        ({}, True),
        ({"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}, False),
        ({"deviceClassName": DRIVER}, False),
        (None, False),
    ],
)
def test_a_rule_reaches_devices_that_are_no_longer_published_by_their_names(devices, selector, leaves):
    devices.use(1)
    devices.cluster.delete("ResourceSlice", "slice-node-0")
    devices.put(rule_document(selector=selector))
    assert bool(devices.leaving) == leaves


def test_a_new_generation_without_the_device_ends_what_its_driver_said(devices):
    devices.put(slice_document(devices={"gpu-0": [taint("a:NoExecute")]}))
    devices.claim("c", "node-0/gpu-0", tolerations=(tolerate(seconds=60),))
    devices.pod("p", "c")
    newer = slice_document(devices={"gpu-1": []}, generation=2)
    newer["metadata"]["name"] = "newer"
    devices.put(newer)
    devices.cluster.advance(LONG)
    assert (devices.leaving, devices.told()) == ([], [CANCELLING])


def test_a_class_that_comes_to_match_evicts(devices):
    devices.use(1)
    devices.put(rule_document(selector={"deviceClassName": "gpus"}))
    before = devices.leaving
    chosen = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
    devices.put({"apiVersion": VERSION, "kind": "DeviceClass", "metadata": {"name": "gpus"}, "spec": chosen})
    assert (before, devices.leaving) == ([], ["p-0000"])


# ── how fast ─────────────────────────────────────────────────────────────────────────────────────


def seconds_until_all_left(devices, count, limit=200.0, step=0.05):
    passed = 0.0
    while len(devices.leaving) < count and passed < limit:
        devices.cluster.advance(step)
        passed += step
    return pytest.approx(passed, abs=1.5 * step)


@pytest.mark.proves("5055-52", "5055-54", "5055-77")
@pytest.mark.parametrize(
    "rules, seconds",
    [
        ([{}], 1.5),
        ([{"evictionsPerSecond": 1}], 15),
        ([{"evictionsPerSecond": 5}, {"evictionsPerSecond": 20}], 0.75),
        ([{}, {}], 1.5),
    ],
    ids=["ten a second", "one a second", "the fastest decides", "rates do not add up"],
)
def test_25_pods_leave_as_fast_as_their_taints_allow(devices, rules, seconds):
    devices.use(25)
    for number, more in enumerate(rules):  # in a minute, so that all of them begin at once
        devices.put(
            rule_document(f"r-{number}", f"k{number}:NoExecute", timeAdded="2026-01-01T00:01:00Z", **more)
        )
    devices.cluster.advance(60)
    assert seconds_until_all_left(devices, 25) == seconds


@pytest.mark.proves("5055-52", "5055-77")
def test_pods_of_different_taints_do_not_wait_for_each_other(devices):
    devices.use(20)
    for number in range(20):
        selector = {"pool": "node-0", "device": f"gpu-{number}"}
        devices.cluster._wait(
            devices.cluster.client.create(KIND_RULE, rule_document(f"r-{number}", selector=selector))
        )
    devices.cluster.advance(0.001)
    assert len(devices.leaving) == 20


@pytest.mark.proves("5055-18", "5055-77")
def test_a_rate_raised_midway_applies_from_then_on(devices):
    devices.use(25)
    devices.put(rule_document(evictionsPerSecond=1))
    devices.cluster.advance(2)
    before = len(devices.leaving)
    devices.put(rule_document(evictionsPerSecond=100))
    devices.cluster.advance(0.2)
    assert (before, len(devices.leaving)) == (12, 25)


def test_the_first_to_leave_are_those_whose_time_came_first(devices):
    devices.put(slice_document(devices=40))
    for number in range(30):
        late = (tolerate(seconds=1),) if number < 15 else ()
        devices.claim(f"c-{number}", f"node-0/gpu-{number}", tolerations=late)
        devices.pod(f"p-{number:02}", f"c-{number}")
    devices.put(rule_document(evictionsPerSecond=1))
    devices.cluster.advance(5)
    assert devices.leaving == [f"p-{number:02}" for number in range(15, 30)]


@pytest.mark.proves("5055-67")
def test_a_restart_forgets_the_buckets_and_evicts_nobody_twice(devices):
    devices.use(25)
    devices.put(rule_document(evictionsPerSecond=1))
    devices.cluster.advance(0.5)
    devices.cluster.set_gates(ALL_FEATURES)
    devices.cluster.advance(0.001)
    after = len(devices.leaving)
    devices.cluster.advance(100)
    assert (after, len(devices.leaving), devices.told().count(MARKING)) == (20, 25, 25)


# ── what a rule says ─────────────────────────────────────────────────────────────────────────────


def test_the_first_status_comes_before_its_pods_are_gone(devices):
    devices.use(3)
    devices.put(rule_document())
    assert devices.condition() == (
        "True",
        "PodsPendingEviction",
        "3 pods need to be evicted in 1 namespace.",
        1,
    )


@pytest.mark.proves("5055-74", "5055-99")
def test_ten_seconds_later_it_is_completed(devices):
    devices.use(3)
    devices.put(rule_document())
    devices.cluster.advance(9.9)
    before = devices.condition()[1]
    devices.cluster.advance(0.2)
    assert (before, devices.condition()) == (
        "PodsPendingEviction",
        ("False", "Completed", "3 pods evicted since starting the controller.", 1),
    )


@pytest.mark.proves("5055-19", "5055-71")
def test_a_long_eviction_is_reported_every_ten_seconds(devices):
    devices.use(35)
    devices.cluster.advance(0.5)
    devices.put(rule_document(evictionsPerSecond=1))
    said = []
    for _ in range(4):
        devices.cluster.advance(10)
        said.append(devices.condition()[2])
    assert said == [
        "16 pods need to be evicted in 1 namespace. 19 pods evicted since starting the controller.",
        "6 pods need to be evicted in 1 namespace. 29 pods evicted since starting the controller.",
        "35 pods evicted since starting the controller.",
        "35 pods evicted since starting the controller.",
    ]


def test_pods_that_may_still_stay_are_pending_too(devices):
    devices.use(2, tolerations=(tolerate(seconds=60),))
    devices.put(rule_document())
    assert devices.condition()[:2] == ("True", "PodsPendingEviction")


def test_a_rule_without_pods_has_not_started(devices):
    devices.put(rule_document())
    assert devices.condition() == ("False", "NotStarted", "", 1)


def test_a_rule_that_only_keeps_pods_away_says_so(devices):
    devices.put(rule_document(text="a:NoSchedule"))
    assert devices.condition() == (
        "False",
        "OtherEffect",
        "Eviction only happens for the NoExecute effect.",
        1,
    )


@pytest.mark.proves("5055-14", "5055-15")
def test_a_dry_run_counts_and_deletes_nobody(devices):
    devices.use(3)
    devices.claim("spare", "node-0/gpu-9")
    devices.put(rule_document(text="a:None"))
    devices.cluster.advance(60)
    assert (devices.leaving, devices.condition()) == (
        [],
        (
            "False",
            "NoEffect",
            "64 published devices selected. 4 allocated devices selected. 3 pods would be evicted in 1 namespace "
            "if the effect was NoExecute. This information will not be updated again. Recreate the "
            "DeviceTaintRule to trigger an update.",
            1,
        ),
    )


def test_a_dry_run_leaves_out_pods_that_tolerate_for_ever(devices):
    devices.use(2, tolerations=(tolerate(),))
    devices.put(rule_document(text="a:None", selector={"device": "gpu-1"}))
    assert devices.condition()[2].startswith(
        "1 published device selected. 1 allocated device selected. 0 pods would be evicted in 0 different namespaces"
    )


def test_a_dry_run_is_not_repeated_when_pods_come_and_go(devices):
    devices.use(1)
    devices.put(rule_document(text="a:None"))
    before = devices.cluster.get("DeviceTaintRule", "bad")
    devices.cluster.delete("Pod", "p-0000")
    devices.cluster.advance(LONG)
    assert devices.cluster.get("DeviceTaintRule", "bad") == before


def test_an_edited_rule_is_reported_at_once_with_its_generation(devices):
    devices.use(1)
    devices.put(rule_document(text="a:None"))
    devices.cluster.advance(1)
    devices.put(rule_document())
    assert devices.condition() == (
        "True",
        "PodsPendingEviction",
        "1 pod needs to be evicted in 1 namespace.",
        2,
    )


def test_the_condition_belongs_to_the_controller(devices):
    devices.put(rule_document())
    fields = devices.cluster.get("DeviceTaintRule", "bad")["metadata"]["managedFields"]
    (own,) = [entry for entry in fields if entry["manager"] == "device-taint-eviction-controller"]
    assert (own["operation"], own["subresource"]) == ("Apply", "status")


def test_a_rule_of_the_same_name_starts_to_count_anew(devices):
    devices.use(1)
    devices.put(rule_document())
    devices.cluster.advance(11)
    remove_rule(devices)
    devices.put(rule_document())
    assert devices.condition()[1] == "NotStarted"


def test_a_selector_that_fails_is_told_on_the_rule_once(devices):
    devices.use(3)
    broken = {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].missing == 'x'"}}]}
    devices.put(rule_document(selector=broken))
    for _ in range(5):
        devices.put(slice_document("node-9", 2))
        devices.cluster.delete("ResourceSlice", "slice-node-9")
    # the scheduler follows rules as well and tells its own
    (told,) = [e for e in devices.cluster.events("CELRuntimeError") if e["source"] == {"component": NAME}]
    assert (
        told["count"],
        told["involvedObject"]["name"],
        told["message"].startswith("selector #0: runtime error"),
    ) == (
        1,
        "bad",
        True,
    )
    assert devices.leaving == []


# ── gates and metrics ────────────────────────────────────────────────────────────────────────────


def test_without_device_taints_nothing_is_read():
    assert (
        DeviceTaintEviction(
            ALL_FEATURES.replace({"DRADeviceTaints": False, "DRADeviceTaintRules": False})
        ).kinds
        == ()
    )


@pytest.mark.proves("5055-103")
@pytest.mark.parametrize("on", [True, False])
def test_scheduler_and_controllers_watch_rules_while_the_feature_is_on(on):
    gates = ALL_FEATURES.replace({"DRADeviceTaintRules": on})
    client = Client(LocalTransport(lambda request: None, Request, {}))  # type: ignore[arg-type, return-value]
    watched = Informers(client, VirtualClock(NOW), gates, lambda event: None).informers
    assert ("DeviceTaintRule" in watched, KIND_RULE in DeviceTaintEviction(gates).kinds) == (on, on)


def test_without_rules_drivers_taints_go_on():
    gates = {"controllers": ALL_FEATURES.replace({"DRADeviceTaintRules": False})}
    with Devices(gates=gates) as devices:
        devices.use(2)
        devices.put(rule_document(selector={"device": "gpu-1"}))
        devices.put(slice_document(devices={"gpu-0": [taint("a:NoExecute")], "gpu-1": []}))
        rule = devices.cluster.get("DeviceTaintRule", "bad")
        assert (devices.leaving, rule["status"]) == (["p-0000"], {})


def test_a_feature_that_comes_back_acts_on_what_is_stored():
    off = {"controllers": ALL_FEATURES.replace({"DRADeviceTaints": False, "DRADeviceTaintRules": False})}
    with Devices(gates=off) as devices:
        devices.use(2, tolerations=(tolerate(seconds=60),))
        devices.put(rule_document())
        devices.cluster.advance(LONG)
        before = devices.leaving
        devices.cluster.set_gates(ALL_FEATURES)
        devices.cluster.advance(0.001)
        assert (before, len(devices.leaving)) == ([], 2)  # the window passed while nobody looked


def test_deletions_are_counted_with_how_late_they_were(devices):
    devices.use(12)
    devices.put(rule_document())
    devices.cluster.advance(1)
    text = devices.cluster.plane.controllers.metrics.registry.render().decode()
    name = "device_taint_eviction_controller_pod_deletion"
    assert f"{name}s_total 12" in text and f'{name}_duration_seconds_bucket{{le="0.5"}} 12' in text


# ── 7.4 to the end: the claim is free again ──────────────────────────────────────────────────────


def test_afterwards_the_device_is_free():
    with Devices(controllers=["device-taint-eviction", "resourceclaim"]) as devices:
        devices.use(1)
        devices.put(rule_document())
        devices.cluster._do(
            devices.cluster.client.delete(KIND_POD, "p-0000", "default", grace_period_seconds=0)
        )
        devices.cluster.advance(1)
        assert devices.cluster.get("ResourceClaim", "c-0000")["status"] == {}


# ── the examples of dra.md 10 that only live ─────────────────────────────────────────────────────


def cancelled_and_anew(devices):
    """51"""
    devices.use(1, tolerations=(tolerate(seconds=300),))
    devices.put(rule_document())
    devices.cluster.advance(100)
    remove_rule(devices)
    cancelled = devices.told()
    devices.cluster.advance(500)
    devices.put(rule_document())
    devices.cluster.advance(299)
    before = devices.leaving
    devices.cluster.advance(1)
    return cancelled == [CANCELLING] and before == [] and devices.leaving == ["p-0000"]


def deleted_midway(devices):
    """69"""
    devices.use(25)
    devices.put(rule_document())
    devices.cluster.advance(0.2)
    left = len(devices.leaving)
    remove_rule(devices)
    devices.cluster.advance(60)
    told = devices.told()
    return (left, len(devices.staying), told.count(CANCELLING), told.count(MARKING)) == (12, 13, 13, 12)


LIVING = {51: cancelled_and_anew, 69: deleted_midway}


@pytest.mark.parametrize("number", LIVING)
def test_examples_that_need_a_running_controller(devices, number):
    assert LIVING[number](devices)


def test_every_example_that_says_so_is_lived_here(request):
    vectors = request.config.rootpath / "tests" / "vectors" / "devices" / "scenarios.yaml"
    assert {v["n"] for v in yaml.safe_load(vectors.read_text()) if v.get("lives")} == set(LIVING)


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = PodKey("team", "p", "u")


class World:
    """A server with at most one pod, and the metrics of a controller, which note what is done."""

    def __init__(self, pod: dict[str, Any] | None) -> None:
        self.pod, self.done, self.counted, self.reads = pod, [], [], 0  # type: ignore[var-annotated]

    def now(self) -> datetime:
        return NOW

    async def find(self, kind: Any, name: str, namespace: str) -> dict[str, Any] | None:
        self.reads += 1
        return self.pod

    async def patch(self, kind: Any, name: str, patch: dict[str, Any], *_: Any, **__: Any) -> None:
        (condition,) = patch["status"]["conditions"]
        self.done.append((condition["reason"], condition["message"], "observedGeneration" in condition))

    async def delete(self, kind: Any, name: str, namespace: str, **more: Any) -> None:
        self.done.append(("delete", f"{namespace}/{name}", more["uid"]))

    def record(self, reference: Any, *words: str) -> None:
        self.done.append((reference, *words))

    def child(self) -> World:
        return self

    def inc(self) -> None:
        self.counted.append("one")

    def observe(self, seconds: float) -> None:
        self.counted.append(seconds)


def pod(uid: str = "u", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "team", "uid": uid, "generation": 3, **metadata},
        "status": {},
    }


def carried_out(there: dict[str, Any] | None, late: float = 0.0) -> tuple[Evicted, World]:
    world = World(there)
    metrics = SimpleNamespace(device_pod_deletions=world, device_pod_deletion_duration=world)
    context = SimpleNamespace(client=world, clock=world, recorder=world, metrics=metrics)
    eviction = EvictPod(KEY, NOW - timedelta(seconds=late), ())
    return asyncio.run(eviction.carry_out(context)), world  # type: ignore[arg-type]


@pytest.mark.proves("5055-104")
def test_event_condition_and_deletion_come_in_this_order():
    outcome, world = carried_out(pod())
    assert (outcome, world.reads) == (Evicted.DELETED, 1)
    assert world.done == [
        (about(KEY), "Normal", "DeviceTaintManagerEviction", "Marking for deletion"),
        ("DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint", False),
        ("delete", "team/p", "u"),
    ]


@pytest.mark.parametrize("late, told", [(2.5, 2.5), (0.0, 0.0), (-1.0, 0.0)])
def test_a_deletion_is_counted_with_how_late_it_was(late, told):
    assert carried_out(pod(), late)[1].counted == ["one", told]


def test_a_pod_that_leaves_already_is_left_alone_and_counted():
    outcome, world = carried_out(pod(deletionTimestamp="2026-01-01T12:00:00Z"))
    assert (outcome, world.done, world.counted) == (Evicted.LEAVING, [], ["one", 0.0])


@pytest.mark.parametrize("there", [None, pod("another")])
def test_a_pod_that_is_gone_or_another_is_not_counted(there):
    outcome, world = carried_out(there)
    assert (outcome, world.done, world.counted) == (Evicted.GONE, [], [])


def test_events_are_about_the_pod_and_no_version_of_it():
    found = about(KEY)
    assert (found.kind, found.namespace, found.name, found.uid) == ("Pod", "team", "p", "u")
