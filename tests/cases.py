"""How many cases a property is tried on, and how much of a table a test asks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar
from zlib import crc32

import pytest
from hypothesis import settings

#: A test of a table that takes minutes as a whole: `make test` asks a sample of it, `make test-fresh` all.
table = pytest.mark.table
T = TypeVar("T")


def tries(usual: int, fresh: int) -> int:
    """Return *usual* for `make test`, whose cases are the same every time, and *fresh* where others are tried.

    `make test-fresh`, which CI runs, and `make mutants` try the greater number.
    """
    return usual if settings.get_current_profile_name() == "weir" else fresh


def sample(cases: Iterable[T], step: int, salt: str = "") -> list[T]:
    """Return every *step*-th of *cases*, beginning where *salt* says, for `make test`; all of them elsewhere."""
    return list(
        islice(cases, crc32(salt.encode()) % step if salt else 0, None, step) if tries(1, 0) else cases
    )
