"""The recorded exchanges of a real API server, for tests of single functions.

The folder comes from WEIR_TESTDATA, by default `shared/testdata` beside the checkout. Where it is absent the tests that
read it are skipped, except in CI, where it must be there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DEFAULT = Path(__file__).resolve().parents[4].parent / "shared" / "testdata"
FOLDER = Path(os.environ.get("WEIR_TESTDATA", DEFAULT)) / "golden"

needs_recordings = pytest.mark.skipif(
    not FOLDER.is_dir() and not os.environ.get("CI"), reason=f"no recorded exchanges in {FOLDER}"
)


def exchanges() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every recorded exchange with its name, `area/name`; nothing where there are none."""
    if not FOLDER.is_dir():
        return
    for path in sorted(FOLDER.glob("*.json")):
        if path.name in ("index.json", "kubectl.json"):
            continue
        for exchange in json.loads(path.read_text("utf-8")):
            yield f"{path.stem}/{exchange['name']}", exchange


def body_of(exchange: dict[str, Any]) -> bytes:
    """Return the request body as it was sent."""
    body = exchange["request"].get("body")
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def timeless(entries: Any) -> Any:
    """Return managedFields without the times."""
    return [{key: value for key, value in entry.items() if key != "time"} for entry in entries or ()]
