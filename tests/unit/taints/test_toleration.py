"""Tolerations against taints: the worked examples, and the laws behind them."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weir.gates import ALL_FEATURES
from weir.objects.core import Taint, Toleration, read
from weir.taints.eviction import stay
from weir.taints.operators import Outcome
from weir.taints.toleration import compares, find_tolerating, tolerates, untolerated

pytestmark = pytest.mark.proves("5471-81", "1.35-3")

VECTORS = yaml.safe_load((Path(__file__).parents[2] / "vectors" / "tolerations.yaml").read_text())


def gates_of(vector):
    settings = dict(item.split("=") for item in vector.get("gates", "").split(",") if item)
    return ALL_FEATURES.replace({name: value == "true" for name, value in settings.items()})


def tolerations_of(vector):
    entries = vector.get("tolerations") or [vector["toleration"]]
    return [read(Toleration, {"key": "k", **entry}) for entry in entries]


def taint_of(vector):
    return read(Taint, {"key": "k", "effect": "NoSchedule", **vector["taint"]})


@pytest.mark.proves(
    "5471-2",
    "5471-7",
    "5471-66",
    "5471-67",
    "5721-2",
    "5721-7",
    "5721-12",
    "5721-52",
    "5721-78",
    "5721-88",
    "5500-5",
    "5500-10",
    "5500-11",
    "1.35-8",
    "1.35-9",
)
@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: str(v["n"]))
def test_the_worked_examples_match_or_not_as_written(vector):
    found = find_tolerating(tolerations_of(vector), taint_of(vector), gates_of(vector))
    assert (found is not None) == vector["match"]


@pytest.mark.proves("5471-38", "5721-21", "5721-37", "5721-44")
@pytest.mark.parametrize("vector", [v for v in VECTORS if "outcome" in v], ids=lambda v: str(v["n"]))
def test_a_refusal_says_why(vector):
    (toleration,) = tolerations_of(vector)
    assert tolerates(toleration, taint_of(vector), gates_of(vector)) is Outcome[vector["outcome"]]


@pytest.mark.parametrize("vector", [v for v in VECTORS if "stay" in v], ids=lambda v: str(v["n"]))
def test_a_matching_toleration_lasts_for_its_seconds(vector):
    limit = stay([taint_of(vector)], tolerations_of(vector), gates_of(vector)).limit
    assert limit is not None and limit.total_seconds() == vector["stay"]


int64s = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.proves("5471-2", "5471-11")
@given(limit=int64s, value=int64s)
def test_gt_and_lt_split_every_pair_of_different_values(limit, value):
    taint = Taint("k", str(value), "NoSchedule")
    verdicts = [bool(tolerates(Toleration("k", op, str(limit)), taint, ALL_FEATURES)) for op in ("Gt", "Lt")]
    assert sum(verdicts) == (limit != value)


@pytest.mark.proves("5471-38", "5471-76", "5721-21", "5721-44")
@given(op=st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "SemverLt", "SemverGt", "SemverEq", "Other"]),
       asked=st.text(max_size=12), found=st.text(max_size=12))  # fmt: skip
def test_no_value_ever_raises(op, asked, found):
    assert isinstance(
        tolerates(Toleration("k", op, asked), Taint("k", found, "NoExecute"), ALL_FEATURES), Outcome
    )


@pytest.mark.parametrize(
    "toleration, reads",
    [
        (Toleration("k", "Gt", "1"), True),
        (Toleration("k", "SemverEq", "1.0.0"), True),
        (Toleration(expression="true"), True),
        (Toleration("k", "Equal", "1"), False),
        (Toleration("k", "Exists"), False),
    ],
)
def test_only_what_reads_a_value_may_meet_one_it_cannot_read(toleration, reads):
    assert compares(toleration) is reads


class TestLists:
    """Section "List-level helpers": OR over entries, the first tolerating entry decides."""

    a, b = Taint("a", "1", "NoSchedule"), Taint("b", "2", "PreferNoSchedule")

    def test_untolerated_keeps_the_order_and_only_the_asked_effects(self):
        assert untolerated([self.a, self.b], [], ALL_FEATURES) == [self.a]

    def test_the_first_tolerating_entry_of_each_taint_is_used(self):
        wide, narrow = Toleration("", "Exists"), Toleration("a", "Equal", "1")
        assert find_tolerating([narrow, wide], self.a, ALL_FEATURES) == narrow
        assert find_tolerating([narrow, wide], self.b, ALL_FEATURES) == wide
        assert find_tolerating([narrow], self.b, ALL_FEATURES) is None


class TestStay:
    """Section "Taint eviction": the shortest time of the entries used, zero when a taint has none."""

    flaky, slow = Taint("flaky", "2", "NoExecute"), Taint("slow", "", "NoExecute")

    def test_without_noexecute_taints_a_pod_stays_for_ever(self):
        assert stay([Taint("x", "", "NoSchedule")], [], ALL_FEATURES).for_ever

    def test_an_untolerated_taint_leaves_no_time(self):
        assert stay([self.flaky], [], ALL_FEATURES).limit.total_seconds() == 0

    def test_two_taints_take_the_shorter_time(self):
        entries = [Toleration("flaky", "Exists", "", "", 60), Toleration("slow", "Exists", "", "", 10)]
        assert stay([self.flaky, self.slow], entries, ALL_FEATURES).limit.total_seconds() == 10

    def test_of_equal_times_the_first_taint_decides(self):
        entries = [Toleration("", "Exists", "", "", 60)]
        assert stay([self.flaky, self.slow], entries, ALL_FEATURES).taint == self.flaky

    def test_a_taint_tolerated_for_ever_shortens_no_time(self):
        entries = [Toleration("flaky", "Exists"), Toleration("slow", "Exists", "", "", 10)]
        found = stay([self.flaky, self.slow], entries, ALL_FEATURES)
        assert (found.limit.total_seconds(), found.taint) == (10, self.slow)
        assert stay([self.flaky], entries, ALL_FEATURES).for_ever

    def test_only_the_first_matching_entry_counts(self):
        entries = [Toleration("flaky", "Exists", "", "", 30), Toleration("flaky", "Exists")]
        assert stay([self.flaky], entries, ALL_FEATURES).limit.total_seconds() == 30

    def test_negative_seconds_are_zero_and_huge_ones_do_not_overflow(self):
        times = [
            stay([self.flaky], [Toleration("flaky", "Exists", "", "", seconds)], ALL_FEATURES).limit
            for seconds in (-5, 2**62)
        ]
        assert times[0].total_seconds() == 0 and times[1].days > 10**6
