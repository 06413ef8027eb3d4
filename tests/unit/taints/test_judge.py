"""Numeric comparisons are counted once per distinct taint and toleration, by how they came out."""

from weir.gates import ALL_FEATURES
from weir.objects.core import Taint, Toleration
from weir.taints.judge import TaintJudge


def judged(*tolerations):
    judge = TaintJudge(ALL_FEATURES)
    for value, effect in (
        ("800", "NoSchedule"),
        ("950", "NoSchedule"),
        ("high", "NoSchedule"),
        ("990", "NoExecute"),
    ):
        judge.number(Taint("sla", value, effect))
    for _ in range(3):  # asked again, nothing is compared again
        judge.tolerated(tolerations)
    return judge


def test_each_result_is_counted_once():
    judge = judged(Toleration("sla", "Gt", "900", "NoSchedule"))
    assert judge.numeric == {("Gt", "match"): 1, ("Gt", "no_match"): 1, ("Gt", "parse_error"): 1}


def test_a_toleration_that_cannot_be_read_is_a_parse_error_for_every_taint():
    assert judged(Toleration("sla", "Lt", "09")).numeric == {("Lt", "parse_error"): 4}


def test_a_taint_that_appears_later_is_the_only_one_compared():
    judge = judged(Toleration("sla", "Gt", "900"))
    judge.number(Taint("sla", "999", "NoSchedule"))
    before = judge.numeric["Gt", "match"]
    judge.tolerated([Toleration("sla", "Gt", "900")])
    assert judge.numeric["Gt", "match"] == before + 1
