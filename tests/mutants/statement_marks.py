"""A module's code that says which of its statements are begun: how `tests.mutants.reach` sees what a test reaches."""

from __future__ import annotations

import ast
from typing import Final

#: The name by which marked code calls what is told the first line of a statement.
MARK: Final = "__reached__"


def with_marks(source: str) -> ast.Module:
    """Return the module with a mark before every statement of every function."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _mark(node)
    return ast.fix_missing_locations(tree)


def _mark(holder: ast.AST) -> None:
    """Put a mark before every statement of a function, but not into the functions it defines."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(holder, name, None)
        if not isinstance(inner, list):
            continue
        marked: list[ast.AST] = []
        for node in inner:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                _mark(node)
            if isinstance(node, ast.stmt) and not _is_scope(node):
                call = ast.Call(ast.Name(MARK, ast.Load()), [ast.Constant(node.lineno)], [])
                marked.append(ast.copy_location(ast.Expr(call), node))
            marked.append(node)
        setattr(holder, name, marked)


def _is_scope(node: ast.stmt) -> bool:
    """Whether nothing may stand before it: a declaration of names, or a docstring."""
    return isinstance(node, ast.Global | ast.Nonlocal) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def lines_by_statement(tree: ast.AST) -> dict[int, list[int]]:
    """Return, by the first line of a statement, its lines: those of the statements in it are their own.

    >>> lines_by_statement(ast.parse("if (a and\\n    b):\\n    c()\\n"))
    {1: [1, 2], 3: [3]}
    """
    owner: dict[int, int] = {}
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    for node in sorted(statements, key=lambda node: (node.lineno, -(node.end_lineno or 0))):
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            owner[line] = node.lineno
    found: dict[int, list[int]] = {}
    for line, first in sorted(owner.items()):
        found.setdefault(first, []).append(line)
    return found
