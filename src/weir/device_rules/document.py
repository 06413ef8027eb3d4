"""Devices as `weir device list -o json` and the page show them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from weir.devices.inventory import HeldTaint, Row
from weir.devices.origin import RuleOrigin
from weir.objects.times import format_time

#: The form of -o json and -o yaml (docs/reference/devices.schema.json).
SCHEMA = "weir.devices/v1"


def distinguishing_attributes(rows: Sequence[Row]) -> set[str]:
    """Return the attributes that say what kind of device it is: those that some devices of one driver share."""
    values: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, value in (row.device.attributes or {}).items() if row.device else ():
            values.setdefault((row.id.driver, name), []).append(str(value))
    kept = {name for (_, name), found in values.items() if len(found) == 1 or len(set(found)) < len(found)}
    return kept - {"index"}


def device_document(row: Row) -> dict[str, Any]:
    """Return one device as `-o json` writes it."""

    def written_taint(held: HeldTaint) -> dict[str, Any]:
        origin, found = held.tracked.origin, held.tracked.taint
        written = {
            "key": found.key,
            "value": found.value,
            "effect": found.effect,
            "timeAdded": found.time_added,
        }
        source = (
            {"rule": origin.name}
            if isinstance(origin, RuleOrigin)
            else {"slice": origin.slice, "index": origin.index}
        )
        return {
            **written,
            "origin": source,
            "tolerated": held.tolerated,
            "podsLeaveAt": _written(held.leave_at),
        }

    return {
        "device": str(row.id),
        "driver": row.id.driver,
        "pool": row.id.pool,
        "name": row.id.device,
        "node": row.node or None,
        "published": row.device is not None,
        "poolProblem": row.pool_problem or None,
        "attributes": dict(row.device.attributes or {}) if row.device else {},
        "capacity": dict(row.device.capacity or {}) if row.device else {},
        "taints": [written_taint(held) for held in row.taints],
        "claims": [
            {"claim": holder.claim, "request": holder.request, "pods": list(holder.pods)}
            for holder in row.holders
        ],
    }


def _written(at: datetime | None) -> str | None:
    return None if at is None else format_time(at)
