"""Reasons for which the API rejects an expression.

Spec: cel.md 14.3 "Validation errors of the API field". The first check that fails is reported; the kind of a
rejection is the sort of field error it becomes. Types in the message are written with their long names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from weir.cel.env import Env
from weir.cel.lowering import ProgramError
from weir.cel.program import build, check_expression
from weir.cel.source import CompileError
from weir.cel.types import Kind, Type

INVALID: Final = "invalid"
INTERNAL: Final = "internal"
FORBIDDEN: Final = "forbidden"
TOO_COMPLEX: Final = "too complex, exceeds cost limit"


class Refusal(NamedTuple):
    """The sort of error (`invalid`, `internal` or `forbidden`) and its message."""

    kind: str
    message: str


def refuse(expression: str, env: Env, results: Sequence[Type]) -> Refusal | None:
    """Return why *expression* is refused, or None; its type must be one of *results*."""
    try:
        checked = check_expression(expression, env)
    except CompileError as error:
        return Refusal(INVALID, f"compilation failed: {error}")
    if checked.type not in results:
        return Refusal(INVALID, f"must evaluate to bool or the unknown type, not {long_name(checked.type)}")
    try:
        build(checked)
    except ProgramError as error:
        return Refusal(INTERNAL, f"program instantiation failed: {error}")
    if checked.estimate.max > env.cost_limit:
        return Refusal(FORBIDDEN, TOO_COMPLEX)
    return None


def long_name(of: Type) -> str:
    """Return a type as this message writes it: `google.protobuf.Timestamp`, `list(string)`.

    >>> from weir.cel import types
    >>> long_name(types.list_of(types.TIMESTAMP))
    'list(google.protobuf.Timestamp)'
    >>> long_name(types.wrapper(types.INT)), long_name(types.ANY)
    ('wrapper(int)', 'google.protobuf.Any')
    """
    if of.kind is Kind.WRAPPER:
        return str(of)
    if of.kind is Kind.ANY:
        return "google.protobuf.Any"
    if not of.params:
        return of.name
    return f"{of.name}({', '.join(map(long_name, of.params))})"
