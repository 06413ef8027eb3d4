"""dra.md 12.4: whatever the order of events, twice or late, the same pods are waiting for the same time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.unit.controllers.device_cluster import (
    DRIVER,
    VERSION,
    rule_document,
    slice_document,
    taint,
    tolerate,
)
from tests.unit.controllers.device_story import (
    ADDED,
    KINDS,
    SECOND,
    T0,
    claim_document,
    identified,
    pod_document,
    told_in_order,
)
from weir.controllers.devices.eviction_queue import EvictionQueue, PodKey
from weir.controllers.devices.taint_eviction import TURN, ObjectKey
from weir.controllers.devices.taint_eviction_claims import ClaimEvictions
from weir.devices.eviction import Eviction, Reason
from weir.devices.inventory import Inventory
from weir.devices.origin import RuleOrigin, TrackedTaint
from weir.gates import ALL_FEATURES
from weir.objects.core import read
from weir.objects.kinds import PODS
from weir.objects.resource import DeviceTaint, DeviceTaintRule, ResourceClaim, ResourceSlice

pytestmark = pytest.mark.proves("5055-72")


def documents():
    """A cluster in which every part of the answer is used."""
    hot = taint("hot:NoExecute", timeAdded=ADDED)
    gpus = {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].index == 2"}}]}
    found = [
        identified(slice_document("node-0", {"gpu-0": [], "gpu-1": [hot], "gpu-2": []})),
        identified(slice_document("node-1", {"gpu-0": [], "gpu-1": [hot]}, generation=2)),
        identified(rule_document("by-pool", "p:NoExecute", {"pool": "node-1"}, timeAdded=ADDED)),
        identified(rule_document("by-class", "c:NoExecute", {"deviceClassName": "gpus"}, timeAdded=ADDED)),
        identified(rule_document("dry", "d:None", {}, timeAdded=ADDED)),
        {"apiVersion": VERSION, "kind": "DeviceClass", "metadata": {"name": "gpus"}, "spec": gpus},
    ]
    old = slice_document("node-1", {"gpu-0": [hot]}, generation=1)
    old["metadata"]["name"] = "old"
    found.append(identified(old))
    for number, (pool, unit) in enumerate(
        [
            ("node-0", "gpu-0"),
            ("node-0", "gpu-1"),
            ("node-0", "gpu-2"),
            ("node-1", "gpu-0"),
            ("gone", "gpu-0"),
        ]
    ):
        lasting = (tolerate("hot", seconds=60), tolerate("p", seconds=90))
        found += [
            claim_document(f"c-{number}", [(pool, unit)], lasting, [f"p-{number}", f"q-{number}"]),
            pod_document(f"p-{number}", f"c-{number}"),
            pod_document(f"q-{number}", f"c-{number}"),
        ]
    return found


# At T0 nothing is due yet but what no toleration covers; those leave, the others wait.
EXPECTED = told_in_order(documents())


def test_the_story_has_pods_that_wait_and_pods_that_left():
    assert {name[2:] for name in EXPECTED.waiting} == {"1", "3"} and {n[2:] for n, _ in EXPECTED.left} == {
        "2"
    }


@settings(max_examples=60, deadline=None)
@given(st.permutations(documents()), st.integers(0, 2**32))
def test_any_order_of_events_ends_in_the_same_waiting(order, seed):
    story = told_in_order(order, random.Random(seed))
    assert (story.waiting, sorted(story.left)) == (EXPECTED.waiting, sorted(EXPECTED.left))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(documents()), max_size=25), st.integers(0, 2**32))
def test_events_told_twice_change_nothing(again, seed):
    story = told_in_order(documents())
    for document in again:
        for kind in (*KINDS, PODS):
            if (document["apiVersion"], document["kind"]) == (kind.api_version, kind.kind):
                found = story.listers.get(
                    kind, document["metadata"]["name"], document["metadata"].get("namespace", "")
                )
                story.keys += story.controller.changed(kind, found, found)
                story.keys += story.controller.changed(kind, None, found)
    story.work(random.Random(seed))
    assert (story.waiting, story.told, story.left) == (EXPECTED.waiting, EXPECTED.told, EXPECTED.left)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, len(documents()) - 1), min_size=1, max_size=8), st.integers(0, 2**32))
def test_what_is_taken_away_and_put_back_ends_as_if_nothing_had_been(indexes, seed):
    found = [d for d in documents() if d["kind"] in ("ResourceSlice", "DeviceTaintRule", "DeviceClass")]
    rng = random.Random(seed)
    story = told_in_order(documents())
    for index in indexes:
        story.listers.drop(found[index % len(found)])
        story.work(rng)
    for index in indexes:
        story.listers.put(found[index % len(found)])
        story.work(rng)
    assert story.waiting == EXPECTED.waiting


def test_every_pod_that_waits_leaves_at_its_time():
    story = told_in_order(documents()).until(3600)
    times = {name: at for name, at in story.left if at}
    assert times == {"p-1": 60, "q-1": 60, "p-3": 90, "q-3": 90}


def test_nobody_leaves_twice():
    story = told_in_order(documents()).until(3600)
    for document in documents():
        story.listers.put(document)
    story.work()
    names = [name for name, _ in story.left]
    assert len(names) == len(set(names))


# ── the claims' evictions, change by change ──────────────────────────────────────────────────────

slices = st.builds(
    lambda pool, generation, count, tainted: (
        f"s-{pool}-{generation}",
        slice_document(
            f"node-{pool}",
            {
                f"gpu-{n}": [taint("hot:NoExecute", timeAdded=ADDED)] if n in tainted else []
                for n in range(count)
            },
            generation=generation,
        ),
    ),
    st.integers(0, 1),
    st.integers(1, 2),
    st.integers(0, 2),
    st.sets(st.integers(0, 1)),
)
selectors = st.sampled_from(
    [
        None,
        {},
        {"driver": DRIVER},
        {"pool": "node-0"},
        {"device": "gpu-1"},
        {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].index > 0"}}]},
    ]
)
rules = st.builds(
    lambda number, effect, selector: (
        f"r-{number}",
        identified(rule_document(f"r-{number}", f"k:{effect}", selector, timeAdded=ADDED)),
    ),
    st.integers(0, 2),
    st.sampled_from(["NoExecute", "NoSchedule", "None"]),
    selectors,
)
claims = st.builds(
    lambda number, pool, unit, seconds: (
        f"default/c-{number}",
        claim_document(f"c-{number}", [(f"node-{pool}", f"gpu-{unit}")], [tolerate("k", seconds=seconds)]),
    ),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(0, 1),
    st.sampled_from([None, 5, 50]),
)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("slice"), slices, st.booleans()),
        st.tuples(st.just("rule"), rules, st.booleans()),
        st.tuples(st.just("claim"), claims, st.booleans()),
    ),
    min_size=8,
    max_size=30,
)
VIEWS = {"slice": ResourceSlice, "rule": DeviceTaintRule, "claim": ResourceClaim}


def put(model, what, name, document):
    if what == "slice" and document is not None:
        document["metadata"]["name"] = name
    view = read(VIEWS[what], document) if document is not None else None
    return getattr(model, f"put_{what}")(name, view, T0)


def whose(reason):
    """The rule, or the device of a driver's taint; the slice that publishes it may change without anybody caring."""
    origin = reason.taint.origin
    return origin.name if isinstance(origin, RuleOrigin) else origin.device


