"""Fixtures of the tests of CEL."""

from __future__ import annotations

import pytest

from weir.cel.work import begin


@pytest.fixture(autouse=True)
def _work() -> None:
    """Give a test that calls functions outside of an evaluation work for all of its examples."""
    begin(10**9)
