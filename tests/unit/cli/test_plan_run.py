"""`weir plan run` that is interrupted, or fails, while a wave is compared with the cluster: nothing of it is made."""

from __future__ import annotations

import pytest

from tests.unit.plan.test_journal import PLAN
from weir.cli._plan_run import Run
from weir.client.api import Unreachable
from weir.clock import RealClock
from weir.exit_codes import INTERRUPTED
from weir.inputs.live import Live
from weir.plan.journal import Journal


@pytest.fixture
def work(tmp_path):
    journal = Journal.open(tmp_path / "plan.yaml.journal", PLAN, "here")
    return Run("plan.yaml", PLAN, Live(), journal, RealClock(), None, "weir plan run plan.yaml")


def test_ctrl_c_while_a_wave_is_compared_stops_before_it(work, monkeypatch, capsys):
    monkeypatch.setattr(work, "_compare", lambda *_: setattr(work, "stopping", True) or [])
    assert work.carry_out(PLAN.waves, {1: ()}) == INTERRUPTED
    assert "stopped before wave 1: nothing of it was made" in capsys.readouterr().err
    assert work.journal.entries == []


def test_a_cluster_out_of_reach_stops_a_plan_and_says_how_to_go_on(work, monkeypatch, capsys):
    def unreachable(*_):
        raise Unreachable("connection refused")

    monkeypatch.setattr(work, "_compare", lambda *_: [])
    monkeypatch.setattr(Live, "run", unreachable)
    with pytest.raises(Unreachable):
        work.carry_out(PLAN.waves, {1: ()})
    said = capsys.readouterr().err
    assert "stopped in wave 1: what it changed stays" in said
    assert "go on: weir plan run plan.yaml --resume; take back: weir plan run plan.yaml --undo" in said
    assert [each.step for each in work.journal.entries] == ["begun", "stopped"]
