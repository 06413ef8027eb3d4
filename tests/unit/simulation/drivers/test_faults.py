"""What holds for a simulated device at which time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.simulation.drivers.faults import Condition, FaultError, condition, read_fault

T0 = datetime(2026, 1, 1, tzinfo=UTC)
HOT = {"device": "gpu-0", "taint": "hot=1:NoSchedule"}


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def holds(seconds: float, *entries: dict[str, object]) -> Condition:
    return condition([read_fault(entry, T0) for entry in entries], at(seconds))


def values(found: Condition, device: str = "gpu-0") -> list[str]:
    return [f"{t['key']}={t.get('value', '')}" for t in found.taints.get(device, ())]


def test_a_fault_holds_from_its_beginning_to_its_end():
    fault = {**HOT, "afterSeconds": 10, "forSeconds": 5}
    assert [bool(holds(s, fault).taints) for s in (9, 10, 14, 15)] == [False, True, True, False]


def test_the_next_change_is_known_before_it_comes():
    fault = {**HOT, "afterSeconds": 10, "forSeconds": 5}
    assert [holds(s, fault).changes_at for s in (0, 10, 15)] == [at(10), at(15), None]


def test_an_error_budget_counts_down_and_stops_at_nothing_left():
    fault = {"device": "gpu-0", "taint": "budget=3:NoSchedule", "step": -2, "everySeconds": 60}
    assert [values(holds(s, fault)) for s in (0, 59, 60, 120)] == [
        ["budget=3"],
        ["budget=3"],
        ["budget=1"],
        ["budget=0"],
    ]
    assert [holds(s, fault).changes_at for s in (0, 60, 120)] == [at(60), at(120), None]


def test_a_later_fault_of_the_same_key_and_effect_takes_the_place_of_the_first():
    worse = {"device": "gpu-0", "taint": "hot=2:NoSchedule", "afterSeconds": 5}
    other = {"device": "gpu-0", "taint": "hot=2:NoExecute", "afterSeconds": 5}
    assert values(holds(5, HOT, worse, other)) == ["hot=2", "hot=2"]


def test_a_repair_takes_back_what_began_before_it_and_nothing_else():
    again = {**HOT, "afterSeconds": 20}
    repair = {"device": "gpu-0", "repaired": "", "since": "2026-01-01T00:00:10Z"}
    assert [len(holds(s, HOT, again, repair).taints) for s in (5, 10, 20)] == [1, 0, 1]


def test_a_repair_of_one_key_leaves_the_others():
    cold = {"device": "gpu-0", "taint": "cold:NoSchedule"}
    assert values(holds(1, HOT, cold, {"device": "gpu-0", "repaired": "hot", "afterSeconds": 1})) == ["cold="]


def test_a_repaired_pool_has_all_its_devices_again():
    gone = {"device": "gpu-3", "unplugged": True}
    broken = {"device": "pool", "broken": "wrong-count"}
    before, after = (
        holds(0, gone, broken),
        holds(1, gone, broken, {"device": "pool", "repaired": "", "afterSeconds": 1}),
    )
    assert (before.unplugged, before.broken, after.unplugged, after.broken) == (
        {"gpu-3"},
        "wrong-count",
        set(),
        "",
    )


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (7, "is no fault"),
        ({}, "device: the name of a device is needed"),
        ({"device": "gpu-0"}, "exactly one of taint, unplugged, broken, repaired"),
        ({**HOT, "unplugged": True}, "exactly one of"),
        ({"device": "gpu-0", "taint": "hot"}, "is no taint"),
        ({"device": "gpu-0", "taint": {"key": "hot"}}, "needs a key and an effect"),
        ({**HOT, "afterSeconds": -1}, "afterSeconds: -1 is no number"),
        ({**HOT, "forSeconds": "x"}, "forSeconds: 'x'"),
        ({**HOT, "since": "yesterday"}, "since: 'yesterday' is no time"),
        ({**HOT, "often": 3}, "unknown field 'often'"),
        ({**HOT, "step": -1}, "everySeconds: a value that counts"),
        ({**HOT, "step": 0, "everySeconds": 5}, "step: 0"),
        ({"device": "gpu-0", "taint": "hot=x:None", "step": 1, "everySeconds": 5}, "'x' is no number"),
        ({"device": "gpu-0", "broken": "wrong-count"}, "broken: 'wrong-count'"),
        ({"device": "pool", "broken": "badly"}, "broken: 'badly'"),
        ({"device": "gpu-0", "repaired": 3}, "repaired: a taint key"),
        ({"device": "gpu-0", "unplugged": False}, "only true means something"),
    ],
)
def test_what_cannot_be_a_fault_says_why(document: object, said: str):
    with pytest.raises(FaultError, match=said.replace("(", r"\(")):
        read_fault(document, T0)


FAULTS = st.builds(
    lambda device, kind, after, lasts: {
        "device": device,
        **kind,
        "afterSeconds": after,
        **({"forSeconds": lasts} if lasts and "repaired" not in kind else {}),
    },
    st.sampled_from(["gpu-0", "gpu-1"]),
    st.sampled_from(
        [
            {"taint": "a=9:NoSchedule"},
            {"taint": "a=9:NoSchedule", "step": -2, "everySeconds": 3},
            {"taint": "b=1:NoExecute"},
            {"unplugged": True},
            {"repaired": ""},
            {"repaired": "a"},
        ]
    ),
    st.integers(0, 30),
    st.integers(0, 20),
)


@given(st.lists(FAULTS, max_size=6), st.integers(0, 40))
def test_nothing_changes_before_the_time_that_was_told(faults, second):
    """Between now and `changes_at` the same holds; there is no need to look in between."""
    now = holds(second, *faults)
    end = now.changes_at or at(100)
    assert end > at(second)
    between = at(second) + (end - at(second)) * 0.999
    later = condition([read_fault(entry, T0) for entry in faults], between)
    assert (later.taints, later.unplugged) == (now.taints, now.unplugged)
