"""How much do the containers of this pod ask for, taken together?

Spec: upstream's aggregate of container requests and limits, which pod-level resources are held against and default to.
Regular containers and init containers that keep running add up; other init containers run one after another, each
beside the kept ones that were started before it, so the greatest of them counts.
Not here: what a pod takes of a node in whole units (weir.objects.requests).
"""

from __future__ import annotations

from typing import Any

from weir.values.quantity import Quantity, find_quantity

__all__ = ["container_totals"]

Totals = dict[str, Quantity]


def container_totals(spec: dict[str, Any], part: str) -> Totals:
    """Return the sum of *part* (`requests` or `limits`) for each resource of a pod spec.

    >>> kept = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    >>> first = {"resources": {"requests": {"cpu": "2"}}}
    >>> spec = {"initContainers": [kept, first], "containers": [{"resources": {"requests": {"cpu": "1"}}}]}
    >>> {name: str(amount) for name, amount in container_totals(spec, "requests").items()}
    {'cpu': '2100m'}
    """
    total: Totals = {}
    for container in spec.get("containers") or ():
        _add(total, _amounts(container, part))
    kept: Totals = {}
    greatest: Totals = {}
    for container in spec.get("initContainers") or ():
        asked = _amounts(container, part)
        if container.get("restartPolicy") == "Always":
            _add(total, asked)
            _add(kept, asked)
            beside = dict(kept)
        else:
            beside = asked
            _add(beside, kept)
        for name, amount in beside.items():
            greatest[name] = max(greatest.get(name, amount), amount)
    for name, amount in greatest.items():
        total[name] = max(total.get(name, amount), amount)
    return total


def _amounts(container: dict[str, Any], part: str) -> Totals:
    given = (container.get("resources") or {}).get(part) or {}
    read = {name: find_quantity(str(value)) for name, value in given.items()}
    return {name: amount for name, amount in read.items() if amount is not None}


def _add(total: Totals, amounts: Totals) -> None:
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount
