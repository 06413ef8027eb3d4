"""Validation of probes and lifecycle handlers.

Spec: upstream's rules for probes and lifecycle handlers. Absent numbers mean their defaults. successThreshold of a
liveness or startup probe must be 1.
"""

from __future__ import annotations

from typing import Any, Final

from weir.validate.core.resources import NOT_NEGATIVE
from weir.validate.field import Document, Errors, each_invalid, forbidden, invalid, not_supported, required
from weir.values.names import check_http_header, check_port_name

PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")


def validate_probe(probe: Document, at: str, *, kind: str, grace_seconds: int | None) -> Errors:
    """Yield what is wrong with a probe; *kind* is `liveness`, `readiness` or `startup`."""
    yield from _validate_handler(probe, at, _HANDLERS)
    for name in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        if (probe.get(name) or 0) < 0:
            yield invalid(f"{at}.{name}", probe[name], NOT_NEGATIVE)
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        yield invalid(f"{at}.terminationGracePeriodSeconds", own_grace, "must be greater than 0")
    if kind == "readiness":
        if own_grace is not None:
            yield invalid(
                f"{at}.terminationGracePeriodSeconds", own_grace, "must not be set for readinessProbes"
            )
    elif probe.get("successThreshold") not in (None, 0, 1):
        yield invalid(f"{at}.successThreshold", probe["successThreshold"], "must be 1")


def validate_lifecycle(lifecycle: Document, at: str, grace_seconds: int | None) -> Errors:
    """Yield what is wrong with the hooks of a container."""
    for name in ("postStart", "preStop"):
        if (handler := lifecycle.get(name)) is not None:
            yield from _validate_handler(
                handler, f"{at}.{name}", ("exec", "httpGet", "tcpSocket", "sleep"), grace_seconds
            )


def _validate_handler(
    handler: Document, at: str, known: tuple[str, ...], grace_seconds: int | None = None
) -> Errors:
    given = [name for name in known if handler.get(name) is not None]
    for i, name in enumerate(given):
        if i:
            yield forbidden(f"{at}.{name}", "may not specify more than 1 handler type")
            continue
        action, where = handler[name], f"{at}.{name}"
        if name == "exec":
            if not action.get("command"):
                yield required(f"{where}.command")
        elif name == "httpGet":
            yield from _validate_http_get(action, where)
        elif name == "tcpSocket":
            yield from validate_port_reference(action.get("port"), f"{where}.port")
        elif name == "sleep":
            seconds = action.get("seconds") or 0
            if grace_seconds is not None and not 0 <= seconds <= grace_seconds:
                detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
                yield invalid(where, seconds, detail)
        elif name == "grpc":
            port = action.get("port") or 0
            if not 1 <= port <= 65535:
                yield invalid(f"{where}.port", port, PORT_RANGE)
    if not given:
        yield required(at, "must specify a handler type")


def _validate_http_get(action: Document, at: str) -> Errors:
    if "path" in action and not action["path"]:
        yield required(f"{at}.path")
    yield from validate_port_reference(action.get("port"), f"{at}.port")
    if action.get("scheme") not in (None, "", "HTTP", "HTTPS"):
        yield not_supported(f"{at}.scheme", action["scheme"], ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        yield from each_invalid(f"{at}.httpHeaders", name, check_http_header(name))


def validate_port_reference(port: Any, at: str) -> Errors:
    """Yield what is wrong with a port given by number or by name."""
    if isinstance(port, str):
        yield from each_invalid(at, port, check_port_name(port))
    elif not 1 <= (port or 0) <= 65535:
        yield invalid(at, port or 0, PORT_RANGE)
