"""Validation of Event, core/v1 and events.k8s.io/v1.

Spec: upstream's rules for events of core/v1 and events.k8s.io/v1: the newer group requires more. An event must be in
the namespace of the object it is about.
"""

from __future__ import annotations

from typing import Any, Final

from weir.fields.field import Context, Document, Errors, invalid, present, required
from weir.fields.meta import IMMUTABLE, same, validate_generic_meta, validate_meta
from weir.validate.gonames import go_struct
from weir.values.names import byte_length, check_label_key, check_path_segment

_REASON_MAX: Final = 128
_ACTION_MAX: Final = 128
_NOTE_MAX: Final = 1024
#: field of the newer group → what the server calls it inside
_OLD_WAYS: Final = {
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "deprecatedSource": "source",
}
#: Fields the newer group calls by another name than the server does inside.
_INTERNAL: Final = {"regarding": "involvedObject", "note": "message"}
_KEPT: Final = (
    "involvedObject",
    "regarding",
    "reason",
    "action",
    "related",
    "reportingController",
    "reportingInstance",
    "note",
    "type",
    "eventTime",
)


def validate_event(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with an Event."""
    modern = str(new.get("apiVersion") or "").startswith("events.k8s.io/")
    about: dict[str, Any] = new.get("involvedObject") or new.get("regarding") or {}
    namespace = (new.get("metadata") or {}).get("namespace") or ""
    wanted = about.get("namespace") or ""
    timed = bool(new.get("eventTime"))
    if not wanted:
        if namespace not in ("", "default") and not (timed and namespace == "kube-system"):
            yield invalid("involvedObject.namespace", wanted, "does not match event.namespace")
    elif namespace != wanted and not timed and not (context.raw and not namespace):
        yield invalid("involvedObject.namespace", wanted, "does not match event.namespace")
    if timed:
        yield from _validate_reporter(new, "reportingController" if modern else "reportingComponent")
    if not modern:
        if namespace and (wanted or "default") == namespace:
            yield from validate_generic_meta(new, old, context, check_path_segment)
        return
    yield from validate_meta(new, old, context)
    if old is None:
        yield from _validate_modern(new)
    else:
        for name in _KEPT:
            if not same(new.get(name), old.get(name)):
                yield invalid(_INTERNAL.get(name, name), _shown(new.get(name)), IMMUTABLE)


def _shown(value: Any) -> Any:
    return go_struct("ObjectReference", value) if isinstance(value, dict) else value or ""


def _validate_reporter(event: Document, field: str) -> Errors:
    """Yield errors about the reporting fields of an event with an eventTime; *field* names the reporter."""
    controller = event.get("reportingController") or event.get("reportingComponent") or ""
    yield from present(field, controller)
    for message in check_label_key(controller):
        yield invalid(field, controller, message)
    for name, limit in (
        ("reportingInstance", _ACTION_MAX),
        ("action", _ACTION_MAX),
        ("reason", _REASON_MAX),
    ):
        text = event.get(name) or ""
        if not text:
            yield required(name)
        elif byte_length(text) > limit:
            yield invalid(name, "", f"can have at most {limit} characters")
    note = event.get("message") or event.get("note") or ""
    if byte_length(note) > _NOTE_MAX:
        yield invalid("message", "", f"can have at most {_NOTE_MAX} characters")


def _validate_modern(event: Document) -> Errors:
    """Yield errors specific to a new event of events.k8s.io, where the deprecated fields must be unset."""
    series = event.get("series")
    if series is not None:
        if (series.get("count") or 0) < 2:
            yield invalid("series.count", "", "should be at least 2")
        yield from present("series.lastObservedTime", series.get("lastObservedTime"))
    yield from present("eventTime", event.get("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        yield invalid("type", "", "has invalid value: " + (event.get("type") or ""))
    for field, internal in _OLD_WAYS.items():
        if event.get(field):
            yield invalid(internal, "", "needs to be unset")
