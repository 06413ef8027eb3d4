"""Which flow schemas and priority levels does a new cluster start with?

Kubernetes' own, as data (`flow_control.json`, made by `tools/flowcontrol`). The mandatory ones hold the system
together: their specs are fixed, and what is changed about them is put back. The suggested ones are kept as they are
here until somebody takes them over with the annotation `AUTO_UPDATE`.
Not here: writing them (weir.apiserver.flowcontrol.keeper), what they do (weir.apiserver.flowcontrol).
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

__all__ = ["AUTO_UPDATE", "EXEMPT", "GROUP", "Row", "mandatory_spec", "rows"]

GROUP: Final = "flowcontrol.apiserver.k8s.io"
SCHEMA, LEVEL = "FlowSchema", "PriorityLevelConfiguration"
EXEMPT, CATCH_ALL = "exempt", "catch-all"
AUTO_UPDATE: Final = "apf.kubernetes.io/autoupdate-spec"


class Row(msgspec.Struct, frozen=True):
    """One object of a new cluster."""

    mandatory: bool
    kind: str
    name: str
    spec: dict[str, Any]


@cache
def rows() -> tuple[Row, ...]:
    """Return every flow schema and priority level of a new cluster."""
    text = resources.files("weir.objects").joinpath("flow_control.json").read_bytes()
    return tuple(msgspec.json.decode(text, type=list[Row]))


def mandatory_spec(kind: str, name: str) -> dict[str, Any] | None:
    """Return the only spec that the object may have; None when it is not a mandatory one.

    >>> mandatory_spec("PriorityLevelConfiguration", "catch-all")["limited"]["nominalConcurrencyShares"]
    5
    """
    for row in rows():
        if row.mandatory and (row.kind, row.name) == (kind, name):
            return row.spec
    return None
