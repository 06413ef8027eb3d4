"""Which claims have to be given up, kept up to date by what each change can concern."""

from __future__ import annotations

import pytest

from tests.unit.devices.builders import DRIVER, T0, after, allocated, device, device_class, rule, slice_of
from weir.controllers.devices.taint_eviction_claims import ClaimEvictions
from weir.gates import ALL_FEATURES
from weir.objects.core import read
from weir.objects.resource import DeviceID, ResourceClaim
from weir.observe.logs import Log

KEY = "default/c"
GPU = DeviceID(DRIVER, "node-1", "gpu-0")
ALL = {"driver": DRIVER}


def model(*slices, claim=None):
    found = ClaimEvictions(ALL_FEATURES)
    for each in slices or (slice_of("s", device("gpu-0"), device("gpu-1")),):
        found.put_slice(each.metadata.name, each, T0)
    found.put_claim(KEY, claim or allocated("c", [], "gpu-0"), T0)
    return found


def keys(found):
    """Return by claim the keys of the taints that end its use."""
    return {name: [one.taint.taint.key for one in each.reasons] for name, each in found.evictions.items()}


def test_a_rule_that_comes_changes_and_goes_changes_the_claims_it_hits():
    found = model()
    assert found.put_rule("r", rule("r", ALL, "a:NoExecute"), T0).claims == (KEY,)
    assert keys(found) == {KEY: ["a"]}
    assert found.put_rule("r", rule("r", ALL, "a:NoExecute"), T0).claims == ()
    assert found.put_rule("r", rule("r", ALL, "b:NoExecute"), T0).claims == (KEY,)
    assert found.put_rule("r", rule("r", {"device": "gpu-1"}, "b:NoExecute"), T0).claims == (KEY,)
    assert keys(found) == {}
    found.put_rule("r", rule("r", ALL, "a:NoExecute"), T0)
    assert found.put_rule("r", None, T0).claims == (KEY,) and keys(found) == {}


@pytest.mark.parametrize("effect", ["None", "NoSchedule"])
def test_a_taint_that_evicts_nobody_ends_no_use(effect):
    found = model()
    assert found.put_rule("r", rule("r", ALL, f"a:{effect}"), T0).claims == () and keys(found) == {}


def test_a_slice_brings_and_takes_the_taints_of_its_driver():
    found = model()
    tainted = slice_of("s", device("gpu-0", "hot:NoExecute"), device("gpu-1"))
    assert found.put_slice("s", tainted, T0).claims == (KEY,) and keys(found) == {KEY: ["hot"]}
    assert found.put_slice("s", slice_of("s", device("gpu-0")), T0).claims == (KEY,) and keys(found) == {}
    found.put_slice("s", tainted, T0)
    assert found.put_slice("s", None, T0).claims == (KEY,) and keys(found) == {}


def test_a_new_generation_that_lacks_a_device_frees_its_holders_from_the_drivers_taints():
    found = model(slice_of("s", device("gpu-0", "hot:NoExecute")))
    assert keys(found) == {KEY: ["hot"]}
    newer = slice_of("t", device("gpu-9"), generation=2)
    assert found.put_slice("t", newer, T0).claims == (KEY,) and keys(found) == {}
    assert found.put_slice("t", None, T0).claims == (KEY,) and keys(found) == {KEY: ["hot"]}


def test_a_slice_that_moves_concerns_its_pool_of_before():
    found = model(slice_of("s", device("gpu-0", "hot:NoExecute")))
    moved = slice_of("s", device("gpu-0", "hot:NoExecute"), pool="node-2")
    assert found.put_slice("s", moved, T0).claims == (KEY,) and keys(found) == {}


def test_a_class_concerns_rules_that_name_it():
    found = model()
    found.put_rule("r", rule("r", {"deviceClassName": "gpu"}, "a:NoExecute"), T0)
    assert keys(found) == {}
    assert found.put_class("gpu", device_class("gpu", "true"), T0).claims == (KEY,) and keys(found) == {
        KEY: ["a"]
    }
    assert found.put_class("gpu", None, T0).claims == (KEY,) and keys(found) == {}


def test_a_claim_that_is_not_allocated_or_gone_is_forgotten():
    found = model()
    found.put_rule("r", rule("r", ALL, "a:NoExecute"), T0)
    waiting = read(ResourceClaim, {"metadata": {"name": "c", "namespace": "default"}, "status": {}})
    assert found.put_claim(KEY, waiting, T0).claims == (KEY,)
    assert (found.claims, found.evictions, found.holders(GPU)) == ({}, {}, [])
    assert found.put_claim(KEY, None, T0).claims == ()
    found.put_claim(KEY, allocated("c", [], "gpu-0"), T0)
    assert found.put_claim(KEY, None, T0).claims == (KEY,) and found.claims == {}