def content(model):
    return {
        key: (found.at, [(whose(r), r.taint.content, r.due) for r in found.reasons])
        for key, found in model.evictions.items()
    }


@settings(max_examples=tries(60, 150), deadline=None)
@given(changes)
def test_following_changes_is_the_same_as_looking_at_the_end(history):
    """The whole point of the model: what it keeps is what somebody would find who comes now."""
    model, state = ClaimEvictions(ALL_FEATURES), {}
    for what, (name, document), present in history:
        before = content(model)
        change = put(model, what, name, document if present else None)
        after = content(model)
        assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} <= set(
            change.claims
        )
        state[what, name] = document if present else None
    fresh = ClaimEvictions(ALL_FEATURES)
    for (what, name), document in state.items():
        put(fresh, what, name, document)
    assert content(model) == content(fresh)


def test_a_newer_generation_takes_the_old_ones_devices_away_and_gives_them_back():
    model = ClaimEvictions(ALL_FEATURES)
    put(model, "claim", "default/c", claim_document("c", [("node-0", "gpu-0")]))
    hot = {"gpu-0": [taint("hot:NoExecute", timeAdded=ADDED)]}
    tainted = put(model, "slice", "old", slice_document(devices=hot))
    cleared = put(model, "slice", "new", slice_document(devices={}, generation=2))
    back = put(model, "slice", "new", None)
    assert [change.claims for change in (tainted, cleared, back)] == [("default/c",)] * 3


