"""Table cells of HorizontalPodAutoscaler in the layout of v2.

Two metrics are shown as current/target, of more only the number.
"""

from __future__ import annotations

from typing import Final

from weir.apiserver.printers.cells import NONE, UNKNOWN, Document, at, first_of

_SHOWN: Final = 2
_SOURCES: Final = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def reference(autoscaler: Document, now: float) -> str:
    """Return what is scaled, as `kind/name`."""
    target = at(autoscaler, "spec", "scaleTargetRef")
    return f"{at(target, 'kind') or ''}/{at(target, 'name') or ''}"


def targets(autoscaler: Document, now: float) -> str:
    """Return the metrics, each as `current/target`."""
    current = at(autoscaler, "status", "currentMetrics") or ()
    metrics = at(autoscaler, "spec", "metrics") or ()
    shown = [_metric(each, current[i] if i < len(current) else None) for i, each in enumerate(metrics)]
    return first_of(shown, _SHOWN, ", ") or NONE


def _metric(spec: Document, status: Document | None) -> str:
    """Return `current/target` of one metric.

    >>> _metric({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}, None)
    'cpu: <unknown>/80%'
    """
    source = _SOURCES.get(str(spec.get("type")))
    if source is None:
        return "<unknown type>"
    target, current = at(spec, source, "target") or {}, at(status, source, "current") or {}
    by_resource = source in ("resource", "containerResource")
    if target.get("averageValue") is not None:
        pair = f"{current.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        if source in ("external", "object"):
            return f"{pair} (avg)"
    elif by_resource:
        now, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        pair = f"{UNKNOWN if now is None else f'{now}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"
    else:
        pair = f"{current.get('value', UNKNOWN)}/{target.get('value', '0')}"
    return f"{at(spec, source, 'name') or ''}: {pair}" if by_resource else pair
