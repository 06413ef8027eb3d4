"""The recorded exchanges of a real API server, for tests of single functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.golden.recording import RECORDED


def exchanges() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every recorded exchange with its name, `area/name`."""
    for path in sorted(RECORDED.glob("*.json")):
        if path.name in ("index.json", "kubectl.json"):
            continue
        for exchange in json.loads(path.read_text("utf-8")):
            yield f"{path.stem}/{exchange['name']}", exchange


def body_of(exchange: dict[str, Any]) -> bytes:
    """Return the request body as it was sent."""
    body = exchange["request"].get("body")
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def timeless(entries: Any) -> list[str]:
    """Return the entries of managedFields as text, for their order counts, without the times."""
    return [
        json.dumps({key: value for key, value in entry.items() if key != "time"}) for entry in entries or ()
    ]
