"""The statements of a source file: what tests that look at code need to see, a tenth of its tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_PARTS = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the module and every statement in it, however deep, with the handlers and cases between them.

    >>> [type(node).__name__ for node in statements(ast.parse("if a:\\n  def f(): return 1\\nelse: b"))]
    ['Module', 'If', 'Expr', 'FunctionDef', 'Return']
    """
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for part in _PARTS:
            waiting += getattr(node, part, ())
