"""The recorded answers of a real API server are weir's answers."""

from __future__ import annotations

import os

import pytest

from tests.golden.__main__ import TESTDATA
from tests.golden.replay import replay_folder

GOLDEN = TESTDATA / "golden"


async def test_every_recorded_exchange_gets_the_recorded_answer():
    if not GOLDEN.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"no recordings at {GOLDEN}")
        pytest.skip(f"no recordings at {GOLDEN}; tests/unit/apiserver covers the same ground")
    report = await replay_folder(GOLDEN, commands=False)
    assert (report.failed, report.waiting, len(report.passed) > 530) == ({}, {}, True)
