"""Hostile requests of every kind at the operator's port: it stays small, and the API server is answered.

Five thousand a second for a minute, with a bound on the slowest review: make hostile-operator.
"""

from __future__ import annotations

from tests.hostile_operator import MOST_BYTES, run, traces


def test_strangers_take_no_memory_and_the_api_server_is_answered(tmp_path):
    report = run(tmp_path, 60.0, 2_000)
    assert sum(each.begun for each in report.sent) == 2_000
    assert all(each.written for each in report.sent)
    assert report.seconds and not report.failures
    assert report.most_bytes < MOST_BYTES and report.most_bytes - report.idle_bytes < 64 << 20
    assert traces(report) == []
