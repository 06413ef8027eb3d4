"""Operands of calls, as the estimate hands them to the prices."""

from __future__ import annotations

from weir.cel import ast, types
from weir.cel.cost_model import UNKNOWN_SIZE, Operand, Range
from weir.cel.types import Type


def operand(
    size: Range | None, of: Type = types.STRING, element: Range = UNKNOWN_SIZE, literal: object = None
) -> Operand:
    """Return an operand of that size; None: of a size nobody knows."""
    node = ast.Ident(1, 0, "x") if literal is None else ast.Literal(1, 0, literal)
    node.type = of
    return Operand(node, UNKNOWN_SIZE if size is None else size, size is not None, element)
