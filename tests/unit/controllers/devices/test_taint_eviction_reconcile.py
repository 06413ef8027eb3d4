"""dra.md 7: the controller alone, key by key. What wakes it, whose turn it is, what it counts and what it says when."""

from __future__ import annotations

import pytest

from tests.unit.controllers.device_cluster import rule_document, slice_document, tolerate
from tests.unit.controllers.device_story import (
    ADDED,
    SECOND,
    T0,
    Story,
    claim_document,
    held_and_hit,
    identified,
    pod_document,
    told_in_order,
)
from weir.controllers.devices import taint_eviction
from weir.controllers.devices.eviction_queue import BURST, PodKey
from weir.controllers.devices.taint_eviction import RULES, EvictPod, ObjectKey
from weir.controllers.runtime.controller import Patch, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.pod_eviction import Evicted
from weir.objects.kinds import PODS
from weir.objects.kinds import RESOURCE_CLAIMS as CLAIMS
from weir.observe.logs import Log

MINUTE = 60 * SECOND


# ── which changes of a pod are looked at ─────────────────────────────────────────────────────────


def viewed(document):
    return Listers.of([document]).pod("default", "p")


def changed_to(**status):
    return {**pod_document("p", "c"), "status": {"phase": "Running", **status}}


def without_claims(uid="u-p", **spec):
    """A pod without claims, or the one that follows it under its name."""
    found = pod_document("p", "c")
    found["metadata"]["uid"] = uid
    found["spec"] = {"nodeName": "n", "containers": [], **spec}
    return found


WAITING = pod_document("p", "c")
WAITING["spec"] = {key: value for key, value in WAITING["spec"].items() if key != "nodeName"}
ANOTHER = pod_document("p", "c")
ANOTHER["metadata"] = {**ANOTHER["metadata"], "uid": "another"}
CLAIMED = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "c"}]}
EXTENDED = {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}


@pytest.mark.parametrize(
    "old, new, looked_at",
    [
        (None, pod_document("p", "c"), ["u-p"]),
        (pod_document("p", "c"), None, ["u-p"]),
        (pod_document("p", "c"), ANOTHER, ["u-p", "another"]),
        (WAITING, pod_document("p", "c"), ["u-p"]),
        (pod_document("p", "c"), changed_to(**CLAIMED), ["u-p"]),
        (without_claims(), {**without_claims(), "status": EXTENDED}, ["u-p"]),
        (pod_document("p", "c"), changed_to(phase="Pending"), []),
        (None, without_claims(), []),
        (without_claims(), without_claims("another"), []),
        (without_claims(), ANOTHER, ["another"]),
    ],
    ids=[
        "new",
        "gone",
        "replaced under its name",
        "got a node",
        "got a claim",
        "got a claim for extended resources",
        "says something else",
        "new, without claims",
        "replaced, without claims",
        "replaced by one with claims",
    ],
)
def test_a_pod_is_looked_at_when_it_comes_goes_or_gets_a_node_or_claims(old, new, looked_at):
    before, after = (viewed(each) if each is not None else None for each in (old, new))
    assert [key.uid for key in Story().controller.changed(PODS, before, after)] == looked_at


@pytest.mark.parametrize(
    "consumer, woken",
    [
        ({"resource": "pods", "name": "p", "uid": "u-p"}, [PodKey("default", "p", "u-p")]),
        ({"resource": "pods", "apiGroup": "example.com", "name": "p", "uid": "u-p"}, []),
        ({"resource": "trainings", "name": "p", "uid": "u-p"}, []),
    ],
)
def test_only_pods_leave_a_claim(consumer, woken):
    documents = held_and_hit()
    documents[1]["status"]["reservedFor"] = [consumer]
    story = Story()
    for document in (documents[0], documents[3], documents[1]):
        story.listers.put(document)
    while ObjectKey(CLAIMS, "c", "default") in story.keys[:-1]:
        story.keys.remove(ObjectKey(CLAIMS, "c", "default"))
    actions = []
    for key in story.keys:
        actions += story.controller.reconcile(key, story.listers, T0)
    assert [action.key for action in actions if isinstance(action, WakeAt)] == woken


# ── whose turn it is ─────────────────────────────────────────────────────────────────────────────


