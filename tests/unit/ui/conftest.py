"""Screens of a dump, for tests that need no browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weir.inputs.live import ClusterSource
from weir.ui.screens import Screens
from weir.ui.source import open_source

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def screens_of() -> Callable[[Path], Screens]:
    """Return what opens the screens of a dump."""

    def give(path: Path) -> Screens:
        source = open_source(ClusterSource((str(path),)), {})
        source.start()
        return Screens(source, read_only=False)

    return give


@pytest.fixture
def fleet_screens(screens_of) -> Screens:
    return screens_of(EXAMPLES / "gpu-fleet.yaml")


@pytest.fixture
def dump(tmp_path, screens_of) -> Callable[..., Screens]:
    """Return what makes screens of the objects it is given."""

    def give(*documents: dict[str, Any]) -> Screens:
        path = tmp_path / "dump.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}))
        return screens_of(path)

    return give
