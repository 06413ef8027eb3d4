"""The journal of a plan: what stands in it when it was cut off, and when it cannot be written."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from weir.plan.document import Made, Plan, PlanError, Totals, Wave
from weir.plan.journal import Journal

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLAN = Plan(
    schema="weir.plan/v1",
    made=Made(at="2026-03-01T12:00:00Z", command="weir plan"),
    waves=(Wave(number=1, nodes=("a",), changes=("cordon a",)),),
    totals=Totals(waves=1, nodes=1, moved_pods=0),
)


def test_a_line_that_was_cut_off_is_not_read_and_written_over(tmp_path):
    path = tmp_path / "plan.journal"
    Journal.open(path, PLAN, "here").note(NOW, 1, "begun")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    journal = Journal.open(path, PLAN, "here")
    assert (journal.to_undo(), path.read_bytes()) == ([1], whole + whole[: len(whole) // 2])
    journal.note(NOW, 1, "made")
    journal.note(NOW, 1, "reached")
    assert [each.step for each in Journal.open(path, PLAN, "here").entries] == ["begun", "made", "reached"]


def test_a_whole_line_that_is_none_of_a_journal_is_refused(tmp_path):
    path = tmp_path / "plan.journal"
    path.write_text('{"plan":\n')
    with pytest.raises(PlanError, match=r"plan\.journal:1: not a line"):
        Journal.open(path, PLAN, "here")


def test_what_could_not_be_written_was_not_done(tmp_path):
    journal = Journal.open(tmp_path / "no-such-folder" / "plan.journal", PLAN, "here")
    with pytest.raises(FileNotFoundError):
        journal.note(NOW, 1, "begun")
    assert journal.to_undo() == []
