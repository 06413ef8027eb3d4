"""The Rule type, problems and findings.

A rule has a stable code, a summary, a help text that becomes its documentation page, and a check over one subject.
Rules are pure.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from weir.lint.subject import Facts, Path, Subject


class Severity(enum.Enum):
    """How much a finding weighs; only errors and warnings make the run fail."""

    ERROR = "error"  # the API server refuses it
    WARNING = "warning"  # accepted, and very likely not what was meant
    NOTE = "note"  # accepted; worth knowing

    @property
    def fails(self) -> bool:
        return self is not Severity.NOTE

    @property
    def weight(self) -> int:
        """0 for an error, more for what weighs less."""
        return _WEIGHTS[self.value]


_WEIGHTS: Final = {severity.value: weight for weight, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece of text to replace at the place of a finding, if it still stands there."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule found in a subject, before it is given its place in the file."""

    path: Path
    message: str
    fix: str = ""
    severity: Severity | None = None  #: when it differs from the rule's
    edit: Edit | None = None  #: what `--fix` may do without changing the meaning
    key: bool = False  #: it is about the key at the path, not about its value


@dataclass(frozen=True, slots=True)
class Rule:
    """One lint check."""

    code: str
    name: str
    severity: Severity
    summary: str
    help: str
    check: Callable[[Subject, Facts], Iterator[Problem]]

    def page(self) -> str:
        """Return the documentation page of the rule."""
        return (
            f"# {self.code}: {self.name}\n\n{self.summary} Severity: {self.severity.value}.\n\n{self.help}\n"
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem at its place: what every output format prints."""

    rule: Rule
    severity: Severity
    file: str
    line: int
    column: int
    width: int
    source: str  #: the line of text it stands on
    object: str  #: `Pod web`, `Deployment shop/cart`
    field: str  #: `spec.tolerations[0].value`
    message: str
    fix: str
    edit: Edit | None = None


def listed(values: Sequence[str], most: int = 3) -> str:
    """Return *values* quoted and joined, the first few of them.

    >>> listed(["high", "low", "none", "x"])
    '"high", "low", "none" and 1 more'
    """
    shown = [f'"{value}"' for value in values[:most]]
    if len(values) > most:
        return f"{', '.join(shown)} and {len(values) - most} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