def crowd(count=BURST):
    """Pods that use the other device which the rule taints."""
    return [
        each
        for n in range(count)
        for each in (
            claim_document(f"d-{n}", [("node-0", "gpu-1")], (), [f"a-{n:02}"]),
            pod_document(f"a-{n:02}", f"d-{n}"),
        )
    ]


def one_a_second(seconds=None):
    documents = held_and_hit(seconds)
    documents[-1]["spec"]["taint"]["evictionsPerSecond"] = 1
    return documents


def second_of(story, name="p"):
    return dict(story.left)[name]


def wait_longer(story, seconds):
    story.listers.put(claim_document("c", [("node-0", "gpu-0")], (tolerate("k", seconds=seconds),), ["p"]))
    story.work()


def test_a_pod_that_is_gone_takes_no_turn():
    documents = one_a_second()
    story = told_in_order([*crowd(BURST + 1), *documents])
    assert len(story.left) == BURST and set(story.waiting) == {f"a-{BURST}", "p"}
    story.listers.drop(pod_document(f"a-{BURST}", f"d-{BURST}"))
    story.work()
    assert set(story.waiting) == {"p"}
    assert second_of(story.until(60)) == 1.0


def test_a_pod_whose_eviction_is_cancelled_takes_no_turn():
    documents = one_a_second()
    story = told_in_order([*crowd(BURST + 1), *documents])
    free = claim_document(f"d-{BURST}", [("node-0", "gpu-1")], (tolerate("k"),), [f"a-{BURST}"])
    story.listers.put(free)
    assert second_of(story.work().until(60)) == 1.0
    assert story.told == [(f"a-{BURST}", "Cancelling deletion")]


def test_a_pod_that_may_stay_longer_takes_no_turn_until_then():
    story = told_in_order([*crowd(BURST), *one_a_second()])
    wait_longer(story, 30)
    story.listers.put(claim_document("e", [("node-0", "gpu-1")], (), ["z"]))
    story.listers.put(pod_document("z", "e"))
    assert (second_of(story.work().until(60), "z"), second_of(story)) == (1.0, 30.0)


def with_a_turn_in_hand(documents):
    """A pod that had its turn; the server did not carry the deletion out."""
    story = Story()
    story.refused = {"p"}
    for document in documents:
        story.listers.put(document)
    story.work()
    assert (set(story.waiting), story.left) == ({"p"}, [])
    return story


def fill_the_line(story, second):
    """At *second* so many leave that the next one has to wait."""
    story.until(second)
    for document in crowd():
        story.listers.put(document)
    story.work()
    assert len(story.left) == BURST
    return story


def test_what_failed_is_tried_again_without_another_turn():
    story = with_a_turn_in_hand(one_a_second())
    fill_the_line(story, 20)
    story.refused = set()
    story.keys.append(PodKey("default", "p", "u-p"))
    assert second_of(story.work()) == 20.0


def test_a_turn_is_not_kept_for_a_later_time():
    story = with_a_turn_in_hand(one_a_second())
    wait_longer(story, 30)
    story.refused = set()
    fill_the_line(story, 29.999)
    assert second_of(story.until(60)) == pytest.approx(30.999, abs=0.002)


def test_a_turn_is_not_kept_for_another_eviction():
    documents = one_a_second()
    story = with_a_turn_in_hand(documents)
    wait_longer(story, None)
    assert (story.waiting, story.told) == ({}, [("p", "Cancelling deletion")])
    story.refused = set()
    fill_the_line(story, 20)
    story.listers.put(documents[1])
    assert second_of(story.work().until(60)) == 21.0


# ── what is counted ──────────────────────────────────────────────────────────────────────────────


def deleting(document):
    return {**document, "metadata": {**document["metadata"], "deletionTimestamp": ADDED}}


def test_a_deletion_whose_answer_was_lost_is_counted():
    documents = held_and_hit()
    story = with_a_turn_in_hand(documents)
    story.refused = set()
    story.listers.put(deleting(documents[2]))
    story.keys.append(PodKey("default", "p", "u-p"))
    assert story.work().left == [("p", 0.0)]
    assert story.until(10).said[-1] == (10.0, "Completed", "1 pod evicted since starting the controller.")


def test_a_pod_that_somebody_else_deletes_is_not_counted():
    documents = held_and_hit(seconds=60)
    story = told_in_order(documents)
    story.listers.put(deleting(documents[2]))
    story.keys.append(PodKey("default", "p", "u-p"))
    story.work().until(120)
    assert (story.left, story.waiting, story.told) == ([], {}, [])


