"""Numeric comparisons are counted once per distinct taint and toleration, by how they came out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS, Gates
from weir.objects.core import Taint, Toleration
from weir.taints.judge import TaintJudge
from weir.taints.operators import INTEGERS, VERSIONS, Outcome
from weir.taints.toleration import tolerates

pytestmark = pytest.mark.proves("5471-46", "5471-48", "5471-115", "5721-125")


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


OPERATORS = ("", "Equal", "Exists", "Gt", "Lt", "SemverGt")
VALUES = ("", "5", "6", "7", "06", "high", "6.0.0")
EFFECTS = ("NoSchedule", "NoExecute")
tolerations = st.builds(
    Toleration,
    st.sampled_from(["sla", "gpu", ""]),
    st.sampled_from(OPERATORS),
    st.sampled_from(VALUES),
    st.sampled_from((*EFFECTS, "")),
)
taints = st.builds(
    Taint, st.sampled_from(["sla", "gpu", "disk"]), st.sampled_from(VALUES), st.sampled_from(EFFECTS)
)


@given(st.lists(st.tuples(taints, st.lists(tolerations, max_size=3)), max_size=12), st.booleans())
def test_every_taint_is_judged_as_by_itself_whenever_it_came(steps, numeric):
    gates = Gates({"TaintTolerationComparisonOperators": numeric})
    judge, known = TaintJudge(gates), []
    for taint, asked in steps:
        number = judge.number(taint)
        if number == len(known):
            known.append(taint)
        assert judge.number(taint) == number and judge.taints[number] == taint
        plain = [any(tolerates(entry, each, gates) for entry in asked) for each in known]
        assert judge.tolerated(asked).tolist() == plain == judge.tolerated(asked).tolist()


@pytest.mark.proves("5471-43")
def test_what_is_known_is_not_compared_again():
    judge = TaintJudge(ALL_FEATURES)
    for value in ("5", "6"):
        judge.number(Taint("sla", value, "NoSchedule"))
    above, exists = Toleration("sla", "Gt", "5"), Toleration("sla", "Exists")
    assert judge.comparisons == 0
    judge.tolerated([above, exists])
    assert judge.comparisons == 4
    judge.tolerated([above, exists])
    assert judge.comparisons == 4
    judge.number(Taint("sla", "7", "NoSchedule"))
    judge.tolerated([exists])
    assert judge.comparisons == 5  # the new one alone


@pytest.mark.proves("5471-92")
def test_too_many_tolerations_are_judged_again_when_asked_about(monkeypatch):
    monkeypatch.setattr("weir.taints.judge.MOST_TOLERATIONS", 2)
    judge = TaintJudge(ALL_FEATURES)
    judge.number(Taint("a", "1", "NoSchedule"))
    first, second, third = (Toleration("a", "Gt", value) for value in "123")
    judge.tolerated([first, second])
    judge.tolerated([first, second])
    assert judge.comparisons == 2  # two have room
    judge.number(Taint("a", "2", "NoSchedule"))
    judge.tolerated([first])
    assert judge.comparisons == 3  # a known one grows, and pushes nobody out
    judge.tolerated([second])
    assert judge.comparisons == 4
    judge.tolerated([third])
    assert judge.comparisons == 6
    judge.tolerated([first])
    assert judge.comparisons == 8  # both others were forgotten


def test_what_is_forgotten_is_numbered_anew():
    judge = TaintJudge(ALL_FEATURES)
    for value in ("1", "2"):
        judge.number(Taint("a", value, "NoSchedule"))
    judge.forget()
    assert judge.taints == []
    assert judge.number(Taint("a", "2", "NoSchedule")) == 0
    assert judge.tolerated([Toleration("a", "Equal", "2")]).tolist() == [True]


def test_what_is_forgotten_is_no_answer_about_others():
    judge = TaintJudge(ALL_FEATURES)
    judge.number(Taint("a", "1", "NoSchedule"))
    assert judge.tolerated([Toleration("a", "Equal", "1")]).tolist() == [True]
    judge.forget()
    judge.number(Taint("a", "2", "NoSchedule"))
    assert judge.tolerated([Toleration("a", "Equal", "1")]).tolist() == [False]


def test_a_toleration_without_a_key_meets_each_taint_once():
    judge = judged(Toleration("", "Exists"))
    assert judge.comparisons == 4


def test_an_equal_number_is_neither_greater_nor_less():
    judge = TaintJudge(ALL_FEATURES)
    judge.number(Taint("sla", "900", "NoSchedule"))
    for operator in ("Gt", "Lt"):
        assert judge.tolerated([Toleration("sla", operator, "900")]).tolist() == [False]


def test_a_taint_that_cannot_be_read_is_kept_for_whoever_tells():
    above = Toleration("sla", "Gt", "900", "NoSchedule")
    assert list(judged(above).unreadable) == [
        (above, Taint("sla", "high", "NoSchedule"), Outcome.NOT_AN_INTEGER)
    ]
    assert not judged(Toleration("sla", "Gt", "900", "NoExecute")).unreadable


def test_a_toleration_that_cannot_be_read_is_told_of_once_with_the_first_taint_it_is_about():
    wrong = Toleration("sla", "Lt", "09", "NoSchedule")
    judge = judged(wrong)
    told = (wrong, Taint("sla", "800", "NoSchedule"), Outcome.TOLERATION_NOT_AN_INTEGER)
    assert list(judge.unreadable) == [told]
    judge.number(Taint("sla", "5", "NoExecute"))
    judge.tolerated([wrong])
    assert list(judge.unreadable) == [told]  # the new one has another effect


def test_a_version_or_an_expression_that_fails_is_kept_as_well():
    version, expression = (
        Toleration("sla", "SemverGt", "1.0.0"),
        Toleration(expression="int(taint.value) > 900"),
    )
    judge = TaintJudge(ALL_FEATURES)
    for value in ("950", "high"):
        judge.number(Taint("sla", value, "NoSchedule"))
    judge.tolerated([version])
    judge.tolerated([expression])
    assert [(entry, taint.value, outcome) for entry, taint, outcome in judge.unreadable] == [
        (version, "high", Outcome.NOT_A_VERSION),
        (expression, "high", Outcome.EXPRESSION_FAILED),
    ]


def test_of_many_that_cannot_be_read_64_are_kept():
    judge = TaintJudge(ALL_FEATURES)
    for value in range(70):
        judge.number(Taint("sla", f"v{value}", "NoSchedule"))
    judge.tolerated([Toleration("sla", "Gt", "900")])
    assert [taint.value for _, taint, _ in judge.unreadable] == [f"v{value}" for value in range(64)]


@pytest.mark.proves(
    "5471-14",
    "5471-46",
    "5471-47",
    "5471-82",
    "5471-90",
    "5471-124",
    "5721-10",
    "5721-30",
    "5721-31",
    "5721-94",
)
@pytest.mark.parametrize("operator", ["Equal", "Exists"])
def test_a_taint_is_read_as_a_number_or_a_version_by_comparisons_only(operator, monkeypatch):
    read = []
    monkeypatch.setattr("weir.taints.judge.parse_integer", lambda text: read.append(text) or int(text))
    for scale in (INTEGERS, VERSIONS):
        parse = scale.parse
        monkeypatch.setitem(
            scale.__dict__, "parse", lambda text, parse=parse: read.append(text) or parse(text)
        )
    made = []
    for gates in (ALL_FEATURES, KUBERNETES_DEFAULTS):
        judge = TaintJudge(gates)
        for value in ("800", "950"):
            judge.number(Taint("sla", value, "NoSchedule"))
        judge.tolerated([Toleration("sla", operator, "800" if operator == "Equal" else "")])
        made.append(judge.comparisons)
    assert (made, read) == ([2, 2], [])
    judge = TaintJudge(ALL_FEATURES)
    judge.number(Taint("sla", "800", "NoSchedule"))
    judge.tolerated([Toleration("sla", "Gt", "700"), Toleration("sla", "SemverGt", "1.0.0")])
    assert sorted(read) == ["1.0.0", "700", "800", "800"]
