"""What every test may rely on: where recorded data lies, and that nothing is skipped unseen in CI."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

#: Recorded answers of a real Kubernetes and CEL vectors; not part of the repository.
TESTDATA = Path(os.environ.get("WEIR_TESTDATA", Path(__file__).parents[2] / "shared" / "testdata"))

settings.register_profile("weir", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weir")


@pytest.fixture(scope="session")
def testdata() -> Path:
    """The folder of recorded data; tests that need it are skipped with one line where it is absent."""
    if not TESTDATA.is_dir():
        pytest.skip(f"recorded data not found at {TESTDATA} (set WEIR_TESTDATA)")
    return TESTDATA


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skipped test is a failure: everything a test needs can be installed there."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("CI") or reporter is None or hasattr(session.config, "workerinput"):
        return
    skipped = reporter.stats.get("skipped", [])
    if skipped and exitstatus == pytest.ExitCode.OK:
        for report in skipped[:20]:
            reporter.write_line(f"skipped in CI, which is a failure: {report.nodeid}: {report.longrepr[-1]}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
