"""Errors of expressions: their hierarchy, which of them an operator may absorb, and how mistakes in a text are printed.

Spec: cel.md 14.2 "Issue format". Positions are code point offsets; lines count from 1, columns are printed
byte; at most 100 issues are listed; an empty expression is reported at `1:0`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import ClassVar, Final, NamedTuple


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


MAX_ISSUES: Final = 100


class Issue(NamedTuple):
    """One mistake: line (1-based), column (0-based) and what is wrong."""

    line: int
    column: int
    message: str


class CompileError(CelError):
    """The expression is not accepted; `str()` is the list of issues as Kubernetes prints them."""

    def __init__(self, issues: list[Issue], text: str) -> None:
        super().__init__(text)
        self.issues = issues


class Source:
    """The text of one expression.

    >>> print(Source("taint.foo").format([Source("taint.foo").issue(5, "undefined field 'foo'")]))
    ERROR: <input>:1:6: undefined field 'foo'
     | taint.foo
     | .....^
    """

    __slots__ = ("_starts", "text")

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self._starts: list[int] | None = None

    def issue(self, position: int, message: str) -> Issue:
        """An issue at the code point offset *position*."""
        if not self.text and position == 0:
            return Issue(1, -1, message)
        if self._starts is None:
            self._starts = [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]
        line = bisect_right(self._starts, position)
        return Issue(line, position - self._starts[line - 1], message)

    def format(self, issues: list[Issue]) -> str:
        """The issues in the order and form Kubernetes prints them."""
        ordered = sorted(issues, key=lambda issue: (issue.line, issue.column))
        shown = [self._format(issue) for issue in ordered[:MAX_ISSUES]]
        if len(ordered) > MAX_ISSUES:
            shown.append(f"{len(ordered) - MAX_ISSUES} more errors were truncated")
        return "\n".join(shown)

    def error(self, issues: list[Issue]) -> CompileError:
        """The exception that carries *issues*."""
        return CompileError(issues, self.format(issues))

    def _format(self, issue: Issue) -> str:
        head = f"ERROR: <input>:{issue.line}:{issue.column + 1}: {issue.message}"
        lines = self.text.split("\n")
        if not self.text or not 1 <= issue.line <= len(lines):
            return head
        line = lines[issue.line - 1].replace("\t", " ")
        under = "".join("." if ord(c) < 0x80 else "．" for c in line[: issue.column])
        under += "." * (issue.column - len(under))
        wide = issue.column < len(line) and ord(line[issue.column]) >= 0x80
        return f"{head}\n | {line}\n | {under}{'＾' if wide else '^'}"


def limit_error(message: str) -> CompileError:
    """A refusal of the whole text, at no position."""
    return CompileError([Issue(-1, -1, message)], f"ERROR: <input>:-1:0: {message}")
