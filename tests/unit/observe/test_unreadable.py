"""Claims about weir.observe.unreadable: an administrator hears of each value nobody can read, once."""

import logging

import pytest

from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import Taint, Toleration
from weir.observe.logs import Log, ObjectRef
from weir.observe.unreadable import AGAIN_SECONDS, MOST_PAIRS, UnreadableValues
from weir.taints import expression
from weir.taints.expression import Expressions

pytestmark = pytest.mark.proves("5471-77", "5721-40", "5721-77")

OFF = Gates({"TaintTolerationComparisonOperators": False})
POD = ObjectRef("default", "web")


@pytest.fixture
def told(caplog):
    """Look once, and return the lines that came of it as (level, sentence, fields)."""
    caplog.set_level(logging.INFO, "weir")
    values = UnreadableValues(Log("weir.scheduler"))

    def look(toleration, *taints, now=0.0, gates=ALL_FEATURES):
        caplog.clear()
        values.look([toleration], taints, gates, None, now=now, pod=POD, node="n1")
        return [(each.levelname, each.message, each.weir_fields) for each in caplog.records]

    return look


@pytest.mark.parametrize(
    ("toleration", "value", "sentence"),
    [
        (Toleration("sla", "Gt", "900"), "high", "failed to parse taint value as int64"),
        (Toleration("sla", "Lt", "900"), "0950", "failed to parse taint value as int64"),
        (Toleration("sla", "Gt", "x"), "1", "failed to parse toleration value as int64"),
        (Toleration("sla", "SemverLt", "1.0.0"), "abc", "failed to parse taint value as semantic version"),
        (Toleration("sla", "SemverEq", "x"), "1.0.0", "failed to parse toleration value as semantic version"),
        (Toleration(expression="semver(taint.value).major() > 1"), "abc", "CEL expression failed for taint"),
    ],
)
def test_each_kind_of_trouble_has_its_sentence_at_the_level_error(told, toleration, value, sentence):
    ((level, said, fields),) = told(toleration, Taint("sla", value, "NoSchedule"))
    assert (level, said) == ("ERROR", sentence)
    assert fields["err"] and fields["pod"] == POD and fields["node"] == "n1" and fields["key"] == "sla"


def test_a_failed_expression_is_named_with_its_error(told):
    text = "semver(taint.value).major() > 1"
    ((_, _, fields),) = told(Toleration(expression=text), Taint("sla", "abc", "NoSchedule"))
    assert fields["expression"] == text and "Major.Minor.Patch" in fields["err"]


@pytest.mark.parametrize(
    ("toleration", "value"),
    [
        (Toleration("sla", "Gt", "900"), "800"),  # an ordinary mismatch
        (Toleration("sla", "Equal", "high"), "low"),
        (Toleration("other", "Gt", "1"), "high"),
        (Toleration(expression="taint.key == 'x'"), "high"),
    ],
)
def test_a_mismatch_is_no_trouble(told, toleration, value):
    assert told(toleration, Taint("sla", value, "NoSchedule")) == []


def test_with_the_gate_off_nothing_is_compared(told):
    assert told(Toleration("sla", "Gt", "900"), Taint("sla", "high", "NoSchedule"), gates=OFF) == []


def test_the_same_is_told_again_only_after_a_while(told):
    pair = Toleration("sla", "Gt", "900"), Taint("sla", "high", "NoSchedule")
    counts = [
        len(told(*pair, now=now)) for now in (0, 1, AGAIN_SECONDS - 1, AGAIN_SECONDS, AGAIN_SECONDS + 1)
    ]
    assert counts == [1, 0, 0, 1, 0]


def test_what_was_told_is_remembered_within_a_bound(told):
    toleration = Toleration("sla", "Gt", "900")
    taints = [Taint("sla", f"x{n}", "NoSchedule") for n in range(MOST_PAIRS + 10)]
    assert len(told(toleration, *taints)) == len(taints)
    assert len(told(toleration, taints[-1])) == 0 and len(told(toleration, taints[0])) == 1


@pytest.mark.parametrize("given", [True, False], ids=["evaluator given", "none given"])
def test_a_failed_expression_is_evaluated_in_the_components_own_cache_alone(given, caplog, monkeypatch):
    own, others = Expressions(), Expressions()
    monkeypatch.setattr(expression, "shared", lambda: others)
    caplog.set_level(logging.INFO, "weir")
    values = UnreadableValues(Log("weir.scheduler"), own)
    failing = Toleration(expression="semver(taint.value).major() > 1")
    taints = [Taint("sla", "abc", "NoSchedule")]
    evaluate = own.evaluate if given else None
    values.look([failing], taints, ALL_FEATURES, evaluate, now=0.0, pod=POD, node="n1")
    assert caplog.records and any(own.counts.values()) and len(own.programs) > 0
    assert not any(others.counts.values()) and len(others.programs) == 0
