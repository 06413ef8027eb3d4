"""The sentences of a DeviceTaintRule's status, and when the next one may be written."""

from __future__ import annotations

import pytest

from tests.unit.devices.builders import T0, after
from weir.controllers.devices.taint_eviction_status import (
    TYPE,
    EvictionCounts,
    changed,
    dry_run,
    in_progress,
    other_effect,
    present,
    too_young,
)

NOON = "2026-01-01T12:00:00Z"
ONE, MANY = EvictionCounts(1, 1), EvictionCounts(3, 2)


def test_pods_are_counted_once_and_so_are_their_namespaces():
    assert EvictionCounts.of([("a", "p"), ("a", "q"), ("b", "p"), ("a", "p")]) == MANY
    assert EvictionCounts.of([]) == EvictionCounts() == EvictionCounts(0, 0)
    assert [each.where for each in (EvictionCounts(), ONE, MANY)] == [
        "0 different namespaces",
        "1 namespace",
        "2 different namespaces",
    ]


@pytest.mark.parametrize(
    "leaving, evicted, said",
    [
        (EvictionCounts(), 0, ("False", "NotStarted", "")),
        (EvictionCounts(), 1, ("False", "Completed", "1 pod evicted since starting the controller.")),
        (EvictionCounts(), 2, ("False", "Completed", "2 pods evicted since starting the controller.")),
        (ONE, 0, ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")),
        (
            MANY,
            1,
            (
                "True",
                "PodsPendingEviction",
                "3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.",
            ),
        ),
    ],
)
def test_a_rule_that_evicts_says_how_far_it_is(leaving, evicted, said):
    assert in_progress(leaving, evicted) == said


ONCE = " This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."


@pytest.mark.parametrize(
    "counts, leaving, sentences",
    [
        (
            (1, 0),
            ONE,
            "1 published device selected. 0 allocated devices selected. 1 pod would be evicted in 1 namespace",
        ),
        (
            (2, 1),
            MANY,
            "2 published devices selected. 1 allocated device selected. "
            "3 pods would be evicted in 2 different namespaces",
        ),
    ],
)
def test_a_dry_run_says_what_would_happen(counts, leaving, sentences):
    message = f"{sentences} if the effect was NoExecute.{ONCE}"
    assert dry_run(*counts, leaving, 0) == ("False", "NoEffect", message)
    more = " 4 pods evicted since starting the controller."
    assert dry_run(*counts, leaving, 4) == ("False", "NoEffect", message + more)


@pytest.mark.proves("5055-119")
def test_another_effect_evicts_nobody():
    assert other_effect(0) == ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")
    assert other_effect(1)[2].endswith("effect. 1 pod evicted since starting the controller.")


def test_the_condition_is_found_among_others():
    other, own = {"type": "Other"}, {"type": TYPE}
    assert present({"status": {"conditions": [other, own]}}) is own
    for none in ({}, {"status": None}, {"status": {"conditions": None}}, {"status": {"conditions": [other]}}):
        assert present(none) is None


@pytest.mark.parametrize(
    "condition, generation, seconds, again",
    [
        (None, 2, 0, None),
        ({"observedGeneration": 2, "lastTransitionTime": NOON}, 2, 0, 10),
        ({"observedGeneration": 2, "lastTransitionTime": NOON}, 2, 9.9, 10),
        ({"observedGeneration": 2, "lastTransitionTime": NOON}, 2, 10, None),
        ({"observedGeneration": 2, "lastTransitionTime": NOON}, 3, 0, None),
        ({"observedGeneration": 2}, 2, 0, None),
        ({"lastTransitionTime": NOON}, 0, 0, 10),
        ({"lastTransitionTime": NOON}, 1, 0, None),
    ],
)
def test_a_condition_of_the_same_generation_stays_for_ten_seconds(condition, generation, seconds, again):
    assert too_young(condition, generation, after(seconds)) == (None if again is None else after(again))


def test_only_what_is_new_is_written_with_its_time():
    said = in_progress(ONE, 0)
    written = changed(None, said, 1, T0)
    assert written == {
        "type": TYPE,
        "status": "True",
        "reason": "PodsPendingEviction",
        "message": "1 pod needs to be evicted in 1 namespace.",
        "observedGeneration": 1,
        "lastTransitionTime": NOON,
    }
    assert changed(written, said, 1, after(60)) is None
    assert changed(written, said, 2, after(60))["lastTransitionTime"] == "2026-01-01T12:01:00Z"
    assert changed(written, in_progress(ONE, 1), 1, after(60)) is not None
    assert changed({**written, "reason": "Other"}, said, 1, after(60)) is not None
    without = {
        name: value for name, value in changed(None, ("False", "NotStarted", ""), 1, T0).items() if value
    }
    assert changed(without, ("False", "NotStarted", ""), 1, T0) is None, "an empty message is an absent one"