def after(story, rules, outcome=Evicted.DELETED):
    action = EvictPod(PodKey("default", "p", "u-p"), T0, rules)
    return list(story.controller.carried_out(action, outcome, T0 + MINUTE))


@pytest.mark.parametrize(
    "rules, outcome, reported",
    [
        ((("r", "u-r"),), Evicted.DELETED, True),
        ((("r", "u-r"),), Evicted.GONE, False),
        ((("r", "the one before"),), Evicted.DELETED, False),
        ((("gone", "u-gone"),), Evicted.DELETED, False),
        ((), Evicted.DELETED, False),
    ],
)
def test_an_eviction_counts_for_the_rules_that_are_there(rules, outcome, reported):
    story = told_in_order([held_and_hit()[-1]])
    woken = [WakeAt(ObjectKey(RULES, "r"), T0 + MINUTE + 10 * SECOND)] if reported else []
    assert (after(story, rules, outcome), story.controller._stats["u-r"]) == (woken, int(reported))


def test_a_pod_that_was_seen_to_is_remembered_while_it_is_one_of_the_last(monkeypatch):
    monkeypatch.setattr(taint_eviction, "REMEMBERED", 2)
    story = told_in_order([*crowd(2), *held_and_hit()])
    assert [name for name, _ in story.left] == ["a-00", "a-01", "p"]
    story.keys += [PodKey("default", name, f"u-{name}") for name in ("a-01", "p")]
    assert len(story.work().left) == 3  # the copy does not show yet that they are being deleted
    story.keys.append(PodKey("default", "a-00", "u-a-00"))
    assert story.work().left[3:] == [("a-00", 0.0)]


def test_an_eviction_is_logged_at_the_second_level_with_its_rules(monkeypatch):
    lines = []
    monkeypatch.setattr(Log, "v", lambda self, level, sentence, **more: lines.append((level, sentence, more)))
    story = Story()
    after(story, (("r", "u-r"), ("s", "u-s")))
    after(story, ())
    sentence = "Evicted pod because of device taints"
    assert [(level, text, str(more["pod"]), more["rules"]) for level, text, more in lines] == [
        (2, sentence, "default/p", "r s"),
        (2, sentence, "default/p", None),
    ]


def test_expressions_of_claims_are_counted_as_the_controllers_own():
    metrics = ControllerMetrics()
    story = Story()
    story.controller.register_metrics(metrics)
    documents = held_and_hit(seconds=60)
    (result,) = documents[1]["status"]["allocation"]["devices"]["results"]
    result["tolerations"] = [{"expression": "taint.key == 'k'", "tolerationSeconds": 60}]
    for document in documents:
        story.listers.put(document)
    assert set(story.work().waiting) == {"p"}
    text = metrics.registry.render().decode()
    assert 'weir_cel_evaluations_total{cache="device-taint-eviction-controller",result="true"} ' in text
    assert 'weir_cel_evaluations_total{cache="device-taint-eviction-controller",result="true"} 0' not in text


# ── what a rule says, and when ───────────────────────────────────────────────────────────────────


def test_a_pod_that_comes_later_is_reported_ten_seconds_later():
    slices, claim, pod, rule = held_and_hit(seconds=60)
    story = told_in_order([slices, rule])
    assert story.said == [(0.0, "NotStarted", "")]
    story.until(30)
    story.listers.put(claim)
    story.listers.put(pod)
    story.work().until(59)
    assert story.said[1:] == [(40.0, "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")]


def test_an_eviction_is_reported_ten_seconds_later():
    documents = held_and_hit(seconds=60)
    story = told_in_order(documents).until(60)
    story.listers.put(deleting(documents[2]))
    assert story.work().until(100).said[1:] == [
        (10.0, "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace."),
        (70.0, "Completed", "1 pod evicted since starting the controller."),
    ]


def test_a_status_of_another_controller_before_is_corrected_when_its_ten_seconds_are_over():
    *_, rule = held_and_hit()
    condition = {
        "type": "EvictionInProgress",
        "status": "True",
        "reason": "PodsPendingEviction",
        "message": "5 pods need to be evicted in 1 namespace.",
        "observedGeneration": 1,
        "lastTransitionTime": "2025-12-31T23:59:57Z",
    }
    story = told_in_order([{**rule, "status": {"conditions": [condition]}}])
    assert story.said == []
    assert story.until(60).said == [(7.0, "NotStarted", "")]


