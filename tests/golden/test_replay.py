"""The recorded answers of a real API server are weir's answers."""

from __future__ import annotations

from tests.golden.recording import RECORDED
from tests.golden.replay import replay_folder


async def test_every_recorded_exchange_gets_the_recorded_answer():
    report = await replay_folder(RECORDED, commands=False)
    assert (report.failed, report.waiting, len(report.passed) > 530) == ({}, {}, True)
