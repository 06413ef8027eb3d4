"""Table cells of FlowSchema and PriorityLevelConfiguration.

Spec: apiserver.md 11 "Tables", "Cells". Flow schemas are listed by matching precedence. One without a Dangling
condition shows a question mark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from weir.apiserver.printers.values import NONE, Cells, Document, age, at, condition_of, name_of

Found = TypeVar("Found", bound=Document)


def schemas_in_order(found: Iterable[Found]) -> list[Found]:
    """Return flow schemas in the order in which they are tried."""
    return sorted(found, key=lambda each: (at(each, "spec", "matchingPrecedence") or 0, name_of(each)))


def flow_schema_cells(found: Document, now: float) -> Cells:
    """Return the cells of one flow schema."""
    method, dangling = at(found, "spec", "distinguisherMethod"), condition_of(found, "Dangling")
    return [
        name_of(found),
        at(found, "spec", "priorityLevelConfiguration", "name") or "",
        at(found, "spec", "matchingPrecedence") or 0,
        NONE if method is None else at(method, "type") or "",
        age(found, now),
        "?" if dangling is None else dangling.get("status") or "",
    ]


def priority_level_cells(found: Document, now: float) -> Cells:
    """Return the cells of one priority level."""
    limited = at(found, "spec", "limited")
    queuing = at(limited, "limitResponse", "queuing")
    return [
        name_of(found),
        at(found, "spec", "type") or "",
        NONE if limited is None else at(limited, "nominalConcurrencyShares") or 0,
        *(NONE if queuing is None else queuing.get(name) or 0 for name in _QUEUING),
        age(found, now),
    ]


_QUEUING = ("queues", "handSize", "queueLengthLimit")
