"""Table cells of HorizontalPodAutoscaler.

Spec: apiserver.md 11 "Tables", "Cells". Two metrics are shown as current/target, of more only the number.
"""

from __future__ import annotations

from typing import Final

from weir.apiserver.printers.values import NONE, UNKNOWN, UNSET, Cells, Document, age, at, count, name_of

_SHOWN: Final = 2
_SOURCES: Final = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def autoscaler_cells(found: Document, now: float) -> Cells:
    """Return the cells of one autoscaler in the layout of v2."""
    least = at(found, "spec", "minReplicas")
    metrics = at(found, "spec", "metrics") or ()
    current = at(found, "status", "currentMetrics") or ()
    shown = [_metric(each, current[i] if i < len(current) else None) for i, each in enumerate(metrics)]
    targets = ", ".join(shown[:_SHOWN]) or NONE
    if len(shown) > _SHOWN:
        targets += f" + {len(shown) - _SHOWN} more..."
    target = at(found, "spec", "scaleTargetRef")
    return [
        name_of(found),
        f"{at(target, 'kind') or ''}/{at(target, 'name') or ''}",
        targets,
        UNSET if least is None else str(least),
        count(found, "spec", "maxReplicas"),
        count(found, "status", "currentReplicas"),
        age(found, now),
    ]


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
