"""Devices with their taints: order, numbers, who is told, and what a broken rule does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.unit.devices.builders import DRIVER, device, device_class, rule, slice_of, taint_slice
from weir.devices.selector import Question
from weir.devices.tracker import RUNTIME_ERROR, Tracker
from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import read
from weir.objects.resource import DeviceClass, DeviceID, DeviceTaintRule, ResourceSlice

pytestmark = pytest.mark.proves("5055-47", "5055-65", "5055-66", "5055-85")

GPU = DeviceID(DRIVER, "node-1", "gpu-0")
BROKEN = {"selectors": [{"cel": {"expression": "device.nope"}}]}
MODEL = {"model": {"string": "a100"}}


def tracker(*objects: ResourceSlice | DeviceTaintRule | DeviceClass, gates: Gates = ALL_FEATURES) -> Tracker:
    found = Tracker(gates)
    for one in objects:
        put(found, one)
    return found


def put(into: Tracker, one: ResourceSlice | DeviceTaintRule | DeviceClass) -> tuple[str, ...]:
    if isinstance(one, ResourceSlice):
        return into.put_slice(one).slices
    return (into.put_rule(one) if isinstance(one, DeviceTaintRule) else into.put_class(one)).slices


def texts(found: Tracker, name: str = "s") -> list[list[str]]:
    return [[str(taint.taint) for taint in one.taints] for one in found.devices(name)]


def ids(found: Tracker, name: str = "s") -> list[int]:
    return [taint.id for taint in found.devices(name)[0].taints]


class TestMerging:
    def test_own_taints_come_first_then_taint_slices_then_rules_by_name(self) -> None:
        found = tracker(
            rule("z", {}, "z:None"),
            taint_slice("t2", {"gpu-0": ["t2:None"]}),
            slice_of("s", device("gpu-0", "own:None")),
            rule("b", {}, "b:None"),
            taint_slice("t1", {"gpu-0": ["t1:None", "t1b:None"]}),
        )
        assert texts(found) == [["own:None", "t1:None", "t1b:None", "t2:None", "b:None", "z:None"]]

    def test_origins_are_written_as_logs_have_them(self) -> None:
        found = tracker(slice_of("s", device("gpu-0", "a:None")), rule("r", {}, "b:None"))
        origins = [str(taint.origin) for taint in found.devices("s")[0].taints]
        assert origins == [f"ResourceSlice s {DRIVER}/node-1/gpu-0 taint #0", "DeviceTaintRule r"]

    def test_a_taint_slice_of_another_generation_says_nothing(self) -> None:
        found = tracker(slice_of("s", device()), taint_slice("t", {"gpu-0": ["a:None"]}, generation=2))
        assert texts(found) == [[]]

    def test_a_rule_that_goes_takes_its_taint_along(self) -> None:
        found = tracker(slice_of("s", device("gpu-0", "a:None")), rule("r", {}, "b:None"))
        assert texts(found) == [["a:None", "b:None"]]
        assert found.remove_rule("r").slices == ("s",)
        assert texts(found) == [["a:None"]]

    def test_a_taint_slice_that_goes_takes_its_taints_along(self) -> None:
        found = tracker(slice_of("s", device()), taint_slice("t", {"gpu-0": ["a:None"]}))
        assert texts(found) == [["a:None"]]
        assert "s" in found.remove_slice("t").slices
        assert texts(found) == [[]]

    @pytest.mark.proves("5055-81")
    def test_without_the_gate_there_are_no_taints(self) -> None:
        off = Gates({"DRADeviceTaints": False})
        found = tracker(slice_of("s", device("gpu-0", "a:None")), rule("r", {}, "b:None"), gates=off)
        assert texts(found) == [[]]

    def test_without_the_rules_gate_only_drivers_taint(self) -> None:
        off = Gates({"DRADeviceTaintRules": False})
        found = tracker(slice_of("s", device("gpu-0", "a:None")), rule("r", {}, "b:None"), gates=off)
        assert texts(found) == [["a:None"]]


class TestNumbers:
    def test_a_rule_has_one_number_on_all_devices_and_keeps_it_when_edited(self) -> None:
        found = tracker(slice_of("s", device("gpu-0"), device("gpu-1")), rule("r", {}, "a:None"))
        before = [one.taints[0].id for one in found.devices("s")]
        found.put_rule(rule("r", {"driver": DRIVER}, "b=1:NoExecute"))
        assert [one.taints[0].id for one in found.devices("s")] == before == [before[0]] * 2

    def test_a_driver_taint_keeps_its_number_when_it_moves_to_a_taint_slice(self) -> None:
        found = tracker(slice_of("s", device("gpu-0", "a=1:NoExecute")))
        before = ids(found)
        found.put_slice(slice_of("s", device("gpu-0")))
        found.put_slice(taint_slice("t", {"gpu-0": ["a=1:NoExecute@60"]}))
        assert ids(found) == before

    def test_another_value_is_another_number(self) -> None:
        found = tracker(slice_of("s", device("gpu-0", "a=1:NoExecute")))
        before = ids(found)
        found.put_slice(slice_of("s", device("gpu-0", "a=2:NoExecute")))
        assert ids(found) != before

    def test_equal_taints_are_told_apart(self) -> None:
        found = tracker(slice_of("s", device("gpu-0", "a:NoExecute", "a:NoExecute")))
        assert len(set(ids(found))) == 2


class TestTelling:
    def test_a_rule_that_changes_nothing_is_not_told(self) -> None:
        found = tracker(slice_of("s", device()), rule("r", {"driver": DRIVER}, "a:NoExecute"))
        assert found.put_rule(rule("r", {"driver": DRIVER}, "a:NoExecute", description="why")).slices == ()

    def test_only_slices_with_selected_devices_are_told(self) -> None:
        found = tracker(slice_of("s", device()), slice_of("other", device(), pool="node-2"))
        assert found.put_rule(rule("r", {"pool": "node-2"}, "a:None")).slices == ("other",)

    def test_a_taint_slice_tells_the_slices_of_its_pool(self) -> None:
        found = tracker(slice_of("s", device()), slice_of("other", device(), pool="node-2"))
        assert found.put_slice(taint_slice("t", {"gpu-0": ["a:None"]})).slices == ("s", "t")

    def test_a_class_tells_only_rules_that_name_it(self) -> None:
        found = tracker(
            slice_of("s", device(attributes=MODEL)), rule("r", {"deviceClassName": "c"}, "a:None")
        )
        assert found.put_class(device_class("c", "device.driver == 'gpu.example.com'")).slices == ("s",)
        assert found.put_class(device_class("other")).slices == ()
        assert found.remove_class("c").slices == ("s",)


class TestTrouble:
    def test_a_failing_selector_is_one_event_on_its_rule_and_selects_nothing(self) -> None:
        found = tracker(slice_of("s", device("gpu-0"), device("gpu-1")))
        text = f"device.attributes['{DRIVER}'].nope"
        update = found.put_rule(rule("r", {"selectors": [{"cel": {"expression": text}}]}, "a:None"))
        assert texts(found) == [[], []]
        assert [(p.rule, p.reason) for p in update.problems] == [("r", RUNTIME_ERROR)]
        assert update.problems[0].message.startswith("selector #0: runtime error: no such key: nope")

    def test_a_broken_rule_leaves_slices_as_they_were_until_it_is_gone(self) -> None:
        found = tracker(slice_of("s", device("gpu-0", "a:None")))
        problem = found.put_rule(rule("r", BROKEN, "b:None")).problems[0]
        assert problem.message.startswith("DeviceTaintRule r: selector #0: CEL compile error: ")
        found.put_slice(slice_of("s", device("gpu-0", "c:None")))
        assert texts(found) == [["a:None"]]
        assert found.remove_rule("r").slices == ("s",)
        assert texts(found) == [["c:None"]]

    def test_a_broken_rule_stays_broken_when_only_its_taint_is_edited(self) -> None:
        found = tracker(slice_of("s", device("gpu-0", "a:None")), rule("r", BROKEN, "b:None"))
        found.put_rule(rule("r", BROKEN, "c:None"))
        found.put_slice(slice_of("s", device("gpu-0", "d:None")))
        assert texts(found) == [["a:None"]]

    def test_a_slice_whose_taints_alone_change_asks_no_rule_and_tells_no_problem_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing = {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].nope"}}]}
        models = {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].model == 'a100'"}}]}
        found = tracker(
            slice_of("s", device("gpu-0", "a:None", attributes=MODEL)),
            rule("f", failing, "f:None"),
            rule("m", models, "m:None"),
        )
        monkeypatch.setattr(Question, "__call__", lambda *_: pytest.fail("a rule was asked"))
        update = found.put_slice(slice_of("s", device("gpu-0", "b:None", attributes=MODEL)))
        assert (texts(found), update.problems) == ([["b:None", "m:None"]], ())
        monkeypatch.undo()
        found.put_slice(slice_of("s", device("gpu-0", "b:None", attributes={"model": {"string": "h100"}})))
        assert texts(found) == [["b:None"]]
        found.remove_rule("m")
        assert texts(found) == [["b:None"]]

    def test_a_device_that_cannot_be_read_is_selected_by_name_only(self) -> None:
        odd = device("gpu-0", attributes={"v": {"version": "not one"}})
        by_cel = {"selectors": [{"cel": {"expression": "true"}}]}
        found = tracker(
            slice_of("s", odd), rule("cel", by_cel, "a:None"), rule("name", {"device": "gpu-0"}, "b:None")
        )
        assert texts(found) == [["b:None"]]

    def test_a_rule_that_goes_leaves_the_trouble_of_the_next(self) -> None:
        found = tracker(rule("a", BROKEN, "a:None"), rule("b", BROKEN, "b:None"), slice_of("s", device()))
        assert [problem.rule for problem in found.remove_rule("a").problems] == ["b"]
        update = found.remove_rule("b")
        assert (update.problems, update.slices, texts(found)) == ((), ("s",), [[]])


class TestReading:
    def test_the_taint_of_a_rule_is_the_one_its_devices_carry(self) -> None:
        found = tracker(rule("r", {}, "a:None"), slice_of("s", device()))
        assert [found.rule_taint("r")] == list(found.devices("s")[0].taints)

    def test_a_rule_selects_devices_that_nobody_publishes_by_their_names(self) -> None:
        found = tracker(rule("r", {"device": "gpu-0"}, "a:None"))
        other = DeviceID(DRIVER, "node-1", "gpu-1")
        asked = [("r", GPU), ("r", other), ("none", GPU)]
        assert [found.selects_unpublished(*one) for one in asked] == [True, False, False]


class TestPools:
    def test_the_last_slice_of_the_newest_generation_gives_way_to_the_one_before(self) -> None:
        found = tracker(slice_of("old", device("gpu-0", "a:None")), slice_of("new", device(), generation=2))
        assert [one.slice for one in found.current_devices()] == ["new"]
        found.remove_slice("new")
        assert [one.slice for one in found.current_devices()] == ["old"]

    def test_a_device_named_twice_makes_the_pool_unusable(self) -> None:
        found = tracker(slice_of("s", device(), count=2), slice_of("t", device(), count=2))
        (pool,) = found.pools()
        assert (pool.complete, pool.problems) == (True, ("duplicate device gpu-0",))

    def test_unknown_counters_make_the_pool_unusable(self) -> None:
        hungry = device(consumesCounters=[{"counterSet": "c", "counters": {"memory": {"value": "1Gi"}}}])
        (pool,) = tracker(slice_of("s", hungry)).pools()
        assert pool.problems == ("device gpu-0 consumes unknown counter set c",)


# ── the incremental tracker and one that starts from nothing agree ───────────────────────────────

_texts = st.sampled_from(["a:NoExecute", "a=1:NoSchedule", "b:None", "a:NoExecute@5"])
_names = st.sampled_from(["gpu-0", "gpu-1"])
_places = st.fixed_dictionaries(
    {"driver": st.sampled_from([DRIVER, "net.example.com"]), "pool": st.sampled_from(["node-1", "node-2"])},
)
_generations = st.integers(1, 2)
_attributes = st.sampled_from([{}, MODEL, {"model": {"string": "h100"}}])


@st.composite
def _slices(draw: st.DrawFn) -> ResourceSlice:
    name, place, generation = draw(st.sampled_from("stuv")), draw(_places), draw(_generations)
    if draw(st.booleans()):
        taints = draw(st.dictionaries(_names, st.lists(_texts, max_size=2), max_size=2))
        return taint_slice(name, taints, generation=generation, **place)
    entries = draw(st.lists(st.tuples(_names, st.lists(_texts, max_size=2), _attributes), max_size=3))
    devices = [device(one, *taints, attributes=attributes) for one, taints, attributes in entries]
    return slice_of(name, *devices, generation=generation, **place)


_expressions = st.sampled_from(
    [
        f"device.attributes['{DRIVER}'].model == 'a100'",  # fails where there is no model
        f"device.attributes['{DRIVER}'].?model.orValue('') == 'h100'",
        "device.driver.startsWith('net')",
    ]
)
_selectors = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "driver": st.sampled_from([DRIVER, "net.example.com"]),
        "pool": st.sampled_from(["node-1", "node-2"]),
        "device": _names,
        "deviceClassName": st.sampled_from(["c", "d"]),
        "selectors": st.lists(_expressions.map(lambda text: {"cel": {"expression": text}}), max_size=2),
    },
)
_rules = st.builds(rule, st.sampled_from("xyz"), _selectors, _texts)
_classes = st.builds(device_class, st.sampled_from("cd"), _expressions)
_removals = st.sampled_from(
    [*("slice" + n for n in "stuv"), *("rule" + n for n in "xyz"), "classc", "classd"]
)


@settings(max_examples=tries(60, 150), deadline=None)
@given(st.lists(_slices() | _rules | _classes | _removals, max_size=14))
def test_any_history_ends_where_a_fresh_start_begins(events: list[object]) -> None:
    """Tracker: any permutation of slice, rule and class events ends in the same tracked state."""
    live = Tracker(ALL_FEATURES)
    there: dict[str, dict[str, object]] = {"slice": {}, "rule": {}, "class": {}}
    shown: dict[str, object] = {}
    for event in events:
        if isinstance(event, str):
            kind, name = event[:-1], event[-1]
            there[kind].pop(name, None)
            told = getattr(live, f"remove_{kind}")(name).slices
        else:
            assert isinstance(event, ResourceSlice | DeviceTaintRule | DeviceClass)
            kind = {ResourceSlice: "slice", DeviceTaintRule: "rule", DeviceClass: "class"}[type(event)]
            there[kind][event.metadata.name] = event
            told = put(live, event)
        now = {one.name: _state(live, one.name) for one in live.slices()}
        silent = {name for name in now.keys() | shown.keys() if now.get(name) != shown.get(name)} - set(told)
        assert not silent, "a change nobody was told about"
        shown = dict(now)
    fresh = Tracker(ALL_FEATURES)
    for kind in ("rule", "slice", "class"):
        for one in there[kind].values():
            put(fresh, one)  # type: ignore[arg-type]
    assert {s.name: _state(live, s.name) for s in live.slices()} == {
        s.name: _state(fresh, s.name) for s in fresh.slices()
    }
    assert [str(pool) for pool in live.pools()] == [str(pool) for pool in fresh.pools()]
    numbers = {}
    for found in live.current_devices():
        for taint in found.taints:
            numbers.setdefault(taint.id, set()).add(str(taint.origin).split(" taint")[0].split(" ")[0])
    assert all(len(kinds) == 1 for kinds in numbers.values()), "a number is used for one taint only"


def _state(found: Tracker, name: str) -> object:
    return [(one.id, [(str(t.origin), t.content) for t in one.taints]) for one in found.devices(name)]


class TestWhatIsForgotten:
    def test_rules_that_select_a_new_device_are_in_the_order_of_their_names(self) -> None:
        rules = [
            rule("z", {"driver": DRIVER, "pool": "node-1", "device": "gpu-0"}, "z:None"),
            rule("m", {"driver": DRIVER}, "m:None"),
            rule("a", {}, "a:None"),
        ]
        assert texts(tracker(*rules, slice_of("s", device()))) == [["a:None", "m:None", "z:None"]]

    def test_two_of_three_rules_are_in_order_as_well(self) -> None:
        rules = [
            rule("z", {"driver": DRIVER}, "z:None"),
            rule("a", {}, "a:None"),
            rule("b", {"pool": "else"}, "b:None"),
        ]
        assert texts(tracker(*rules, slice_of("s", device()))) == [["a:None", "z:None"]]

    def test_a_rule_that_is_not_there_can_be_removed(self) -> None:
        assert tracker(slice_of("s", device())).remove_rule("never").slices == ()

    def test_equal_taints_of_one_device_have_numbers_of_their_own(self) -> None:
        found = tracker(slice_of("s", device("gpu-0", "a:None", "a:None", "b:None", "a:None")))
        assert len(set(ids(found))) == 4

    def test_equal_taints_keep_their_numbers_when_one_goes(self) -> None:
        found = tracker(slice_of("s", device("gpu-0", "a:None", "a:None")))
        first = ids(found)[0]
        found.put_slice(slice_of("s", device("gpu-0", "a:None")))
        assert ids(found) == [first]

    def test_a_slice_that_moves_to_another_pool_is_only_there(self) -> None:
        found = tracker(slice_of("s", device(), pool="node-1"))
        found.put_slice(slice_of("s", device(), pool="node-2"))
        assert len(list(found.pools())) == 1
        assert found.find_device(GPU) is None

    def test_a_device_that_is_gone_is_selected_no_more(self) -> None:
        found = tracker(slice_of("s", device("gpu-0"), device("gpu-1")), rule("r", {}, "a:None"))
        found.put_slice(slice_of("s", device("gpu-1")))
        assert [one.id.device for one in found.selected_by("r")] == ["gpu-1"]
        found.remove_slice("s")
        assert found.selected_by("r") == []

    def test_a_slice_that_could_not_be_tracked_and_went_is_not_tried_again(self) -> None:
        found = tracker(rule("r", BROKEN, "a:None"), slice_of("s", device()))
        found.remove_slice("s")
        assert found.remove_rule("r").slices == ()

    def test_a_broken_rule_that_goes_lets_its_slices_be_tracked(self) -> None:
        found = tracker(rule("r", BROKEN, "a:None"), rule("good", {}, "g:None"), slice_of("s", device()))
        assert found.remove_rule("r").slices == ("s",)
        assert texts(found) == [["g:None"]]

    def test_a_broken_rule_that_is_mended_lets_its_slices_be_tracked(self) -> None:
        found = tracker(rule("r", BROKEN, "a:None"), slice_of("s", device()))
        assert found.put_rule(rule("r", {}, "a:None")).slices == ("s",)
        assert texts(found) == [["a:None"]]

    def test_a_class_does_not_concern_rules_that_select_nothing_or_name_another(self) -> None:
        found = tracker(slice_of("s", device()), rule("none", None, "a:None"), rule("r", {}, "b:None"))
        assert found.put_class(device_class("gpus", "true")).slices == ()

    def test_a_class_that_does_not_compile_is_a_problem_of_the_rule_that_names_it(self) -> None:
        found = tracker(slice_of("s", device()), rule("r", {"deviceClassName": "gpus"}, "a:None"))
        problems = found.put_class(device_class("gpus", "device.nope")).problems
        assert [problem.rule for problem in problems] == ["r"]

    def test_a_rule_without_a_uid_is_told_apart_by_its_name(self) -> None:
        found = tracker(slice_of("s", device()))
        for name in ("a", "b"):
            spec = {"deviceSelector": {}, "taint": {"key": name, "effect": "None"}}
            found.put_rule(read(DeviceTaintRule, {"metadata": {"name": name}, "spec": spec}))
        assert len(set(ids(found))) == 2


class TestEditedRules:
    def test_a_rule_that_selects_others_now_leaves_those_before(self) -> None:
        found = tracker(
            slice_of("s", device("gpu-0"), device("gpu-1")), rule("r", {"device": "gpu-0"}, "a:None")
        )
        assert found.put_rule(rule("r", {"device": "gpu-1"}, "a:None")).slices == ("s",)
        assert texts(found) == [[], ["a:None"]]

    def test_a_rule_that_is_edited_replaces_its_taint_and_no_other(self) -> None:
        found = tracker(
            slice_of("s", device()), rule("a", {}, "a:None"), rule("b", {}, "b:None"), rule("c", {}, "c:None")
        )
        found.put_rule(rule("b", {}, "b=2:NoExecute"))
        assert texts(found) == [["a:None", "b=2:NoExecute", "c:None"]]

    def test_a_rule_that_stays_the_same_concerns_no_slice(self) -> None:
        found = tracker(slice_of("s", device()), rule("a", {}, "a:None"))
        assert (
            found.put_rule(rule("a", {}, "a:None")).slices,
            found.put_rule(rule("a", {}, "b:None")).slices,
        ) == ((), ("s",))

    def test_a_taint_slice_concerns_the_slices_whose_devices_it_names(self) -> None:
        found = tracker(slice_of("s", device("gpu-0"), count=3), slice_of("t", device("gpu-1"), count=3))
        assert found.put_slice(taint_slice("u", {"gpu-1": ["a:None"]}, count=3)).slices == ("t", "u")

    def test_a_slice_that_is_not_there_can_be_removed(self) -> None:
        assert tracker().remove_slice("never").slices == ()
