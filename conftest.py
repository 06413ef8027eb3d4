"""What holds for the tests and for the examples in src's docstrings: what is searched, and what is compiled anew."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Search no module without an example: looking at every name of 1,400 modules takes every worker seconds."""
    collectors = yield
    if ">>>" in file_path.read_text(errors="replace"):
        return collectors
    return [each for each in collectors if not isinstance(each, DoctestModule)]


def pytest_configure(config: pytest.Config) -> None:
    """Leave weir's own modules as they are compiled already.

    pytest rewrites the assertions of whatever brings a plugin, and weir brings one: 850 modules of two seconds for
    every worker of a fresh checkout, none of which holds an assertion of a test.
    """
    getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set()).discard("weir")
