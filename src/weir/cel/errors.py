"""Errors of expressions: their hierarchy, and which of them an operator may absorb."""

from __future__ import annotations

from typing import ClassVar, Final


class CelError(Exception):
    """Anything that went wrong with an expression; `str()` is the text Kubernetes prints."""


class EvaluationError(CelError):
    """Evaluation failed. `&&`, `||`, `all` and `exists` may absorb it; nothing else does.

    Raise it from implementations with the exact text: `raise EvaluationError("division by zero")`.
    """

    #: Runtime cost counted until the error left the program; filled in by the program.
    cost: int = 0


class CostLimitExceeded(CelError):
    """The runtime budget is used up. Nothing absorbs it."""

    MESSAGE: ClassVar[str] = "operation cancelled: actual cost limit exceeded"

    def __init__(self, cost: int = 0) -> None:
        super().__init__(self.MESSAGE)
        self.cost = cost


class InternalError(CelError):
    """Upstream gives up here with a text of its own; nothing absorbs it."""

    cost: int = 0


NO_SUCH_OVERLOAD: Final = "no such overload"
