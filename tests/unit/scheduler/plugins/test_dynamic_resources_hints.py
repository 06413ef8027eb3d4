"""Which change of claims, classes and devices wakes which pod, and who is kept out of the queue at all."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.devices.builders import DRIVER, device_class, rule, slice_of, taint_slice
from tests.unit.scheduler.claim_scene import Scene, allocation, ask, pod
from tests.unit.scheduler.hints import hints_of
from weir.objects.core import Pod, read
from weir.objects.resource import DeviceClass
from weir.scheduler.plugins.dynamic_resources import NAME
from weir.scheduler.plugins.dynamic_resources_hints import DynamicResourcesHints
from weir.scheduler.queue import SchedulingQueue
from weir.scheduler.queueing_hints import OWN_CLAIMS, ClusterEvent

GPU = "example.com/gpu"
POOL = frozenset({(DRIVER, "node-1")})
A100 = {"cel": {"expression": f"device.attributes['{DRIVER}'].index == 1"}}


class Waiting:
    """A queue in which one pod was refused by DynamicResources."""

    def __init__(self, scene: Scene, wanted: Pod, by: str = NAME) -> None:
        self.scene, self.pod = scene, wanted
        hints = hints_of(scene.engine)
        self.queue = SchedulingQueue(hints, pop_from_backoff=False, initial_backoff=0, claims=scene.claims)
        self.queue.add(wanted, 0)
        scene.claims.note_waiting(wanted)
        item = self.queue.pop(0)
        if item is not None:
            self.queue.rejected(item, frozenset({by}), frozenset(), 0)

    def woken_by(self, label: str, old: Any = None, new: Any = None) -> bool:
        return bool(self.queue.on_event(ClusterEvent(label, old, new, self.scene.claims.waiting), 1))


class TestClaims:
    def test_a_claim_that_is_freed_wakes_a_pod_that_could_take_its_devices(self) -> None:
        scene = Scene(nodes=1, gpus=1)
        held = scene.claim("held", status=allocation("node-1", "gpu-0"))
        scene.claim("c")
        waiting = Waiting(scene, pod("p", "c"))
        assert waiting.woken_by("ResourceClaimUpdate", held, scene.claim("held"))

    def test_an_allocated_claim_that_is_deleted_does_so_too(self) -> None:
        scene = Scene(nodes=1, gpus=1)
        held = scene.claim("held", status=allocation("node-1", "gpu-0"))
        scene.claim("c")
        assert Waiting(scene, pod("p", "c")).woken_by("ResourceClaimDelete", held, None)

    def test_a_freed_device_whose_taint_is_not_tolerated_wakes_nobody(self) -> None:
        scene = Scene(nodes=1, gpus=1)
        held = scene.claim("held", status=allocation("node-1", "gpu-0"))
        scene.put(rule("r", {}, "a:NoExecute"))
        scene.claim("c")
        scene.claim("t", ask(tolerations=[{"key": "a", "operator": "Exists"}]))
        freed = scene.claim("held")
        assert not Waiting(scene, pod("p", "c")).woken_by("ResourceClaimUpdate", held, freed)
        assert Waiting(scene, pod("q", "t")).woken_by("ResourceClaimUpdate", held, freed)

    def test_a_freed_device_that_no_request_selects_wakes_nobody(self) -> None:
        scene = Scene(nodes=1, gpus=1)
        held = scene.claim("held", status=allocation("node-1", "gpu-0"))
        scene.claim("c", ask(selectors=[A100]))
        assert not Waiting(scene, pod("p", "c")).woken_by("ResourceClaimDelete", held, None)

    def test_a_freed_device_wakes_who_could_take_its_neighbour_in_the_pool(self) -> None:
        scene = Scene(nodes=1, gpus=2)
        held = scene.claim("held", status=allocation("node-1", "gpu-0"))
        scene.claim("c", ask(selectors=[A100]))
        assert Waiting(scene, pod("p", "c")).woken_by("ResourceClaimDelete", held, None)

    def test_a_claim_that_held_nothing_wakes_nobody_when_it_is_deleted(self) -> None:
        scene = Scene()
        gone = scene.claim("other")
        scene.claim("c")
        assert not Waiting(scene, pod("p", "c")).woken_by("ResourceClaimDelete", gone, None)

    def test_a_change_of_somebody_elses_claim_wakes_nobody(self) -> None:
        scene = Scene()
        old = scene.claim("other")
        scene.claim("c")
        new = scene.claim("other", status=allocation("node-1", "gpu-0"))
        assert not Waiting(scene, pod("p", "c")).woken_by("ResourceClaimUpdate", old, new)

    def test_a_new_status_of_its_own_claim_wakes_the_pod(self) -> None:
        scene = Scene()
        old = scene.claim("c")
        waiting = Waiting(scene, pod("p", "c"))
        assert waiting.woken_by(
            "ResourceClaimUpdate", old, scene.claim("c", status=allocation("node-1", "gpu-0"))
        )

    def test_a_new_label_of_its_own_claim_does_not(self) -> None:
        scene = Scene()
        old = scene.claim("c")
        waiting = Waiting(scene, pod("p", "c"))
        assert not waiting.woken_by("ResourceClaimUpdate", old, scene.claim("c", labels={"a": "b"}))

    def test_pods_that_others_refused_are_not_asked(self) -> None:
        scene = Scene()
        held = scene.claim("held", status=allocation("node-1", "gpu-0"))
        scene.claim("c")
        waiting = Waiting(scene, pod("p", "c"), by="NodeAffinity")
        assert not waiting.woken_by("ResourceClaimUpdate", held, scene.claim("held"))


@pytest.mark.parametrize("seed", range(40))
def test_every_pod_that_a_freed_claim_may_help_is_asked(seed: int) -> None:
    rng = random.Random(seed)
    scene = Scene(nodes=3, gpus=2)
    scene.put(read(DeviceClass, {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}}))
    tolerating = {"tolerations": [{"key": "a", "operator": "Exists"}]}
    asks = [ask(), ask(selectors=[A100]), ask(**tolerating), ask(deviceClassName="none")]
    if rng.random() < 0.7:
        scene.put(rule("r", {"pool": f"node-{rng.randrange(1, 4)}"}, "a:NoExecute"))
    waiting: dict[str, Pod] = {}
    wanted = {f"c{number}": rng.choice(asks) for number in range(6)}
    for step in range(30):
        name = f"p{rng.randrange(8)}"
        if rng.random() < 0.3:
            waiting.pop(f"default/{name}", None)
            scene.claims.forget_waiting(f"default/{name}")
        else:
            extended = {"name": "c", "resources": {"requests": {"cpu": "1", GPU: "1"}}}
            containers = {"containers": [extended]} if rng.random() < 0.1 else {}
            used = rng.sample(sorted(wanted), rng.randrange(1, 3))
            waiting[f"default/{name}"] = noted = pod(name, *used, spec=containers)
            scene.claims.note_waiting(noted)
        claim = rng.choice(sorted(wanted))
        held = scene.claim(claim, wanted[claim], status=allocation(f"node-{step % 3 + 1}", "gpu-0"))
        asked = scene.claims.waiting_for_devices_of(held)
        freed = scene.claim(claim, wanted[claim]) if rng.random() < 0.7 else None
        if freed is None:
            scene.claims.remove_claim(held.key)
        label = "ResourceClaimUpdate" if freed else "ResourceClaimDelete"
        helped = [key for key, each in waiting.items() if hint(scene, label, each, held, freed)]
        assert set(helped) <= set(asked) <= set(waiting)
        assert asked == [key for key in scene.claims.waiting if key in asked]


def test_a_freed_claim_asks_its_users_and_pods_whose_claims_could_take_its_devices() -> None:
    scene = Scene(nodes=1, gpus=1)
    scene.put(rule("r", {}, "a:NoExecute"))
    held = scene.claim("held", status=allocation("node-1", "gpu-0"))
    tolerating = ask(tolerations=[{"key": "a", "operator": "Exists"}])
    for name in "cd":
        scene.claim(name)
        scene.claim(f"{name}-tolerating", tolerating)
    asking = ("c", "c-tolerating", "d", "d-tolerating", "held", "late")
    for name in asking:
        scene.claims.note_waiting(pod(name, name))
    scene.claim("late", tolerating)
    tolerant = ["default/c-tolerating", "default/d-tolerating", "default/late"]
    assert sorted(scene.claims.waiting_for_devices_of(held)) == [*tolerant[:2], "default/held", tolerant[2]]
    scene.claims.forget_waiting("default/held")
    scene.claims.remove_claim("default/d-tolerating")
    assert scene.claims.waiting_for_devices_of(held) == [tolerant[0], tolerant[2]]


class TestDevices:
    def test_a_device_that_no_request_of_the_pod_selects_lets_it_sleep(self) -> None:
        scene = Scene(nodes=1, gpus=1)
        scene.claim("c", ask(selectors=[A100]))
        assert not Waiting(scene, pod("p", "c")).woken_by("ResourceSliceUpdate", None, POOL)

    def test_a_device_that_a_request_selects_wakes_it(self) -> None:
        scene = Scene(nodes=1, gpus=2)
        scene.claim("c", ask(selectors=[A100]))
        assert Waiting(scene, pod("p", "c")).woken_by("ResourceSliceUpdate", None, POOL)

    def test_a_device_whose_taint_is_not_tolerated_lets_it_sleep(self) -> None:
        scene = Scene(nodes=1, gpus=2)
        scene.put(rule("r", {}, "a:NoSchedule"))
        scene.claim("c")
        assert not Waiting(scene, pod("p", "c")).woken_by("ResourceSliceUpdate", None, POOL)

    def test_a_pool_that_is_not_complete_wakes_nobody(self) -> None:
        scene = Scene(nodes=1, gpus=0)
        scene.put(slice_of("s", *scene.gpus(1), pool="node-1", count=2))
        scene.claim("c")
        waiting = Waiting(scene, pod("p", "c"))
        assert not waiting.woken_by("ResourceSliceAdd", None, POOL)
        update = scene.put(taint_slice("t", {}, pool="node-1", count=2))
        assert waiting.woken_by("ResourceSliceAdd", None, scene.claims.pools_of(update))

    def test_a_taint_that_is_gone_wakes_who_was_kept_from_a_shared_claim(self) -> None:
        scene = Scene()
        scene.put(rule("r", {}, "a:NoExecute"))
        scene.claim("c", status=allocation("node-1", "gpu-0", reserved=("other",)))
        waiting = Waiting(scene, pod("p", "c"))
        assert not waiting.woken_by("ResourceSliceUpdate", None, POOL)
        scene.claims.remove_rule("r")
        assert waiting.woken_by("ResourceSliceUpdate", None, POOL)

    def test_a_rule_about_a_device_that_is_no_longer_published_is_noticed(self) -> None:
        scene = Scene()
        scene.claim("c", status=allocation("node-1", "gpu-0"))
        scene.claims.remove_slice("s-1")
        assert scene.claims.unpublished_pools() == POOL


class TestClasses:
    def test_a_class_that_a_request_names_wakes_the_pod(self) -> None:
        scene = Scene()
        scene.claim("c", ask(deviceClassName="late"))
        waiting = Waiting(scene, pod("p", "c"))
        late = device_class("late")
        scene.put(late)
        assert waiting.woken_by("DeviceClassAdd", None, late)

    def test_another_class_does_not(self) -> None:
        scene = Scene()
        scene.claim("c")
        assert not Waiting(scene, pod("p", "c")).woken_by("DeviceClassAdd", None, device_class("other"))


class TestPreEnqueue:
    def test_a_pod_without_its_claim_stays_outside_until_the_claim_is_there(self) -> None:
        scene = Scene()
        waiting = Waiting(scene, pod("p", "c"))
        assert waiting.queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
        assert waiting.woken_by("ResourceClaimAdd", None, scene.claim("c"))
        assert waiting.queue.counts()["active"] == 1

    def test_the_name_of_a_generated_claim_in_its_status_lets_it_in(self) -> None:
        scene = Scene()
        waiting = Waiting(scene, pod("p", template="t"))
        owner = [{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}]
        scene.claim("p-t-x", ownerReferences=owner)
        named = pod("p", template="t", resourceClaimStatuses=[{"name": "t", "resourceClaimName": "p-t-x"}])
        waiting.queue.add(named, 1)
        assert waiting.queue.counts()["active"] == 1

    def test_a_pod_without_claims_is_not_asked_for_any(self) -> None:
        scene = Scene()
        plain = read(Pod, {"metadata": {"name": "p", "namespace": "default"}})
        assert scene.claims.gate(plain) == ""
        queue = SchedulingQueue(hints_of(scene.engine), claims=scene.claims)
        queue.add(plain, 0)
        assert queue.counts()["active"] == 1


# ── one hint at a time ───────────────────────────────────────────────────────────────────────────


def hint(scene: Scene, label: str, wanted: Pod, old: Any = None, new: Any = None) -> bool:
    """Return what the hint of an event says of a pod."""
    hints = DynamicResourcesHints(scene.claims).events_to_register()
    return hints[label](wanted, ClusterEvent(label, old, new))


def asking_for(amount: str, resource: str = GPU) -> Pod:
    container = {"name": "c", "resources": {"requests": {resource: amount}}}
    return read(Pod, {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [container]}})


def test_a_pod_is_tried_again_when_all_its_claims_are_there() -> None:
    scene = Scene()
    wanted = pod("p", "c", "d")
    scene.claim("c")
    before = hint(scene, OWN_CLAIMS, wanted, new=wanted)
    scene.claim("d")
    assert (before, hint(scene, OWN_CLAIMS, wanted, new=wanted)) == (False, True)


def test_nothing_helps_a_pod_of_which_another_claim_is_missing() -> None:
    scene = Scene()
    held, freed = scene.claim("c", status=allocation("node-1", "gpu-0")), scene.claim("c")
    wanted = pod("p", "c", "missing")
    assert hint(scene, "ResourceClaimUpdate", wanted, held, freed) is False
    assert hint(scene, "ResourceSliceUpdate", wanted, new=POOL) is False


def test_one_event_is_answered_for_each_shape_of_a_claim() -> None:
    scene = Scene(nodes=1, gpus=1)
    for name in "ab":
        scene.claim(name)
        scene.claim(f"{name}-other", ask(selectors=[A100]))
    hints = DynamicResourcesHints(scene.claims).events_to_register()
    event = ClusterEvent("ResourceSliceUpdate", None, POOL)
    names = ("a", "a-other", "b", "b-other")
    assert [hints[event.label](pod("p", name), event) for name in names] == [True, False, True, False]


def test_somebody_elses_claim_is_no_help() -> None:
    scene = Scene()
    scene.claim("c")
    assert hint(scene, "ResourceClaimAdd", pod("p", "c"), new=scene.claim("other")) is False


def test_a_class_helps_only_when_its_spec_changes() -> None:
    scene = Scene()
    scene.claim("c")
    old = device_class("gpu")
    same, changed = device_class("gpu"), device_class("gpu", "true")
    assert [hint(scene, "DeviceClassUpdate", pod("p", "c"), old, new) for new in (same, changed)] == [
        False,
        True,
    ]


def test_a_request_whose_class_is_missing_is_helped_by_no_device() -> None:
    scene = Scene()
    scene.claim("c", ask(deviceClassName="none"), ask("s"))
    scene.claim("d", ask(deviceClassName="none"))
    found = [hint(scene, "ResourceSliceUpdate", pod("p", claim), new=POOL) for claim in "cd"]
    assert found == [True, False]


def test_a_selector_that_fails_wakes_the_pod_whose_attempt_says_so() -> None:
    scene = Scene()
    scene.claim("c", ask(selectors=[{"cel": {"expression": f"device.attributes['{DRIVER}'].none == 1"}}]))
    assert hint(scene, "ResourceSliceUpdate", pod("p", "c"), new=POOL) is True


def test_devices_help_a_pod_that_asks_for_the_extended_resource_they_offer() -> None:
    scene = Scene()
    offering = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}}
    scene.put(read(DeviceClass, offering))
    asked = [asking_for("1"), asking_for("0"), asking_for("1", "example.com/nic")]
    assert [hint(scene, "ResourceSliceUpdate", each, new=POOL) for each in asked] == [True, False, False]