def test_a_claim_that_is_given_other_devices_is_held_to_those():
    found = model()
    found.put_rule("r", rule("r", {"device": "gpu-0"}, "a:NoExecute"), T0)
    assert found.put_claim(KEY, allocated("c", [], "gpu-1"), T0).claims == (KEY,) and keys(found) == {}
    assert found.holders(GPU) == []
    assert found.put_claim(KEY, allocated("c", [], "gpu-0", "gpu-1"), T0).claims == (KEY,)
    assert found.put_claim(KEY, allocated("c", [], "gpu-0", "gpu-1"), T0).claims == ()


def test_a_shared_device_has_several_holders_until_the_last_has_gone():
    found = model()
    found.put_claim("default/d", allocated("d", [], "gpu-0"), T0)
    found.put_rule("r", rule("r", ALL, "a:NoExecute"), T0)
    number = found.evictions[KEY].reasons[0].taint.id
    assert found.holders(GPU) == [KEY, "default/d"] == found.because_of(number)
    found.put_claim(KEY, None, T0)
    assert found.holders(GPU) == ["default/d"] == found.because_of(number)
    found.put_claim("default/d", None, T0)
    assert found.holders(GPU) == [] == found.because_of(number)
    assert not found._held_of and not found._holding and not found._by_taint


def test_what_a_rule_selects_is_counted_as_published_and_as_held():
    found = model()
    found.put_claim("default/d", allocated("d", [], "gpu-9"), T0)  # published by nobody
    found.put_rule("r", rule("r", ALL, "a:NoExecute"), T0)
    gone = DeviceID(DRIVER, "node-1", "gpu-9")
    assert found.selected_by("r") == (2, [GPU, gone])
    assert keys(found) == {KEY: ["a"], "default/d": ["a"]}, "a name is enough to taint it"
    found.put_rule("r", rule("r", ALL, "b:NoExecute"), T0)
    assert keys(found) == {KEY: ["b"], "default/d": ["b"]}
    found.put_claim("default/d", None, T0)
    assert found.selected_by("r") == (2, [GPU])
    found.put_claim("default/d", allocated("d", [], "gpu-9"), T0)
    found.put_slice("s", slice_of("s", device("gpu-0"), device("gpu-9")), T0)
    assert found.selected_by("r") == (2, [GPU, gone])
    found.put_claim("default/d", None, T0)
    assert found.selected_by("r") == (2, [GPU])
    found.put_slice("s", None, T0)
    assert found.selected_by("r") == (0, [GPU])
    assert found.put_rule("r", None, T0).claims == (KEY,)


def test_a_taint_without_a_time_counts_from_when_it_was_first_met():
    lasting = [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    found = model(claim=allocated("c", lasting, "gpu-0"))
    timeless = rule("r", ALL, "a:NoExecute", timeAdded=None)
    found.put_rule("r", timeless, T0)
    assert found.evictions[KEY].at == after(60)
    found.put_claim("default/d", allocated("d", lasting, "gpu-1"), after(30))
    assert found.evictions["default/d"].at == after(60)
    for key in (KEY, "default/d"):
        found.put_claim(key, None, after(40))
    found.put_claim(KEY, allocated("c", lasting, "gpu-0"), after(40))
    assert found.evictions[KEY].at == after(100), "nobody remembered it"


def test_a_time_that_is_another_now_is_a_change():
    lasting = [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    found = model(claim=allocated("c", lasting, "gpu-0"))
    found.put_rule("r", rule("r", ALL, "a:NoExecute"), T0)
    assert found.put_rule("r", rule("r", ALL, "a:NoExecute@5"), T0).claims == (KEY,)
    assert found.evictions[KEY].at == after(65)


def test_problems_of_a_rule_are_handed_on():
    found = model()
    change = found.put_rule(
        "r", rule("r", {"selectors": [{"cel": {"expression": "device.nope"}}]}, "a:NoExecute"), T0
    )
    assert [problem.rule for problem in change.problems] == ["r"] and change.claims == ()


def test_a_value_that_cannot_be_compared_is_told_of_with_claim_and_device(monkeypatch):
    told = []
    for name in ("v", "info", "warning", "error"):
        monkeypatch.setattr(Log, name, lambda self, *said, **fields: told.append(fields))
    above = [{"key": "a", "operator": "Gt", "value": "5", "effect": "NoExecute"}]
    found = model(claim=allocated("c", above, "gpu-0"))
    found.put_rule("r", rule("r", ALL, "a=high:NoExecute"), T0)
    assert [(str(fields["claim"]), fields["device"]) for fields in told] == [("default/c", GPU)]
    told.clear()
    found.put_rule("q", rule("q", ALL, "a=higher:NoSchedule"), T0)
    found.put_claim("default/d", allocated("d", [{"key": "a", "operator": "Exists"}], "gpu-0"), T0)
    assert told == []