def test_a_status_is_applied_whoever_wrote_it_before():
    story = Story()
    story.listers.put(held_and_hit()[-1])
    (patch,) = story.controller.reconcile(ObjectKey(RULES, "r"), story.listers, T0)
    assert isinstance(patch, Patch) and patch.force
    assert (patch.subresource, patch.field_manager, patch.patch["metadata"]) == (
        "status",
        "device-taint-eviction-controller",
        {"name": "r", "uid": "u-r"},
    )


def test_a_rule_that_cannot_be_read_does_nothing():
    *others, rule = held_and_hit()
    story = told_in_order([*others, {**rule, "spec": {"taint": {"key": 5}}}])
    assert (story.left, story.said) == ([], [])


# ── rules, claims and times that change ──────────────────────────────────────────────────────────


def test_a_rule_made_anew_under_its_name_begins_with_nothing_evicted():
    story = told_in_order(held_and_hit())
    rule = held_and_hit()[-1]
    assert (story.left, story.controller._stats) == ([("p", 0.0)], {"u-r": 1})
    again = {**rule, "metadata": {**rule["metadata"], "uid": "another"}}
    story.listers.put(again)
    story.work()
    assert (story.controller._stats["u-r"], story.controller._stats["another"]) == (0, 0)


def test_a_problem_of_a_rule_made_anew_is_reported_again():
    broken = rule_document(
        "r", selector={"selectors": [{"cel": {"expression": "device.nonsense("}}]}, timeAdded=ADDED
    )
    story = told_in_order([identified(slice_document("node-0", 1)), identified(broken)])
    assert len(story.told) == 1
    story.listers.put({**broken, "metadata": {**broken["metadata"], "uid": "another"}})
    story.work()
    assert [name for name, _ in story.told] == ["r", "r"]


def test_a_problem_of_a_rule_that_is_gone_already_is_not_told():
    fails = {"selectors": [{"cel": {"expression": "device.attributes['other.example.com'].size > 1"}}]}
    rule = identified(rule_document("r", selector=fails, timeAdded=ADDED))
    story = told_in_order([rule])
    story.listers.drop(rule)
    story.listers.put(identified(slice_document("node-0", 1)))
    story.keys.reverse()  # the slice is looked at first
    assert story.work().told == []


def test_an_eviction_that_moves_later_leaves_the_line():
    story = told_in_order(held_and_hit(seconds=60))
    assert [at for at, _ in story.waiting.values()] == [T0 + 60 * SECOND]
    story.listers.put(claim_document("c", [("node-0", "gpu-0")], (tolerate("k", seconds=600),), ["p"]))
    story.work().until(120)
    assert story.left == []
    story.until(700)
    assert story.left == [("p", 600.0)]


def test_an_eviction_that_moves_later_while_it_waits_for_its_turn_is_not_carried_out():
    story = told_in_order([*crowd(BURST + 3), *one_a_second()])
    assert "p" in story.waiting
    wait_longer(story, 600)
    story.until(60)
    assert "p" not in dict(story.left) and len(story.left) == BURST + 3


def test_a_claim_that_a_pod_gets_for_its_extended_resources_is_noticed():
    running = pod_document("p", "c")
    del running["spec"]["resourceClaims"]
    claim = claim_document("c", [("node-0", "gpu-0")], (), ["p"])
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-p", "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]
    story = told_in_order([held_and_hit()[0], held_and_hit()[-1], claim, running])
    assert story.left == []
    story.listers.put(
        {**running, "status": {"phase": "Running", "extendedResourceClaimStatus": {"resourceClaimName": "c"}}}
    )
    assert story.work().left == [("p", 0.0)]


def test_a_claim_that_is_no_longer_reserved_lets_its_pod_stay():
    story = told_in_order(held_and_hit(seconds=60))
    story.listers.put(claim_document("c", [("node-0", "gpu-0")], (tolerate("k", seconds=60),), []))
    story.work().until(120)
    assert (story.left, story.waiting) == ([], {})
    assert ("p", "Cancelling deletion") in story.told
