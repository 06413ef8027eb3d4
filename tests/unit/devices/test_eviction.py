"""When pods must leave because of device taints, and how many a second."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.devices.builders import DRIVER, T0, after, allocated, device, pod, rule, slice_of
from weir.controllers.devices.eviction_queue import EvictionRate
from weir.devices.claims import claims_of
from weir.devices.eviction import LATEST, Eviction, Reason, claim_eviction, leave_at, pod_eviction
from weir.devices.origin import RuleOrigin, TrackedTaint
from weir.devices.tracker import Tracker
from weir.gates import ALL_FEATURES
from weir.objects.core import Pod, Toleration, read
from weir.objects.resource import DeviceTaint, ResourceClaim

pytestmark = pytest.mark.proves("5055-55", "5055-64")

HOT = DeviceTaint("hot", "", "NoExecute", "2026-01-01T12:00:00Z")


def lasting(seconds: int | None, effect: str = "NoExecute") -> Toleration:
    return Toleration("hot", "Exists", "", effect, seconds)


def reason(number: int = 1, rate: int | None = None, due: datetime = T0) -> Reason:
    taint = DeviceTaint("a", "", "NoExecute", None, rate)
    return Reason(TrackedTaint(taint, RuleOrigin(f"r{number}"), number), due)


class TestTime:
    @given(st.integers(-(2**63), 2**63 - 1))
    def test_any_number_of_seconds_is_a_moment_not_before_the_taint(self, seconds: int) -> None:
        at = leave_at(HOT, [lasting(seconds)], ALL_FEATURES, T0)
        assert at is not None
        assert T0 <= at <= LATEST

    def test_without_a_time_the_taint_counts_from_when_it_was_seen(self) -> None:
        unknown = DeviceTaint("hot", "", "NoExecute")
        assert leave_at(unknown, [lasting(30)], ALL_FEATURES, after(100)) == after(130)

    def test_a_time_that_cannot_be_read_counts_as_none(self) -> None:
        odd = DeviceTaint("hot", "", "NoExecute", "yesterday")
        assert leave_at(odd, [], ALL_FEATURES, after(7)) == after(7)

    @given(st.lists(st.none() | st.integers(-5, 1000), min_size=1, max_size=4))
    def test_the_order_of_tolerations_does_not_matter(self, seconds: list[int | None]) -> None:
        entries = [lasting(one) for one in seconds]
        forward = leave_at(HOT, entries, ALL_FEATURES, T0)
        assert forward == leave_at(HOT, entries[::-1], ALL_FEATURES, T0)
        expected = None if None in seconds else after(min(max(one or 0, 0) for one in seconds))
        assert forward == expected


class TestReasons:
    def test_rules_come_first_by_name_then_drivers_by_device_and_position(self) -> None:
        tracker = Tracker(ALL_FEATURES)
        tracker.put_slice(
            slice_of("s", device("gpu-1", "x:NoExecute", "y:NoExecute"), device("gpu-0", "z:NoExecute"))
        )
        for name in ("b", "a"):
            tracker.put_rule(rule(name, {"driver": DRIVER}, f"{name}:NoExecute@9"))
        found = claim_eviction(allocated("c", [], "gpu-1", "gpu-0"), tracker.taints_on, ALL_FEATURES, T0)
        assert found is not None
        assert [str(one.taint.taint.key) for one in found.reasons] == ["a", "b", "z", "x", "y"]
        assert [str(one.taint.taint.key) for one in found.due_reasons(after(5))] == ["z", "x", "y"]

    def test_a_reason_is_called_by_where_its_taint_comes_from(self) -> None:
        assert str(reason(7)) == "DeviceTaintRule r7"

    def test_admin_access_does_not_protect(self) -> None:
        tracker = Tracker(ALL_FEATURES)
        tracker.put_slice(slice_of("s", device("gpu-0", "x:NoExecute")))
        result = {"request": "r", "driver": DRIVER, "pool": "node-1", "device": "gpu-0", "adminAccess": True}
        claim = read(ResourceClaim, {"status": {"allocation": {"devices": {"results": [result]}}}})
        assert claim_eviction(claim, tracker.taints_on, ALL_FEATURES, T0) is not None


class TestPods:
    EVICTIONS = {"default/c": Eviction(T0, (reason(),))}

    def leaves(self, running: Pod, claim: ResourceClaim | None = None) -> bool:
        claims = {"default/c": claim or allocated("c", [], "gpu-0")}
        return pod_eviction(running, claims, self.EVICTIONS) is not None

    def test_a_running_pod_with_the_claim_leaves(self) -> None:
        assert self.leaves(pod("c"))

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_an_ended_pod_is_left_alone(self, phase: str) -> None:
        document: dict[str, Any] = {
            "metadata": {"name": "p", "namespace": "default", "uid": "pod-uid"},
            "spec": {"nodeName": "n", "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]},
            "status": {"phase": phase},
        }
        assert not self.leaves(read(Pod, document))

    def test_a_pod_that_was_replaced_under_its_name_is_left_alone(self) -> None:
        assert not self.leaves(pod("c"), allocated("c", [], "gpu-0", reserved=("an earlier pod",)))

    def test_claims_of_extended_resources_count(self) -> None:
        document: dict[str, Any] = {
            "metadata": {"name": "p", "namespace": "default", "uid": "pod-uid"},
            "spec": {"nodeName": "n"},
            "status": {"extendedResourceClaimStatus": {"resourceClaimName": "c"}},
        }
        owner = [{"kind": "Pod", "name": "p", "uid": "pod-uid", "controller": True}]
        made = {"metadata": {"name": "c", "namespace": "default", "ownerReferences": owner}}
        reserved = {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "pod-uid"}]}}
        assert self.leaves(read(Pod, document), read(ResourceClaim, {**made, **reserved}))


class TestClaims:
    POD = read(
        Pod,
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
            "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]},
        },
    )

    def problem(self, running: Pod, **metadata: Any) -> str:
        claim = read(ResourceClaim, {"metadata": {"name": "p-gpu-x", "namespace": "ns", **metadata}})
        (use,) = claims_of(running, {"ns/p-gpu-x": claim} if metadata else {})
        return use.problem

    def test_a_claim_that_was_not_made_yet_says_so(self) -> None:
        fresh = read(Pod, {"metadata": {"name": "p"}, "spec": {"resourceClaims": [{"name": "a"}]}})
        assert self.problem(fresh) == 'pod "default/p": ResourceClaim not created yet'

    def test_a_claim_of_somebody_else_is_not_used(self) -> None:
        text = "ResourceClaim ns/p-gpu-x was not created for Pod ns/p (Pod is not owner)"
        assert self.problem(self.POD, uid="x") == text

    def test_a_claim_that_goes_away_says_so(self) -> None:
        owner = [{"uid": "u", "controller": True}]
        text = 'resourceclaim "p-gpu-x" is being deleted'
        assert self.problem(self.POD, ownerReferences=owner, deletionTimestamp="2026-01-01T00:00:00Z") == text


class TestRate:
    def test_pods_that_share_no_taint_do_not_delay_each_other(self) -> None:
        rate = EvictionRate()
        for _ in range(10):
            assert rate.admit([reason(1, 1)], T0) is None
        assert rate.admit([reason(1, 1)], T0) == after(1)
        assert rate.admit([reason(2, 1)], T0) is None

    def test_a_higher_rate_counts_from_when_it_was_set(self) -> None:
        rate = EvictionRate()
        for _ in range(10):
            rate.admit([reason(1, 1)], T0)
        assert rate.admit([reason(1, 100)], after(0.5)) == after(0.505), "half a token came at the old rate"

    def test_a_clock_that_goes_back_takes_no_tokens(self) -> None:
        rate = EvictionRate()
        assert rate.admit([reason(1, 10)], T0) is None
        assert [rate.admit([reason(1, 10)], after(-0.5)) for _ in range(9)] == [None] * 9
        assert rate.admit([reason(1, 10)], after(-0.5)) is not None

    @pytest.mark.proves("5055-67")
    def test_a_full_bucket_is_forgotten(self) -> None:
        rate = EvictionRate()
        rate.admit([reason()], T0)
        rate.forget_full(after(0.05))
        assert len(rate) == 1
        rate.forget_full(after(0.1))
        assert len(rate) == 0

    @given(st.integers(1, 60), st.lists(st.integers(1, 200), min_size=1, max_size=3))
    def test_pods_behind_several_taints_leave_at_the_highest_rate(self, pods: int, rates: list[int]) -> None:
        rate, now = EvictionRate(), T0
        because = [reason(number, per_second) for number, per_second in enumerate(rates)]
        for _ in range(pods):
            while (again := rate.admit(because, now)) is not None:
                assert again > now
                now = again
        expected = timedelta(seconds=max(0, pods - 10) / max(rates))
        assert abs(now - T0 - expected) <= timedelta(milliseconds=1)


class TestSeveralDevices:
    """One rule on several devices is one reason, with its earliest time."""

    def claim(self, *seconds: int | None) -> ResourceClaim:
        results = [
            {
                "request": "r",
                "driver": DRIVER,
                "pool": "node-1",
                "device": f"gpu-{number}",
                "tolerations": []
                if limit is None
                else [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": limit}],
            }
            for number, limit in enumerate(seconds)
        ]
        status = {"allocation": {"devices": {"results": results}}}
        return read(ResourceClaim, {"metadata": {"name": "c"}, "status": status})

    def tracker(self) -> Tracker:
        tracker = Tracker(ALL_FEATURES)
        tracker.put_slice(slice_of("s", *(device(f"gpu-{number}") for number in range(3))))
        tracker.put_rule(rule("all", {"driver": DRIVER}, "a:NoExecute@0"))
        return tracker

    @pytest.mark.parametrize("seconds", [(60, 30, 90), (30, 60, 90), (90, 60, 30)])
    def test_the_pods_leave_when_the_first_device_must_be_left(self, seconds: tuple[int, ...]) -> None:
        found = claim_eviction(self.claim(*seconds), self.tracker().taints_on, ALL_FEATURES, T0)
        assert found is not None
        assert (found.at, [one.due for one in found.reasons]) == (after(30), [after(30)])

    def test_a_device_without_toleration_ends_it_at_once(self) -> None:
        found = claim_eviction(self.claim(60, None), self.tracker().taints_on, ALL_FEATURES, T0)
        assert found is not None
        assert found.at == T0

    @pytest.mark.parametrize("order", [("c", "d"), ("d", "c")])
    def test_a_pod_with_two_claims_leaves_with_the_earlier(self, order: tuple[str, str]) -> None:
        claims = {f"default/{name}": allocated(name, [], "gpu-0") for name in ("c", "d")}
        evictions = {
            "default/c": Eviction(after(60), (reason(due=after(60)),)),
            "default/d": Eviction(after(30), (reason(due=after(30)),)),
        }
        found = pod_eviction(pod(*order), claims, evictions)
        assert found is not None
        assert (found.at, [one.due for one in found.reasons]) == (after(30), [after(30)])

    def test_a_reason_is_due_at_its_very_moment(self) -> None:
        found = Eviction(T0, (reason(1, due=T0), reason(2, due=after(1))))
        assert found.due_reasons(T0) == found.reasons[:1] and found.due_reasons(after(-1)) == ()

    def test_a_rule_comes_first_whatever_its_name(self) -> None:
        tracker = self.tracker()
        tracker.put_slice(slice_of("s", device("gpu-0", "own:NoExecute")))
        tracker.put_rule(rule("zzz", {"driver": DRIVER}, "z:NoExecute@0"))
        found = claim_eviction(self.claim(None), tracker.taints_on, ALL_FEATURES, T0)
        assert found is not None
        assert [one.taint.taint.key for one in found.reasons] == ["a", "z", "own"]
