"""May this event be recorded?

Spec: upstream's rules for events of core/v1 and events.k8s.io/v1: the newer group asks for more.
What surprises: an event must live in the namespace of what it is about.
"""

from __future__ import annotations

from typing import Any, Final

from weir.validate.context import Context
from weir.validate.field import Document, Errors, invalid, required, too_long
from weir.validate.gonames import go_struct
from weir.validate.meta import IMMUTABLE, same, validate_generic_meta, validate_meta
from weir.values.names import byte_length, check_label_key, check_path_segment

_REASON_MAX: Final = 128
_ACTION_MAX: Final = 128
_NOTE_MAX: Final = 1024
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
    if not wanted:
        if namespace not in ("", "default"):
            yield invalid("involvedObject.namespace", wanted, "does not match event.namespace")
    elif namespace != wanted and not modern and not (context.raw and not namespace):
        yield invalid("involvedObject.namespace", wanted, "does not match event.namespace")
    if not modern:
        if namespace and (wanted or "default") == namespace:
            yield from validate_generic_meta(new, old, context, check_path_segment)
        return
    yield from validate_meta(new, old, context)
    if not new.get("eventTime"):
        yield required("eventTime")
        return
    yield from _validate_new_style(new)
    if old is not None:
        for name in _KEPT:
            if not same(new.get(name), old.get(name)):
                yield invalid(_INTERNAL.get(name, name), _shown(new.get(name)), IMMUTABLE)


def _shown(value: Any) -> Any:
    return go_struct("ObjectReference", value) if isinstance(value, dict) else value or ""


def _validate_new_style(event: Document) -> Errors:
    """Yield what is wrong with an event in the form of events.k8s.io."""
    controller = event.get("reportingController") or event.get("reportingComponent") or ""
    if not controller:
        yield required("reportingController")
    for message in check_label_key(controller):
        yield invalid("reportingController", controller, message)
    instance = event.get("reportingInstance") or ""
    if not instance:
        yield required("reportingInstance")
    elif byte_length(instance) > _ACTION_MAX:
        yield too_long("reportingInstance", _ACTION_MAX)
    for name, limit in (("action", _ACTION_MAX), ("reason", _REASON_MAX)):
        text = event.get(name) or ""
        if not text:
            yield required(name)
        elif byte_length(text) > limit:
            yield too_long(name, limit)
    note = event.get("message") or event.get("note") or ""
    if byte_length(note) > _NOTE_MAX:
        yield too_long("message", _NOTE_MAX)
    if event.get("type") not in ("Normal", "Warning"):
        yield invalid("type", "", "has invalid value: " + (event.get("type") or ""))
