"""Deletes DeviceTaintRules whose annotation `weir.dev/expires-at` has passed.

The annotation is written by `weir device taint --ttl`. Until then the rule's condition `Expires` announces the
deletion. Kubernetes has no such controller; docs/decisions/0074 says what the command does there. A time that cannot
be parsed deletes nothing and is reported by a warning event on the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from weir.client.api import APPLY_PATCH
from weir.client.cache import ObjectKey
from weir.client.events import ObjectReference
from weir.controllers.runtime.controller import Action, Controller, Delete, Patch, Record, WakeAt
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.gates import DEVICE_TAINT_RULES, Gates
from weir.objects.kind import Document, Kind
from weir.objects.kinds import by_kind
from weir.objects.times import TimeError, format_time, parse_time

RULES: Final = by_kind("resource.k8s.io/v1", "DeviceTaintRule")
EXPIRES_AT: Final = "weir.dev/expires-at"
CONDITION: Final = "Expires"


class DeviceTaintExpiry(Controller):
    """Removes rules that were meant to be there for a while only."""

    name = "device-taint-expiry-controller"

    def __init__(self, gates: Gates) -> None:
        self.kinds = (RULES,) if gates.enabled(DEVICE_TAINT_RULES) else ()

    def changed(self, kind: Kind, old: Document | None, new: Document | None) -> Iterator[ObjectKey]:
        """Look at rules that say when they expire."""
        if new is not None and _written(new):
            yield key_of(new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what becomes of one rule."""
        rule = listers.get(RULES, key.name)
        text = _written(rule) if rule is not None else ""
        if not text:
            return
        metadata = rule["metadata"]
        try:
            at = datetime.fromisoformat(parse_time(text))
        except (TimeError, ValueError):
            about = ObjectReference(
                "DeviceTaintRule", key.name, "", metadata.get("uid", ""), RULES.api_version
            )
            message = f"annotation {EXPIRES_AT}: {text!r} is no time; the rule stays"
            yield Record(about, "Warning", "InvalidExpiry", message)
            return
        if at <= now:
            yield Delete(RULES, key.name, uid=metadata["uid"])
            return
        message = f"The rule will be removed at {format_time(at)}."
        if not _is_reported(rule, message):
            condition = {
                "type": CONDITION,
                "status": "True",
                "reason": "TimeToLive",
                "message": message,
                "lastTransitionTime": format_time(now),
            }
            patch = {
                "apiVersion": RULES.api_version,
                "kind": "DeviceTaintRule",
                "metadata": {"name": key.name, "uid": metadata["uid"]},
                "status": {"conditions": [condition]},
            }
            yield Patch(
                RULES, key.name, "", patch, APPLY_PATCH, "status", field_manager=self.name, force=True
            )
        yield WakeAt(key, at)


def _written(rule: Document) -> str:
    return str((rule["metadata"].get("annotations") or {}).get(EXPIRES_AT, ""))


def _is_reported(rule: Document, message: str) -> bool:
    conditions = (rule.get("status") or {}).get("conditions") or ()
    return any(one["type"] == CONDITION and one.get("message") == message for one in conditions)
