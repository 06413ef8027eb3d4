"""Table cells of FlowSchema and PriorityLevelConfiguration.

Flow schemas are listed by matching precedence. One without a Dangling condition shows a question mark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from weir.apiserver.printers.cells import NONE, Cells, Document, age, at, condition_of, name_of

Schema = TypeVar("Schema", bound=Document)
_QUEUING = ("queues", "handSize", "queueLengthLimit")


def schemas_in_order(schemas: Iterable[Schema]) -> list[Schema]:
    """Return flow schemas in the order in which they are tried."""
    return sorted(schemas, key=lambda each: (at(each, "spec", "matchingPrecedence") or 0, name_of(each)))


def distinguisher(schema: Document, now: float) -> str:
    method = at(schema, "spec", "distinguisherMethod")
    return NONE if method is None else at(method, "type") or ""


def dangling(schema: Document, now: float) -> str:
    condition = condition_of(schema, "Dangling")
    return "?" if condition is None else condition.get("status") or ""


def priority_level(level: Document, now: float) -> Cells:
    limited = at(level, "spec", "limited")
    queuing = at(limited, "limitResponse", "queuing")
    return [
        name_of(level),
        at(level, "spec", "type") or "",
        NONE if limited is None else at(limited, "nominalConcurrencyShares") or 0,
        *(NONE if queuing is None else queuing.get(name) or 0 for name in _QUEUING),
        age(level, now),
    ]
