"""Which devices claims get, and the reasons when they get none."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.unit.devices.builders import DRIVER, allocated, device, device_class, rule, slice_of
from weir.devices.allocation_search import Allocator
from weir.devices.outcome import Allocation, AllocationError, Refusal, Unallocatable
from weir.devices.tracker import Tracker
from weir.devices.usage import InUse
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, read
from weir.objects.resource import DeviceTaintRule, ResourceClaim, ResourceSlice

pytestmark = pytest.mark.proves("5055-39", "5055-57", "5055-114")

NODE = read(Node, {"metadata": {"name": "node-1", "labels": {"zone": "a"}}})
CLASSES = {
    "gpu": device_class("gpu"),
    "a100": device_class("a100", f"device.attributes['{DRIVER}'].model == 'a100'"),
}


def ask(name: str = "r", **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **more}}


def claim(*requests: dict[str, Any], **more: Any) -> ResourceClaim:
    spec = {"devices": {"requests": list(requests), **more}}
    return read(ResourceClaim, {"metadata": {"name": "c", "namespace": "default"}, "spec": spec})


def allocate(
    objects: list[ResourceSlice | DeviceTaintRule],
    *claims: ResourceClaim,
    node: Node = NODE,
    used: tuple[ResourceClaim, ...] = (),
    steps: int = 10_000,
) -> Allocation | Unallocatable:
    tracker = Tracker(ALL_FEATURES)
    for one in objects:
        if isinstance(one, ResourceSlice):
            tracker.put_slice(one)
        else:
            tracker.put_rule(one)
    allocator = Allocator(tracker, CLASSES, InUse.of(used), ALL_FEATURES)
    return allocator.allocate(claims, node, lambda: "share", steps)


def names(found: Allocation | Unallocatable) -> list[list[str]]:
    assert isinstance(found, Allocation), found
    return [[result["device"] for result in one["devices"].get("results", ())] for one in found.claims]


def gpus(count: int, **more: Any) -> dict[str, Any]:
    return device(f"gpu-{count}", **more)


THREE = slice_of("s", *(gpus(n) for n in range(3)))


class TestChoice:
    def test_the_first_devices_in_order_are_chosen(self) -> None:
        assert names(allocate([THREE], claim(ask(count=2)))) == [["gpu-0", "gpu-1"]]

    def test_a_device_is_given_once(self) -> None:
        assert names(allocate([THREE], claim(ask("a"), ask("b")), claim(ask()))) == [
            ["gpu-0", "gpu-1"],
            ["gpu-2"],
        ]

    def test_what_another_claim_holds_is_not_given_again(self) -> None:
        assert names(allocate([THREE], claim(ask()), used=(allocated("x", [], "gpu-0"),))) == [["gpu-1"]]

    def test_a_choice_is_taken_back_when_it_leaves_nothing_for_the_rest(self) -> None:
        models = slice_of("s", gpus(0, attributes={"model": {"string": "a100"}}), gpus(1, attributes={}))
        both = claim(ask("any"), {"name": "big", "exactly": {"deviceClassName": "a100"}})
        guarded = {
            **CLASSES,
            "a100": device_class("a100", f"device.attributes['{DRIVER}'].?model.orValue('') == 'a100'"),
        }
        tracker = Tracker(ALL_FEATURES)
        tracker.put_slice(models)
        found = Allocator(tracker, guarded, InUse(), ALL_FEATURES).allocate([both], NODE)
        assert names(found) == [["gpu-1", "gpu-0"]]

    def test_nothing_asked_is_an_empty_allocation(self) -> None:
        assert allocate([], claim()).claims == ({"devices": {}},)  # type: ignore[union-attr]

    def test_more_than_32_devices_are_an_error(self) -> None:
        said = r"claim default/c, request r: adding 33 devices exceeds the claim limit of 32, with 0 already"
        with pytest.raises(AllocationError, match=said):
            allocate([THREE], claim(ask(count=33)))

    def test_alternatives_count_with_the_smallest_of_them(self) -> None:
        forty = slice_of("s", *(gpus(n) for n in range(40)))
        big, small = ({"name": f"of-{n}", "deviceClassName": "gpu", "count": n} for n in (5, 2))
        found = allocate([forty], claim(ask("a", count=30), {"name": "b", "firstAvailable": [big, small]}))
        assert len(names(found)[0]) == 32
        said = r"request b: adding 5 devices exceeds the claim limit of 32, with 30 already accounted for"
        with pytest.raises(AllocationError, match=said):
            allocate([forty], claim(ask("a", count=30), {"name": "b", "firstAvailable": [big]}))

    def test_an_endless_search_ends(self) -> None:
        many = slice_of("s", *(gpus(n) for n in range(40)))
        other = claim(ask("a", count=12), ask("b", count=12), ask("c", count=8), ask("d", count=0))
        impossible = claim(
            ask("a", count=20),
            {
                "name": "x",
                "exactly": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "false"}}]},
            },
        )
        with pytest.raises(AllocationError, match="node node-1: timed out trying to allocate devices"):
            allocate([many], other, impossible, steps=5_000)


class TestNodes:
    @pytest.mark.parametrize(
        "place, local",
        [
            ({"nodeName": "node-1"}, "metadata.name"),
            ({"nodeName": None, "allNodes": True}, None),
            (
                {
                    "nodeName": None,
                    "nodeSelector": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                        ]
                    },
                },
                "zone",
            ),
        ],
    )
    def test_where_devices_may_be_used_is_where_the_claim_may(
        self, place: dict[str, Any], local: str | None
    ) -> None:
        found = allocate([slice_of("s", gpus(0), **place)], claim(ask()))
        assert isinstance(found, Allocation)
        text = str(found.claims[0].get("nodeSelector"))
        assert local in text if local else text == "None"

    @pytest.mark.parametrize(
        "place",
        [
            {"nodeName": "node-2"},
            {"nodeName": None},
            {
                "nodeName": None,
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
                    ]
                },
            },
        ],
    )
    def test_devices_of_other_nodes_are_not_there(self, place: dict[str, Any]) -> None:
        assert not allocate([slice_of("s", gpus(0), **place)], claim(ask()))

    def test_devices_may_say_themselves_where_they_are(self) -> None:
        here, there = gpus(0, nodeName="node-2"), gpus(1, nodeName="node-1")
        found = allocate(
            [slice_of("s", here, there, nodeName=None, perDeviceNodeSelection=True)], claim(ask())
        )
        assert names(found) == [["gpu-1"]]


class TestTaints:
    TAINTED = slice_of("s", device("gpu-0", "a:NoSchedule"), gpus(1), gpus(2))

    def test_clean_devices_are_taken_instead(self) -> None:
        assert names(allocate([self.TAINTED], claim(ask(count=2)))) == [["gpu-1", "gpu-2"]]

    def test_all_fails_as_a_whole(self) -> None:
        found = allocate([self.TAINTED], claim(ask(allocationMode="All")))
        assert isinstance(found, Unallocatable)
        assert found.message == "cannot allocate all claims"

    def test_the_reason_names_device_taint_and_origin(self) -> None:
        bad = rule("maintenance", {"device": "gpu-1"}, "b=1:NoExecute")
        found = allocate([slice_of("s", device("gpu-0", "a:NoSchedule"), gpus(1)), bad], claim(ask()))
        assert isinstance(found, Unallocatable)
        assert [str(one) for one in found.refusals] == [
            f"{DRIVER}/node-1/gpu-0: a:NoSchedule of ResourceSlice s {DRIVER}/node-1/gpu-0 taint #0 is not tolerated",
            f"{DRIVER}/node-1/gpu-1: b=1:NoExecute of DeviceTaintRule maintenance is not tolerated",
        ]

    def test_tolerations_are_copied_into_the_result(self) -> None:
        allows = {"key": "a", "operator": "Exists", "tolerationSeconds": 5}
        found = allocate([self.TAINTED], claim(ask(tolerations=[allows])))
        assert isinstance(found, Allocation)
        assert found.claims[0]["devices"]["results"][0]["tolerations"] == [allows]


class TestModes:
    def test_all_takes_every_selected_device(self) -> None:
        assert names(allocate([THREE], claim(ask(allocationMode="All")))) == [["gpu-0", "gpu-1", "gpu-2"]]

    def test_all_of_nothing_is_nothing(self) -> None:
        assert not allocate([], claim(ask(allocationMode="All")))

    def test_all_does_not_guess_about_a_pool_that_is_being_updated(self) -> None:
        text = f"asks for all devices, but resource pool {DRIVER}/node-1 is currently being updated"
        with pytest.raises(AllocationError, match=text):
            allocate([slice_of("s", gpus(0), count=2)], claim(ask(allocationMode="All")))

    def test_an_error_names_an_alternative_by_its_own_name(self) -> None:
        every = {"name": "sub", "deviceClassName": "gpu", "allocationMode": "All"}
        with pytest.raises(AllocationError, match="claim default/c, request sub: asks for all devices"):
            allocate([slice_of("s", gpus(0), count=2)], claim({"name": "r", "firstAvailable": [every]}))

    def test_admin_access_shares_what_is_in_use(self) -> None:
        found = allocate(
            [slice_of("s", gpus(0))], claim(ask(adminAccess=True)), used=(allocated("x", [], "gpu-0"),)
        )
        assert isinstance(found, Allocation)
        assert found.claims[0]["devices"]["results"][0]["adminAccess"] is True

    def test_the_first_alternative_that_works_is_taken_and_scored(self) -> None:
        big = {"name": "big", "deviceClassName": "gpu", "count": 4}
        small = {"name": "small", "deviceClassName": "gpu", "count": 1}
        found = allocate([THREE], claim({"name": "gpu", "firstAvailable": [big, small]}))
        assert isinstance(found, Allocation)
        assert (found.claims[0]["devices"]["results"][0]["request"], found.score) == ("gpu/small", 7)

    def test_incomplete_and_invalid_pools_give_nothing(self) -> None:
        missing = allocate([slice_of("s", gpus(0), count=2)], claim(ask()))
        twice = allocate([slice_of("s", gpus(0), gpus(0))], claim(ask()))
        assert isinstance(missing, Unallocatable)
        assert isinstance(twice, Unallocatable)
        assert (missing.refusals[0].refusal, missing.message) == (
            Refusal.POOL_INCOMPLETE,
            "cannot allocate all claims",
        )
        assert (twice.refusals[0].refusal, twice.message) == (
            Refusal.POOL_INVALID,
            "invalid resource pools were encountered",
        )


class TestSelectors:
    def test_a_failing_selector_ends_the_attempt(self) -> None:
        wants = claim({"name": "r", "exactly": {"deviceClassName": "a100"}})
        text = (
            rf"class a100: selector #0 on device {DRIVER}/node-1/gpu-0: CEL runtime error: no such key: model"
        )
        with pytest.raises(AllocationError, match=text):
            allocate([THREE], wants)

    def test_devices_in_use_are_not_asked(self) -> None:
        wants = claim({"name": "r", "exactly": {"deviceClassName": "a100"}})
        models = slice_of("s", gpus(0), gpus(1, attributes={"model": {"string": "a100"}}))
        assert names(allocate([models], wants, used=(allocated("x", [], "gpu-0"),))) == [["gpu-1"]]

    def test_a_class_that_does_not_exist_is_an_error(self) -> None:
        with pytest.raises(AllocationError, match="request r: device class nope does not exist"):
            allocate([THREE], claim({"name": "r", "exactly": {"deviceClassName": "nope"}}))


class TestSharing:
    def test_partitions_use_up_the_counters_of_their_device(self) -> None:
        def part(number: int, memory: str) -> dict[str, Any]:
            needs = [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]
            return gpus(number, consumesCounters=needs)

        counters = slice_of(
            "counters", sharedCounters=[{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}], count=2
        )
        parts = slice_of("parts", part(0, "40Gi"), part(1, "80Gi"), part(2, "40Gi"), count=2)
        assert names(allocate([counters, parts], claim(ask(count=2)))) == [["gpu-0", "gpu-2"]]
        assert not allocate([counters, parts], claim(ask(count=3)))
        held = allocated("x", [], "gpu-1")
        found = allocate([counters, parts], claim(ask()), used=(held,))
        assert isinstance(found, Unallocatable)
        assert {one.refusal for one in found.refusals} == {Refusal.COUNTERS, Refusal.IN_USE}

    def test_shares_fit_beside_each_other_until_the_capacity_is_used_up(self) -> None:
        policy = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "5Gi"}}
        shared = gpus(
            0, allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi", "requestPolicy": policy}}
        )
        wants = [ask(name, capacity={"requests": {"memory": "12Gi"}}) for name in "abc"]
        two = allocate([slice_of("s", shared)], claim(*wants[:2]))
        assert names(two) == [["gpu-0", "gpu-0"]]
        assert isinstance(two, Allocation)
        result = two.claims[0]["devices"]["results"][0]
        assert result["shareID"] == "share"
        assert not allocate([slice_of("s", shared)], claim(*wants)), "15Gi each: the third does not fit"

    def test_shares_that_were_written_take_their_part_of_the_next_search(self) -> None:
        shared = gpus(0, allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})
        wants = claim(ask(capacity={"requests": {"memory": "30Gi"}}))
        first = allocate([slice_of("s", shared)], wants)
        assert isinstance(first, Allocation)
        holder = read(ResourceClaim, {"metadata": {"name": "x"}, "status": {"allocation": first.claims[0]}})
        second = allocate([slice_of("s", shared)], wants, used=(holder,))
        assert isinstance(second, Unallocatable)
        assert [one.refusal for one in second.refusals] == [Refusal.CAPACITY]

    def test_a_device_that_is_not_shared_must_only_have_enough(self) -> None:
        small = gpus(0, capacity={"memory": {"value": "40Gi"}})
        big = gpus(1, capacity={"memory": {"value": "80Gi"}})
        assert names(
            allocate([slice_of("s", small, big)], claim(ask(capacity={"requests": {"memory": "64Gi"}})))
        ) == [["gpu-1"]]

    def test_a_capacity_is_known_by_the_very_name_it_is_published_under(self) -> None:
        other = gpus(0, capacity={f"{DRIVER}/memory": {"value": "80Gi"}})
        found = allocate([slice_of("s", other)], claim(ask(capacity={"requests": {"memory": "1Gi"}})))
        assert isinstance(found, Unallocatable)

    @pytest.mark.parametrize(("asked", "taken"), [("2500Mi", "3Gi"), ("4Gi", "4Gi"), ("1Mi", "1Gi")])
    def test_what_is_taken_is_written_as_the_step_is(self, asked: str, taken: str) -> None:
        policy = {"default": "2Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
        capacity = {"memory": {"value": "10Gi", "requestPolicy": policy}}
        shared = gpus(0, allowMultipleAllocations=True, capacity=capacity)
        found = allocate([slice_of("s", shared)], claim(ask(capacity={"requests": {"memory": asked}})))
        assert isinstance(found, Allocation)
        assert found.claims[0]["devices"]["results"][0]["consumedCapacity"] == {"memory": taken}


class TestAdmin:
    def test_who_looks_into_a_device_keeps_the_same_pod_from_having_it(self) -> None:
        one = slice_of("s", gpus(0))
        assert isinstance(allocate([one], claim(ask("a", adminAccess=True), ask("b"))), Unallocatable)

    def test_another_claim_may_look_into_what_this_one_takes(self) -> None:
        one = slice_of("s", gpus(0))
        assert names(allocate([one], claim(ask()), claim(ask(adminAccess=True)))) == [["gpu-0"], ["gpu-0"]]

    def test_it_takes_its_own_share_of_what_is_counted(self) -> None:
        shared = gpus(0, allowMultipleAllocations=True, capacity={"memory": {"value": "10Gi"}})
        asks = [ask(n, adminAccess=True, capacity={"requests": {"memory": "6Gi"}}) for n in ("a", "b")]
        assert isinstance(allocate([slice_of("s", shared)], claim(*asks)), Unallocatable)
        assert names(allocate([slice_of("s", shared)], claim(asks[0]))) == [["gpu-0"]]


class TestWritten:
    def test_configuration_of_class_and_claim_is_copied(self) -> None:
        opaque = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
        found = allocate(
            [THREE],
            claim(ask("a"), ask("b"), config=[opaque, {"requests": ["b"], **opaque}, {"requests": ["x"]}]),
        )
        assert isinstance(found, Allocation)
        assert found.claims[0]["devices"]["config"] == [
            {"source": "FromClaim", **opaque},
            {"source": "FromClaim", "requests": ["b"], **opaque},
        ]


class TestFeaturesOff:
    @pytest.mark.parametrize(
        "gate, more",
        [
            ("DRAPartitionableDevices", {"consumesCounters": [{"counterSet": "s", "counters": {}}]}),
            ("DRAConsumableCapacity", {"allowMultipleAllocations": True}),
            ("DRADeviceBindingConditions", {"bindingConditions": ["a"], "bindingFailureConditions": ["b"]}),
        ],
    )
    def test_a_device_that_needs_the_feature_is_not_given(self, gate: str, more: dict[str, Any]) -> None:
        gates = ALL_FEATURES.replace({gate: False})
        tracker = Tracker(gates)
        tracker.put_slice(
            slice_of("s", gpus(0, **more), gpus(1), sharedCounters=[{"name": "s", "counters": {}}])
        )
        found = Allocator(tracker, CLASSES, InUse(), gates).allocate([claim(ask())], NODE)
        assert names(found) == [["gpu-1"]]

    def test_admin_access_that_was_stored_earlier_is_an_error(self) -> None:
        tracker, gates = Tracker(ALL_FEATURES), ALL_FEATURES.replace({"DRAAdminAccess": False})
        with pytest.raises(AllocationError, match="admin access is requested, but the feature is disabled"):
            Allocator(tracker, CLASSES, InUse(), gates).allocate([claim(ask(adminAccess=True))], NODE)


# ── an allocator that is kept up to date answers as a new one would ──────────────────────────────

_slices = st.builds(
    lambda name, pool, generation, count, devices, where: slice_of(
        name,
        *(gpus(n, attributes={"model": {"string": m}}) for n, m in devices.items()),
        pool=pool,
        generation=generation,
        count=count,
        **where,
    ),
    st.sampled_from("stu"),
    st.sampled_from(["node-1", "node-2"]),
    st.integers(1, 2),
    st.integers(1, 2),
    st.dictionaries(st.integers(0, 3), st.sampled_from(["a100", "h100"]), max_size=3),
    st.sampled_from(
        [
            {},
            {"nodeName": None, "allNodes": True},
            {
                "nodeName": None,
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                    ]
                },
            },
        ]
    ),
)
_rules = st.builds(
    lambda name, pool, text: rule(name, {"pool": pool}, text),
    st.sampled_from("rq"),
    st.sampled_from(["node-1", "node-2"]),
    st.sampled_from(["x:NoSchedule", "x:None"]),
)
_steps = st.lists(
    st.one_of(
        _slices,
        _rules,
        st.tuples(st.just("slice"), st.sampled_from("stu")),
        st.tuples(st.just("rule"), st.sampled_from("rq")),
        st.tuples(st.just("take"), st.sampled_from(["node-1", "node-2"])),
        st.tuples(st.just("give back"), st.integers(0, 3)),
    ),
    max_size=12,
)


@settings(max_examples=tries(60, 150), deadline=None)
@given(_steps)
def test_an_allocator_that_follows_changes_answers_as_a_new_one_does(steps: list[Any]) -> None:
    tracker, in_use, held = Tracker(ALL_FEATURES), InUse(), []
    kept = Allocator(tracker, CLASSES, in_use, ALL_FEATURES)
    wanted = [
        claim(ask()),
        read(
            ResourceClaim,
            {
                "metadata": {"name": "d"},
                "spec": {
                    "devices": {
                        "requests": [{"name": "r", "exactly": {"deviceClassName": "a100", "count": 2}}]
                    }
                },
            },
        ),
    ]
    nodes = [
        read(Node, {"metadata": {"name": f"node-{n}", "labels": {"zone": z}}})
        for n, z in ((1, "a"), (2, "b"))
    ]
    for step in steps:
        if isinstance(step, ResourceSlice):
            kept.refresh(tracker.put_slice(step).slices)
        elif isinstance(step, DeviceTaintRule):
            kept.refresh(tracker.put_rule(step).slices)
        elif step[0] == "slice":
            kept.refresh(tracker.remove_slice(step[1]).slices)
        elif step[0] == "rule":
            kept.refresh(tracker.remove_rule(step[1]).slices)
        elif step[0] == "take":
            found = kept.allocate([wanted[0]], next(node for node in nodes if node.name == step[1]))
            if isinstance(found, Allocation):
                held.append(read(ResourceClaim, {"status": {"allocation": found.claims[0]}}))
                in_use.add(held[-1].results)
        elif len(held) > step[1]:
            in_use.remove(held.pop(step[1]).results)
        new = Allocator(tracker, CLASSES, InUse.of(held), ALL_FEATURES)
        for node in nodes:
            for one in wanted:
                expected = new.allocate([one], node)
                assert kept.allocate([one], node) == expected
                solved = kept.solve([one], node)
                if isinstance(solved, str):
                    assert solved == getattr(expected, "message", None)
                else:
                    assert solved.written([one], lambda: "") == expected


# ── the search finds a solution exactly when there is one ────────────────────────────────────────

_numa = st.integers(0, 2)
_devices = st.lists(
    st.tuples(_numa, st.sampled_from(["", "a:NoSchedule", "b:NoExecute", "c:None"])), max_size=5
)
_tolerations = st.lists(st.sampled_from("ab"), max_size=2, unique=True)
_counts = st.lists(st.tuples(st.integers(1, 2), _tolerations), min_size=1, max_size=3)


@settings(max_examples=tries(80, 200), deadline=None)
@given(_devices, _counts, st.sampled_from(["matchAttribute", "distinctAttribute", ""]))
def test_there_is_an_allocation_if_and_only_if_trying_everything_finds_one(
    devices: list[tuple[int, str]], wanted: list[tuple[int, list[str]]], constraint: str
) -> None:
    published = [
        device(f"gpu-{n}", *([text] if text else []), attributes={"numa": {"int": numa}})
        for n, (numa, text) in enumerate(devices)
    ]
    requests = [
        ask(f"r{n}", count=count, tolerations=[{"key": key, "operator": "Exists"} for key in keys])
        for n, (count, keys) in enumerate(wanted)
    ]
    constraints = [{constraint: f"{DRIVER}/numa"}] if constraint else []
    found = allocate([slice_of("s", *published)], claim(*requests, constraints=constraints), steps=1_000_000)

    slots = [keys for count, keys in wanted for _ in range(count)]

    def works(chosen: tuple[int, ...]) -> bool:
        numas = [devices[index][0] for index in chosen]
        if constraint == "matchAttribute" and len(set(numas)) > 1:
            return False
        if constraint == "distinctAttribute" and len(set(numas)) < len(numas):
            return False
        return all(
            text in ("", "c:None") or text[0] in keys
            for keys, text in zip(slots, (devices[index][1] for index in chosen), strict=True)
        )

    possible = any(
        works(order) for some in combinations(range(len(devices)), len(slots)) for order in permutations(some)
    )
    assert bool(found) == possible
    if isinstance(found, Allocation):
        chosen = [int(name.removeprefix("gpu-")) for name in names(found)[0]]
        assert works(tuple(chosen))
        assert len(set(chosen)) == len(chosen)
