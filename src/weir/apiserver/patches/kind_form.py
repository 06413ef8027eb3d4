"""Structure and zero value of a kind, for built-in and custom kinds alike."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from weir.apiserver.patches.configuration import problems_of
from weir.apiserver.patches.custom_structure import custom_node, custom_problems
from weir.apiserver.patches.structure import Node, root_node
from weir.customresources.served import CustomResourceKind
from weir.objects import schema
from weir.objects.document import KindRow, root_of
from weir.objects.strict_decoder import printed

__all__ = ["fitting_problems", "node_of", "zero_document", "zero_of"]

_NOTHING: Final[dict[str, Any]] = {"metadata": {}}


def node_of(kind: KindRow) -> Node:
    """Return how objects of *kind* are owned and merged."""
    return custom_node(kind) if isinstance(kind, CustomResourceKind) else root_node(root_of(kind))


def zero_of(kind: KindRow) -> dict[str, Any]:
    """Return what the server prints for an object of *kind* with nothing set; do not change it."""
    return _NOTHING if isinstance(kind, CustomResourceKind) else zero_document(root_of(kind))


@cache
def zero_document(root: schema.Struct) -> dict[str, Any]:
    """Return what the server prints for an object with nothing set; do not change it."""
    return printed({}, root)


def fitting_problems(configuration: Any, kind: KindRow) -> list[str]:
    """Return what is wrong with the shape of an applied configuration."""
    if isinstance(kind, CustomResourceKind):
        return custom_problems(configuration, kind)
    return problems_of(configuration, root_of(kind))
