"""Literals that are rejected although the expression is well typed.

Spec: cel.md 4.5 "Literals", 4.6 "Validators". Lists and maps must hold one type; constant durations,
timestamps, regular expressions and format strings must be readable. Run only after a clean check.
Literals inside the arguments of `format` may be mixed; of `matches(a, b)` the *first* argument
is looked at; a list reports its first misfit, a map every one.
"""

from __future__ import annotations

from collections.abc import Iterator

from weir.cel import ast
from weir.cel.ast import Call, ListExpr, Literal, MapExpr
from weir.cel.dispatch import select
from weir.cel.env import UNKNOWN, Env
from weir.cel.errors import EvaluationError, Issue, Source
from weir.cel.types import Kind, Node, Type
from weir.cel.values import Value


def validate(source: Source, root: Node, env: Env) -> None:
    """Raise CompileError listing every literal that is refused."""
    issues: list[Issue] = []
    for node, exempt in _with_exemption(root):
        if env.homogeneous_literals and not exempt:
            found = _mixed(node)
            issues += [source.issue(at.pos, _mismatch(want, have)) for at, want, have in found]
        if env.validators and isinstance(node, Call):
            issues += [source.issue(pos, message) for pos, message in _unreadable(node, env)]
    if issues:
        raise source.error(issues)


def _with_exemption(root: Node) -> Iterator[tuple[Node, bool]]:
    """Every node, and whether it lies inside the arguments of `format`."""
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, exempt = stack.pop()
        yield node, exempt
        inside = exempt or (isinstance(node, Call) and node.function == "format")
        stack.extend((child, inside) for child in ast.children(node))


def _mismatch(want: Type, have: Type) -> str:
    return f"expected type '{want}' but found '{have}'"


def _mixed(node: Node) -> Iterator[tuple[Node, Type, Type]]:
    if isinstance(node, ListExpr):
        first: Type | None = None
        for index, element in enumerate(node.elements):
            have = _inner(element.type) if index in node.optional else element.type
            if first is None:
                first = have
            elif _unwrapped(have) != _unwrapped(first):
                yield element, first, have
                return
    elif isinstance(node, MapExpr) and node.entries:
        head = node.entries[0]
        assert head.key is not None
        keys = head.key.type
        values = _inner(head.value.type) if head.optional else head.value.type
        for entry in node.entries[1:]:
            assert entry.key is not None
            if _unwrapped(entry.key.type) != _unwrapped(keys):
                yield entry.key, keys, entry.key.type
            have = _inner(entry.value.type) if entry.optional else entry.value.type
            if _unwrapped(have) != _unwrapped(values):
                yield entry.value, values, have


def _inner(t: Type) -> Type:
    return t.params[0] if t.kind is Kind.OPTIONAL else t


def _unwrapped(t: Type) -> Type:
    """A wrapper mixes with what it wraps."""
    return t.params[0] if t.kind is Kind.WRAPPER else t


def _unreadable(call: Call, env: Env) -> Iterator[tuple[int, str]]:
    if not call.args:
        return
    first = call.args[0]
    if call.function in ("duration", "timestamp") and isinstance(first, Literal) and call.target is None:
        if not _converts(env, call.function, first.value):
            yield first.pos, f"invalid {call.function} argument"
    elif call.function == "matches" and isinstance(first, Literal) and isinstance(first.value, str):
        if not _is_pattern(env, first.value):
            yield first.pos, "invalid matches argument"
    elif call.function == "format" and env.check_format is not None:
        template = call.target
        if isinstance(template, Literal) and isinstance(template.value, str) and isinstance(first, ListExpr):
            wrong = env.check_format(template.value, first.elements)
            if wrong is not None:
                node, message = wrong
                yield (call.pos if node is None else node.pos), message


def _converts(env: Env, function: str, value: Value) -> bool:
    declared = env.functions.get(function)
    overload = select(declared.overloads, [value]) if declared else None
    if overload is None or overload.impl is None:
        return True
    try:
        overload.impl(value)
    except EvaluationError:
        return False
    return True


def _is_pattern(env: Env, pattern: str) -> bool:
    declared = env.functions.get("matches")
    for overload in declared.overloads if declared else ():
        if overload.specialize is not None:
            try:
                overload.specialize([UNKNOWN, pattern])
            except EvaluationError:
                return False
    return True
