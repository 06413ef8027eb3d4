"""A current kubectl asks weir for what it asked a real server for, and prints what it printed there."""

from __future__ import annotations

import os

import pytest

from tests.golden.kubectl import current_kubectl, read_commands, replay
from tests.golden.recording import RECORDED
from tests.golden.report import Report

RECORDING = RECORDED / "kubectl.json"


async def test_every_recorded_command_does_the_same_against_weir(tmp_path):
    if not current_kubectl():
        if os.environ.get("CI"):
            pytest.fail("a built kubectl is not there")
        pytest.skip("a built kubectl is not there; tests/e2e covers the same ground")
    report = Report()
    await replay(RECORDING, tmp_path, report)
    assert (report.failed, len(report.passed)) == ({}, len(read_commands(RECORDING)))
