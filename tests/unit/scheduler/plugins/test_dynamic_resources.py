"""DynamicResources: where pods with claims go, what they are told when they go nowhere, and what is promised."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.unit.devices.builders import DRIVER, device, device_class, rule, slice_of
from tests.unit.scheduler.claim_scene import Scene, allocation, ask, pod
from weir.devices.allocation_search import Allocator
from weir.devices.outcome import Allocation
from weir.devices.usage import InUse
from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import Pod, read
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import Diagnosis, PluginError
from weir.scheduler.preemption import NoPreemption, preempt
from weir.scheduler.profile_arguments import ProfileArguments

pytestmark = pytest.mark.proves("5055-59")

NOWHERE = "0/2 nodes are available: {}."


class TestPreFilter:
    def test_a_claim_that_does_not_exist_keeps_the_pod_from_every_node(self) -> None:
        text = 'could not find ResourceClaim "default/c"'
        assert Scene().why(pod("p", "c")) == NOWHERE.format(text)

    def test_a_claim_of_a_template_that_was_not_made_yet(self) -> None:
        text = 'pod "default/p": ResourceClaim not created yet'
        assert Scene().why(pod("p", template="t")) == NOWHERE.format(text)

    def test_a_claim_that_was_made_for_another_pod(self) -> None:
        scene = Scene()
        scene.claim("c")
        made = pod("p", template="t", resourceClaimStatuses=[{"name": "t", "resourceClaimName": "c"}])
        text = "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)"
        assert scene.why(made) == NOWHERE.format(text)

    def test_a_claim_that_is_being_deleted(self) -> None:
        scene = Scene()
        scene.claim("c", deletionTimestamp="2026-01-01T12:00:00Z")
        assert scene.why(pod("p", "c")) == NOWHERE.format('resourceclaim "c" is being deleted')

    def test_a_claim_that_is_being_allocated_for_another_pod(self) -> None:
        scene = Scene()
        scene.claim("c")
        scene.schedule(pod("first", "c"))
        text = "resource claim default/c is in the process of being allocated"
        assert scene.why(pod("p", "c")) == NOWHERE.format(text)

    def test_a_class_that_does_not_exist(self) -> None:
        scene = Scene()
        scene.claim("c", ask(deviceClassName="no.such"))
        text = "request r: device class no.such does not exist"
        assert scene.why(pod("p", "c")) == NOWHERE.format(text)

    def test_an_alternative_whose_class_does_not_exist_is_named_with_its_request(self) -> None:
        scene = Scene()
        scene.claim("c", {"name": "r", "firstAvailable": [{"name": "big", "deviceClassName": "no.such"}]})
        text = "request r/big: device class no.such does not exist"
        assert scene.why(pod("p", "c")) == NOWHERE.format(text)

    def test_alternatives_need_their_feature(self) -> None:
        scene = Scene(gates=ALL_FEATURES.replace({"DRAPrioritizedList": False}))
        scene.claim("c", {"name": "r", "firstAvailable": [{"name": "big", "deviceClassName": "gpu"}]})
        text = "resource claim default/c, request r: has subrequests, but the DRAPrioritizedList feature is disabled"
        assert scene.why(pod("p", "c")) == NOWHERE.format(text)

    def test_a_claim_with_as_many_consumers_as_there_may_be(self) -> None:
        scene = Scene()
        many = tuple(f"pod-{n}" for n in range(256))
        scene.claim("c", status=allocation("node-1", "gpu-0", reserved=many))
        assert scene.why(pod("p", "c")) == NOWHERE.format("resourceclaim in use")

    def test_a_status_entry_without_a_claim_asks_for_nothing(self) -> None:
        answer = Scene().place(pod("p", template="t", resourceClaimStatuses=[{"name": "t"}]))
        assert isinstance(answer, Placement)

    def test_with_the_feature_off_claims_are_not_looked_at(self) -> None:
        scene = Scene(gates=Gates({"DynamicResourceAllocation": False}))
        assert isinstance(scene.place(pod("p", "c")), Placement)


class TestFilter:
    def test_devices_that_are_all_tainted(self) -> None:
        scene = Scene(gpus=0)
        for node in ("node-1", "node-2"):
            scene.put(slice_of(f"s-{node}", *scene.gpus(2, "sla=980:NoSchedule"), pool=node))
        scene.claim("c")
        assert scene.why(pod("p", "c")) == NOWHERE.format("2 cannot allocate all claims")

    def test_a_toleration_of_the_request_lets_the_pod_in_and_is_copied(self) -> None:
        scene = Scene(nodes=1, gpus=0)
        scene.put(slice_of("s", *scene.gpus(1, "sla=980:NoSchedule"), pool="node-1"))
        allows = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}
        scene.claim("c", ask(tolerations=[allows]))
        (binding,) = scene.reserve(pod("p", "c"), self._node(scene, pod("p", "c"))).bindings
        assert binding.allocation is not None
        assert binding.allocation["devices"]["results"][0]["tolerations"] == [allows]

    @staticmethod
    def _node(scene: Scene, wanted: Pod) -> str:
        answer = scene.place(wanted)
        assert isinstance(answer, Placement)
        return answer.node

    def test_a_rule_taints_devices_and_its_end_frees_them(self) -> None:
        scene = Scene()
        scene.claim("c")
        scene.put(rule("r", {}, "a:NoSchedule"))
        assert isinstance(scene.place(pod("p", "c")), Diagnosis)
        scene.claims.remove_rule("r")
        assert isinstance(scene.place(pod("p", "c")), Placement)

    def test_with_device_taints_off_taints_do_not_matter(self) -> None:
        scene = Scene(gates=Gates({"DRADeviceTaints": False}))
        scene.put(rule("r", {}, "a:NoSchedule"))
        scene.claim("c")
        assert isinstance(scene.place(pod("p", "c")), Placement)

    def test_with_rules_off_only_drivers_taint(self) -> None:
        scene = Scene(nodes=1, gates=ALL_FEATURES.replace({"DRADeviceTaintRules": False}))
        scene.put(rule("r", {}, "a:NoSchedule"))
        scene.claim("c")
        assert isinstance(scene.place(pod("p", "c")), Placement)
        scene.put(slice_of("s-1", *scene.gpus(1, "a:NoSchedule"), pool="node-1"))
        assert isinstance(scene.place(pod("p", "c")), Diagnosis)

    def test_an_allocated_claim_ties_the_pod_to_its_nodes(self) -> None:
        scene = Scene()
        scene.claim("c", status=allocation("node-2", "gpu-0"))
        answer = scene.place(pod("p", "c"))
        assert isinstance(answer, Placement)
        assert answer.node == "node-2"

    def test_an_allocated_claim_whose_node_is_gone(self) -> None:
        scene = Scene()
        scene.claim("c", status=allocation("node-9", "gpu-0"))
        assert scene.why(pod("p", "c")) == NOWHERE.format("2 resourceclaim not available on the node")

    def test_a_device_that_takes_its_pods_down_gets_no_new_ones(self) -> None:
        scene = Scene()
        scene.put(rule("r", {}, "a:NoExecute"))
        scene.claim("c", status=allocation("node-1", "gpu-0", reserved=("other",)))
        text = "2 resourceclaim has allocated devices with untolerated taints"
        assert scene.why(pod("p", "c")) == NOWHERE.format(text)

    def test_a_pod_for_which_it_is_reserved_may_stay_with_such_a_device(self) -> None:
        scene = Scene()
        scene.put(rule("r", {}, "a:NoExecute"))
        scene.claim("c", status=allocation("node-1", "gpu-0", reserved=("uid-p",)))
        assert isinstance(scene.place(pod("p", "c")), Placement)

    def test_a_taint_that_is_tolerated_for_a_while_refuses_when_the_time_is_over(self) -> None:
        scene = Scene()
        scene.put(rule("r", {}, "a:NoExecute"))
        allows = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]
        scene.claim("c", status=allocation("node-1", "gpu-0", tolerations=allows))
        assert isinstance(scene.place(pod("p", "c")), Placement)
        scene.now += timedelta(seconds=300)
        assert isinstance(scene.place(pod("p", "c")), Diagnosis)

    @pytest.mark.proves("5055-8", "5055-14")
    def test_a_taint_without_effect_is_known_and_keeps_nobody_away(self) -> None:
        scene = Scene(nodes=0)
        scene.node("node-1")
        scene.put(slice_of("s", *scene.gpus(1, "health=91:None"), pool="node-1"))
        scene.put(rule("r", {}, "maintenance:None"))
        (known,) = scene.claims.tracker.devices("s")
        scene.claim("c")
        assert [str(each.taint) for each in known.taints] == ["health=91:None", "maintenance:None"]
        assert isinstance(scene.place(pod("p", "c")), Placement)

    @pytest.mark.proves("5055-95")
    def test_without_taints_the_feature_changes_nothing(self) -> None:
        placed = []
        for gates in (ALL_FEATURES, ALL_FEATURES.replace({"DRADeviceTaints": False})):
            scene = Scene(gates=gates)
            scene.claim("c")
            placed.append(scene.place(pod("p", "c")))
        assert isinstance(placed[0], Placement) and placed[0] == placed[1]

    @pytest.mark.proves("5055-60")
    def test_an_untolerated_noschedule_taint_does_not_part_a_claim_from_its_device(self) -> None:
        scene = Scene()
        scene.put(rule("r", {}, "a:NoSchedule"))
        scene.claim("c", status=allocation("node-1", "gpu-0"))
        assert isinstance(scene.place(pod("p", "c")), Placement)

    @pytest.mark.proves("5055-40", "5055-80")
    def test_node_and_device_with_the_same_taint_need_a_toleration_each(self) -> None:
        scene = Scene(nodes=0)
        scene.node("node-1", taints=[{"key": "sla", "value": "980", "effect": "NoSchedule"}])
        scene.put(slice_of("s", *scene.gpus(1, "sla=980:NoSchedule"), pool="node-1"))
        allows = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}
        scene.claim("plain")
        scene.claim("tolerant", ask(tolerations=[allows]))
        by_node = {"spec": {"tolerations": [allows]}}
        placed = [
            isinstance(scene.place(pod("p", claim, **more)), Placement)
            for claim in ("plain", "tolerant")
            for more in ({}, by_node)
        ]
        assert placed == [False, False, False, True]

    def test_a_pool_that_is_invalid_is_named_when_nothing_can_be_had(self) -> None:
        scene = Scene(nodes=1, gpus=0)
        scene.put(slice_of("a", device("gpu-0"), pool="node-1", count=2))
        scene.put(slice_of("b", device("gpu-0"), pool="node-1", count=2))
        scene.claim("c")
        assert scene.why(pod("p", "c")).endswith("1 invalid resource pools were encountered.")

    def test_a_selector_that_fails_ends_the_attempt(self) -> None:
        scene = Scene(nodes=1)
        scene.claim("c", ask(selectors=[{"cel": {"expression": f"device.attributes['{DRIVER}'].none == 1"}}]))
        with pytest.raises(PluginError) as problem:
            scene.place(pod("p", "c"))
        start = f'running "DynamicResources" filter plugin: claim default/c: selector #0 on device {DRIVER}/'
        assert str(problem.value).startswith(
            f"{start}node-1/gpu-0: CEL runtime error: no such key: none. consider"
        )

    def test_a_selector_is_not_asked_about_devices_of_nodes_that_are_out(self) -> None:
        scene = Scene(nodes=2)
        scene.put(slice_of("s-2", device("odd", attributes={"other": {"int": 1}}), pool="node-2"))
        scene.node("node-2", unschedulable=True)
        scene.claim(
            "c", ask(selectors=[{"cel": {"expression": f"device.attributes['{DRIVER}'].index == 1"}}])
        )
        assert scene.schedule(pod("p", "c")) == ("node-1", ["gpu-1"])

    def test_a_claim_without_requests_is_met_everywhere(self) -> None:
        scene = Scene(gpus=0)
        scene.claims.put_claim(read_empty("c"))
        assert isinstance(scene.place(pod("p", "c")), Placement)


def read_empty(name: str) -> Any:
    from weir.objects.resource import ResourceClaim

    return read(
        ResourceClaim,
        {"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}},
    )


class TestBindingConditions:
    STATUS: Any = {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "r",
                        "driver": DRIVER,
                        "pool": "node-1",
                        "device": "gpu-0",
                        "bindingConditions": ["attached"],
                        "bindingFailureConditions": ["broken"],
                    }
                ]
            },
            "allocationTimestamp": "2026-01-01T12:00:00Z",
        }
    }

    def said(self, condition: str) -> Any:
        conditions = [{"type": condition, "status": "True", "reason": "R", "message": "m"}]
        device_status = {"driver": DRIVER, "pool": "node-1", "device": "gpu-0", "conditions": conditions}
        return {**self.STATUS, "devices": [device_status]}

    def test_a_failure_makes_the_claim_unavailable(self) -> None:
        scene = Scene()
        scene.claim("c", status=self.said("broken"))
        assert scene.why(pod("p", "c")) == NOWHERE.format("2 resourceclaim not available on the node")

    def test_waiting_too_long_makes_the_claim_unavailable(self) -> None:
        scene = Scene()
        scene.claim("c", status=self.STATUS)
        assert isinstance(scene.place(pod("p", "c")), Placement)
        scene.now += timedelta(seconds=601)
        assert isinstance(scene.place(pod("p", "c")), Diagnosis)

    def test_a_reservation_is_settled_when_the_condition_is_true(self) -> None:
        scene = Scene()
        scene.claim("c", status=self.STATUS)
        assert isinstance(scene.place(pod("p", "c")), Placement)
        promise = scene.reserve(pod("p", "c"), "node-1")
        assert (promise.waits(), promise.settled()) == (True, False)
        scene.claim("c", status=self.said("attached"))
        assert promise.settled()

    def test_a_reservation_breaks_when_the_device_does(self) -> None:
        scene = Scene()
        scene.claim("c", status=self.STATUS)
        assert isinstance(scene.place(pod("p", "c")), Placement)
        promise = scene.reserve(pod("p", "c"), "node-1")
        scene.claim("c", status=self.said("broken"))
        with pytest.raises(PluginError, match='device binding failed: claim=c, reason=R, message="m"'):
            promise.settled()


def test_the_time_a_driver_has_is_an_argument_of_the_profile() -> None:
    scene = Scene()
    arguments = ProfileArguments(claim_binding_seconds=60)
    engine = Engine(ALL_FEATURES, arguments, table=scene.engine.table, claims=scene.claims)
    scene.claim("c", status=TestBindingConditions.STATUS)
    scene.now += timedelta(seconds=61)
    assert isinstance(scene.place(pod("p", "c")), Placement)
    assert isinstance(engine.place(pod("p", "c")), Diagnosis)


def test_a_search_that_takes_too_long_is_an_error() -> None:
    scene = Scene(nodes=1, gpus=20)
    arguments = ProfileArguments(claim_filter_seconds=0.001)
    engine = Engine(ALL_FEATURES, arguments, table=scene.engine.table, claims=scene.claims)
    scene.claim("c", ask(count=19), ask("s", count=9))
    with pytest.raises(PluginError, match="node node-1: timed out trying to allocate devices"):
        engine.place(pod("p", "c"))


def test_a_search_that_breaks_where_others_would_have_to_leave_is_no_way_to_make_room() -> None:
    scene = Scene(nodes=1)
    scene.claim("c", ask(selectors=[{"cel": {"expression": f"device.attributes['{DRIVER}'].none == 1"}}]))
    big = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "8"}}}]}
    low = read(Pod, {"metadata": {"name": "low", "namespace": "default"}, "spec": big})
    scene.engine.assume(low.key, low, "node-1")
    high = pod("p", "c", spec={**big, "priority": 10})
    answer = scene.place(high)
    assert isinstance(answer, Diagnosis)
    found = preempt(scene.engine, high, answer, {low.key: low})
    assert isinstance(found, NoPreemption)
    assert "CEL runtime error: no such key: none" in found.message


class TestPromises:
    def test_two_pods_in_a_row_never_get_the_same_device(self) -> None:
        scene = Scene(nodes=1, gpus=3)
        for name in "abc":
            scene.claim(name)
        got = [scene.schedule(pod(name, name))[1] for name in "abc"]
        assert got == [["gpu-0"], ["gpu-1"], ["gpu-2"]]

    def test_a_promise_that_is_taken_back_frees_its_device(self) -> None:
        scene = Scene(nodes=1, gpus=1)
        scene.claim("a")
        scene.claim("b")
        assert isinstance(scene.place(pod("first", "a")), Placement)
        promise = scene.reserve(pod("first", "a"), "node-1")
        assert isinstance(scene.place(pod("second", "b")), Diagnosis)
        assert promise.end()
        assert isinstance(scene.place(pod("second", "b")), Placement)

    def test_a_written_promise_stays_counted_after_its_end(self) -> None:
        scene = Scene(nodes=1, gpus=1)
        scene.claim("a")
        scene.claim("b")
        assert isinstance(scene.place(pod("first", "a")), Placement)
        promise = scene.reserve(pod("first", "a"), "node-1")
        written = scene.claim("a", status={"allocation": promise.bindings[0].allocation})
        promise.wrote(promise.bindings[0], written)
        assert not promise.end()
        assert isinstance(scene.place(pod("second", "b")), Diagnosis)

    def test_what_the_watch_shows_late_does_not_undo_a_write(self) -> None:
        scene = Scene(nodes=1, gpus=1)
        old = scene.claim("a")
        scene.claim("a", status=allocation("node-1", "gpu-0"))
        scene.claims.put_claim(old)
        scene.claim("b")
        assert isinstance(scene.place(pod("p", "b")), Diagnosis)

    def test_a_deleted_claim_frees_its_device(self) -> None:
        scene = Scene(nodes=1, gpus=1)
        scene.claim("a", status=allocation("node-1", "gpu-0"))
        scene.claim("b")
        assert isinstance(scene.place(pod("p", "b")), Diagnosis)
        scene.claims.remove_claim("default/a")
        assert isinstance(scene.place(pod("p", "b")), Placement)

    def test_the_writes_are_the_finalizer_then_allocation_and_reservation(self) -> None:
        scene = Scene(nodes=1, gpus=1)
        scene.claim("c")
        assert isinstance(scene.place(pod("p", "c")), Placement)
        (binding,) = scene.reserve(pod("p", "c"), "node-1").bindings
        version = {"uid": "uid-c", "resourceVersion": "1"}
        assert binding.finalizer() == {
            "metadata": {**version, "finalizers": ["resource.kubernetes.io/delete-protection"]}
        }
        assert binding.status(pod("p", "c"), "2026-01-01T12:00:00Z") == {
            "metadata": version,
            "status": {
                "allocation": {
                    "devices": {
                        "results": [{"request": "r", "driver": DRIVER, "pool": "node-1", "device": "gpu-0"}]
                    },
                    "nodeSelector": {
                        "nodeSelectorTerms": [
                            {
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
                                ]
                            }
                        ]
                    },
                    "allocationTimestamp": "2026-01-01T12:00:00Z",
                },
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "uid-p"}],
            },
        }

    def test_a_shared_claim_is_reserved_for_one_more_pod(self) -> None:
        scene = Scene()
        scene.claim("c", status=allocation("node-1", "gpu-0", reserved=("other",)))
        assert isinstance(scene.place(pod("p", "c")), Placement)
        (binding,) = scene.reserve(pod("p", "c"), "node-1").bindings
        assert binding.finalizer() is None
        assert [each["uid"] for each in binding.status(pod("p", "c"), None)["status"]["reservedFor"]] == [
            "other",
            "uid-p",
        ]

    @pytest.mark.parametrize(
        "status, deleted, text",
        [
            ({}, "2026-01-01T12:00:00Z", "claim default/c got deleted in the meantime"),
            (allocation("node-1", "gpu-1"), None, "claim default/c got allocated elsewhere in the meantime"),
        ],
    )
    def test_a_claim_that_changed_under_the_promise_is_not_written(
        self, status: Any, deleted: str | None, text: str
    ) -> None:
        scene = Scene()
        scene.claim("c")
        assert isinstance(scene.place(pod("p", "c")), Placement)
        (binding,) = scene.reserve(pod("p", "c"), "node-1").bindings
        binding.claim = scene.claim("c", status=status, **({"deletionTimestamp": deleted} if deleted else {}))
        with pytest.raises(PluginError, match=text):
            binding.check()


class TestPostFilter:
    def test_an_idle_claim_on_a_device_that_must_be_left_is_given_up(self) -> None:
        scene = Scene()
        scene.put(rule("r", {"pool": "node-1"}, "a:NoExecute"))
        claim = scene.claim("c", status=allocation("node-1", "gpu-0"))
        assert isinstance(scene.place(pod("p", "c")), Diagnosis)
        assert scene.engine.post_filter(pod("p", "c")) == claim
        scene.claim("c")
        assert scene.schedule(pod("p", "c"))[0] == "node-2"

    def test_a_claim_that_others_use_is_not_given_up(self) -> None:
        scene = Scene()
        scene.claim("c", status=allocation("node-9", "gpu-0", reserved=("other",)))
        assert isinstance(scene.place(pod("p", "c")), Diagnosis)
        assert scene.engine.post_filter(pod("p", "c")) is None

    def test_a_claim_that_only_this_pod_uses_is_given_up(self) -> None:
        scene = Scene()
        claim = scene.claim("c", status=allocation("node-9", "gpu-0", reserved=("uid-p",)))
        assert isinstance(scene.place(pod("p", "c")), Diagnosis)
        assert scene.engine.post_filter(pod("p", "c")) == claim

    def test_nothing_is_given_up_for_a_pod_that_only_lacks_devices(self) -> None:
        scene = Scene(gpus=0)
        scene.claim("c")
        assert isinstance(scene.place(pod("p", "c")), Diagnosis)
        assert scene.engine.post_filter(pod("p", "c")) is None


def test_the_node_where_the_first_alternative_is_met_is_preferred() -> None:
    scene = Scene(gpus=0)
    scene.put(device_class("a100", f"device.attributes['{DRIVER}'].model == 'a100'"))
    for node, model in (("node-1", "t4"), ("node-2", "a100")):
        scene.put(slice_of(node, device("gpu-0", attributes={"model": {"string": model}}), pool=node))
    alternatives = [{"name": "big", "deviceClassName": "a100"}, {"name": "any", "deviceClassName": "gpu"}]
    scene.claim("c", {"name": "r", "firstAvailable": alternatives})
    scores = scene.engine.scores(pod("p", "c"))
    assert scores["node-2"] - scores["node-1"] == 2 * (100 - 100 * 7 // 8)


def test_pods_of_one_class_are_asked_about_their_own_claims() -> None:
    scene = Scene(nodes=1, gpus=4)
    for name, index in (("a", 3), ("b", 1)):
        owner = [{"kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}]
        only = [{"cel": {"expression": f"device.attributes['{DRIVER}'].index == {index}"}}]
        scene.claim(f"{name}-made", ask(selectors=only), ownerReferences=owner)
    made = [
        pod(name, template="t", resourceClaimStatuses=[{"name": "t", "resourceClaimName": f"{name}-made"}])
        for name in "ab"
    ]
    assert scene.engine.classes.of(made[0]) is scene.engine.classes.of(made[1])
    assert [scene.schedule(each)[1] for each in made] == [["gpu-3"], ["gpu-1"]]


def test_a_second_claim_of_the_same_shape_asks_only_about_the_node_that_changed() -> None:
    scene = Scene(nodes=8, gpus=4)
    for name in "abc":
        scene.claim(name)
    scene.schedule(pod("a", "a"))
    (feasibility,) = scene.engine.profile.plugins["DynamicResources"]._feasibilities._by_shape.values()  # type: ignore[attr-defined]
    first = feasibility.judged
    scene.schedule(pod("b", "b"))
    scene.schedule(pod("c", "c"))
    assert (first, feasibility.judged) == (8, 10)


# ── the kept answers are those of asking every node anew ─────────────────────────────────────────

_moves = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, 2)),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("slice"), st.integers(1, 3), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("rule"), st.sampled_from(["node-1", "node-2"]), st.booleans()),
        st.tuples(st.just("node"), st.integers(1, 4), st.booleans()),
        st.tuples(st.just("wide"), st.booleans()),
    ),
    max_size=25,
)
_SHAPES = [
    [ask()],
    [ask(count=2)],
    [ask("a"), ask("b", tolerations=[{"operator": "Exists"}])],
]


@settings(max_examples=tries(50, 120), deadline=None)
@given(_moves)
def test_kept_answers_are_those_of_the_plain_loop_over_all_nodes(moves: list[Any]) -> None:
    scene = Scene(nodes=3, gpus=2)
    promises: list[Any] = []
    for number, move in enumerate(moves):
        match move:
            case ("pod", shape):
                claim = scene.claim(f"c{number}", *_SHAPES[shape])
                wanted = pod(f"p{number}", claim.metadata.name)
                in_use = InUse()
                for results in scene.claims._promised.values():
                    in_use.add(results)
                plain = Allocator(scene.claims.tracker, scene.claims.classes, in_use, ALL_FEATURES)
                nodes = [node for node in scene.engine.table.nodes if node is not None]
                expected = {node.name: plain.allocate([claim], node) for node in nodes}
                answer = scene.place(wanted)
                fitting = {name for name, found in expected.items() if found}
                refused = scene.engine.statuses(wanted)
                assert {name: status.message for name, status in refused.items()} == {
                    name: found.message
                    for name, found in expected.items()
                    if not isinstance(found, Allocation)
                }
                if isinstance(answer, Placement):
                    assert answer.node in fitting
                    promise = scene.reserve(wanted, answer.node)
                    chosen = expected[answer.node]
                    assert isinstance(chosen, Allocation)
                    assert [binding.allocation for binding in promise.bindings] == list(chosen.claims)
                    promises.append(promise)
                else:
                    assert not fitting
                    scene.claims.remove_claim(claim.key)
            case ("end", which) if which < len(promises):
                promises.pop(which).end()
            case ("slice", node, count, tainted):
                taints = ["t:NoSchedule"] if tainted else []
                scene.put(slice_of(f"s-{node}", *scene.gpus(count, *taints), pool=f"node-{node}"))
            case ("rule", pool, there):
                if there:
                    scene.put(rule("r", {"pool": pool}, "x:NoSchedule"))
                else:
                    scene.claims.remove_rule("r")
            case ("node", which, there):
                if there:
                    scene.node(f"node-{which}", labels={"n": str(number)})
                elif len(scene.engine.table) > 1:
                    scene.engine.table.remove_node(f"node-{which}")
            case ("wide", there):
                if there:
                    scene.put(slice_of("wide", device("far"), pool="net", nodeName=None, allNodes=True))
                else:
                    scene.claims.remove_slice("wide")
