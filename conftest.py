"""What holds for the tests and for the examples in src's docstrings: what is searched, and what is compiled anew."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import suppress
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a fresh checkout, let each worker rewrite the assertions of its share of the files before all collect all.

    pytest keeps what it has rewritten beside the file, but workers that go through the files in the same order find
    nothing there: each would spend seven seconds on what one of them could have done.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    root = session.config.rootpath
    given = (root / each.partition("::")[0] for each in session.config.args)
    files = sorted(file for path in given if path.is_dir() for file in path.rglob("test_*.py"))
    left_out = tuple(root / each for each in session.config.getoption("ignore") or ())
    for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        if not file.is_relative_to(root) or any(file.is_relative_to(each) for each in left_out):
            continue
        with suppress(Exception, pytest.skip.Exception):  # collecting says what is wrong with it
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))