@settings(max_examples=60, deadline=None)
@given(changes, selectors)
def test_the_dry_run_of_a_rule_foretells_what_the_commands_preview(history, selector):
    """`weir device drain` asks before there is a rule, the controller afterwards: they must say the same."""
    final = {(what, name): document for what, (name, document), present in history if present}
    others = [
        identified(document) if "uid" not in document["metadata"] else document
        for (what, name), document in final.items()
        if what != "rule" and not document["metadata"].update(name=name.rpartition("/")[2])
    ]
    for document in list(others):
        if document["kind"] == "ResourceClaim":
            name = document["metadata"]["name"]
            document["status"]["reservedFor"] = [
                {"resource": "pods", "name": f"p-{name}", "uid": f"u-p-{name}"}
            ]
            others.append(pod_document(f"p-{name}", name))
    rule = identified(rule_document("dry", "k:None", selector, timeAdded=ADDED))
    story = told_in_order([*others, rule])
    preview = Inventory.of(others, ALL_FEATURES).preview(read(DeviceTaintRule, rule), T0)
    published, held = story.controller.model.selected_by("dry")
    _, _, message = story.controller._dry_run(read(DeviceTaintRule, rule), story.listers, T0, 0)
    assert (published, len(set(held))) == (preview.published, preview.allocated)
    assert f" {len(preview.pods)} pod{'' if len(preview.pods) == 1 else 's'} would be evicted" in message


# ── turns ────────────────────────────────────────────────────────────────────────────────────────


def reason(number, rate=None, due=T0):
    tainted = DeviceTaint("k", "", "NoExecute", ADDED, rate)
    return Reason(TrackedTaint(tainted, RuleOrigin(f"r-{number}"), number), due)


def leave_all(turns, until=T0 + 10_000 * SECOND):
    now, left = T0, []
    while True:
        turn, again = turns.next(now)
        left += [(pod.name, (now - T0).total_seconds()) for pod in turn]
        if again is None or again > until:
            return left
        now = again


@given(st.integers(1, 200), st.integers(1, 50))
def test_pods_of_one_taint_leave_ten_at_once_and_then_by_its_rate(count, rate):
    turns = EvictionQueue()
    for number in range(count):
        turns.line_up(PodKey("d", f"p-{number:03}", "u"), Eviction(T0, (reason(1, rate),)), T0)
    left = leave_all(turns)
    expected = [(f"p-{n:03}", max(0, n - 9) / rate) for n in range(count)]
    assert [name for name, _ in left] == [name for name, _ in expected]
    assert all(abs(at - want) < 1e-4 for (_, at), (_, want) in zip(left, expected, strict=True))


@given(st.lists(st.sets(st.integers(1, 4), min_size=1), min_size=1, max_size=60), st.permutations(range(60)))
def test_grouping_gives_the_same_turns_as_asking_for_every_pod(reasons, order):
    """Asking only the first of each group is a shortcut; this is the long way round."""
    from weir.controllers.devices.eviction_queue import EvictionRate

    pods = [
        (PodKey("d", f"p-{n:02}", "u"), tuple(reason(i, i * 3) for i in sorted(r)))
        for n, r in enumerate(reasons)
    ]
    turns, rate = EvictionQueue(), EvictionRate()
    for index in (i for i in order if i < len(pods)):
        turns.line_up(pods[index][0], Eviction(T0, pods[index][1]), T0)
    slow, now, waiting = [], T0, list(pods)
    while waiting:
        again, rest = [], []
        for pod, because in waiting:
            wait = rate.admit(because, now)
            if wait is None:
                slow.append((pod.name, (now - T0).total_seconds()))
            else:
                again.append(wait)
                rest.append((pod, because))
        waiting = rest
        now = min(again) if again else now
    assert leave_all(turns) == slow


def test_who_leaves_the_line_takes_no_turn():
    turns = EvictionQueue()
    for number in range(12):
        turns.line_up(PodKey("d", f"p-{number:02}", "u"), Eviction(T0, (reason(1, 1),)), T0)
    for number in range(5):
        turns.leave(PodKey("d", f"p-{number:02}", "u"))
    assert [name for name, at in leave_all(turns) if not at] == [f"p-{n:02}" for n in range(5, 12)]


def test_asking_for_a_turn_when_nobody_waits_is_cheap():
    assert EvictionQueue().next(T0) == ([], None)


def test_keys_of_different_meaning_are_never_one_key():
    keys = {TURN, type(TURN)(), PodKey("", "x", ""), *(ObjectKey(kind, "x") for kind in KINDS)}
    assert len(keys) == 2 + len(KINDS)
