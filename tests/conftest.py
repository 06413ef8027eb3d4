"""What every test may rely on: property tests without deadlines, and no skipped test in CI."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, Phase, settings

#: `make test` tries the same cases every time; `make test-fresh` (and CI) tries others, twice as many or more (see
#: tests/cases.py), and prints their seed;
#: `make mutants` asks whether a property fails, not for which smallest case.
_ALWAYS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
#: What may be absent in CI too, with one line: a checkout is whole without it.
NOT_OURS = "not part of the repository"

settings.register_profile("weir", _ALWAYS, derandomize=True, max_examples=30)
settings.register_profile("fresh", _ALWAYS, print_blob=True, database=None)
settings.register_profile("mutants", _ALWAYS, derandomize=True, phases=[Phase.explicit, Phase.generate])
settings.load_profile("weir")


# Of ten thousand tests only those of whole clusters leave cycles behind: look for them as rarely as such a cluster does
# itself, not after each. That takes up to half of the collector's time away and makes a worker ninety megabytes larger.
gc.set_threshold(1_000_000, 50, 100)

# A run that was started in the background ignores Ctrl-C, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def no_collection():
    """Measure without the garbage collector, which walks through whatever earlier tests have left: up to a second."""
    gc.disable()
    yield
    gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take what collecting made, ten thousand tests, out of the collector's sight: it lives until the end.

    Collecting also imports `weir.cli.interrupts`, which leaves Ctrl-C to the system: a test may not end its worker so.
    """
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skipped test is a failure: every program a test needs can be installed there."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("CI") or reporter is None or hasattr(session.config, "workerinput"):
        return
    skipped = [report for report in reporter.stats.get("skipped", []) if NOT_OURS not in report.longrepr[-1]]
    if skipped and exitstatus == pytest.ExitCode.OK:
        for report in skipped[:20]:
            reporter.write_line(f"skipped in CI, which is a failure: {report.nodeid}: {report.longrepr[-1]}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
