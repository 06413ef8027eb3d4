"""Toleration operators, each one object with everything that depends on the operator.

Spec: KEP-5471 "Semantics", KEP-5721 "Toleration Logic" and "Node Affinity Logic". The direction is always *taint OP
toleration*: `Gt 750` tolerates a taint whose value is above 750. A value that cannot be read does not match and is not
an error.
Matching, node affinity, validation, explain, lint, advise, what-if, the ui and lowering all ask `OPERATORS`. A new
operator is one more entry there; tests/integration/test_new_operator.py adds one and asks each of them about it.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from weir.caches import bounded
from weir.gates import ALL_FEATURES, SEMVER_COMPARISON, TOLERATION_COMPARISON, Gates
from weir.values.integer import IntegerError, canonical_problem, parse_int64, parse_integer
from weir.values.semver import SemverError, Version, find_tolerant, parse_tolerant


class Outcome(enum.Enum):
    """How one toleration met one taint; each value is the phrase `weir explain` prints."""

    TOLERATED = "tolerates it"
    OTHER_EFFECT = "is for another effect"
    OTHER_KEY = "is for another key"
    OTHER_VALUE = "asks for another value"
    NOT_LESS = "asks for a lower value"
    NOT_GREATER = "asks for a higher value"
    NOT_AN_INTEGER = "compares integers, and the taint's value is not one"
    NOT_A_VERSION = "compares versions, and the taint's value is not one"
    TOLERATION_NOT_AN_INTEGER = "compares integers, and its own value is not one"
    TOLERATION_NOT_A_VERSION = "compares versions, and its own value is not one"
    EXPRESSION_FALSE = "has an expression that is false for it"
    EXPRESSION_FAILED = "has an expression that fails for it"
    UNKNOWN_OPERATOR = "uses an operator this version does not know"
    GATE_OFF = "uses a feature whose gate is off"

    def __bool__(self) -> bool:
        return self is Outcome.TOLERATED


#: Outcomes of values that could not be read: no match, and worth a message to whoever set them.
UNREADABLE: Final = (
    Outcome.NOT_AN_INTEGER,
    Outcome.NOT_A_VERSION,
    Outcome.TOLERATION_NOT_AN_INTEGER,
    Outcome.TOLERATION_NOT_A_VERSION,
    Outcome.EXPRESSION_FAILED,
)


# ── what is compared ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Scale:
    """A kind of ordered value: its parsers, its neighbouring values, and the outcomes of what it cannot read."""

    name: str  #: as stories and probes call the feature
    gate: str
    gated_in_affinity: bool  #: whether node affinity has these comparisons behind the gate only
    parse: Callable[[str], Any]  #: of taints and tolerations; None: cannot be read
    parse_label: Callable[[str], Any]  #: of labels and node affinity
    problems: Callable[[str], Iterator[str]]  #: yields what the API server says of a toleration's value
    label_problems: Callable[[str], Iterator[str]]  #: the same of a value in node affinity
    spell: Callable[[str], str]  #: returns the value in a form that every comparison reads, or ""
    below: Callable[[str], str]  #: returns the next lower value, or "" when there is none to write
    above: Callable[[str], str]
    equal: str  #: the operator that accepts exactly one value
    not_read: Outcome
    limit_not_read: Outcome
    labels_only: bool  #: whether a value in node affinity must be a label value
    named_when_off: (
        bool  #: whether the API server's list of supported values names these though the gate is off
    )


@bounded(8192)
def _parse_integer(text: str) -> int | None:
    try:
        return parse_integer(text)
    except IntegerError:
        return None


def _parse_int64(text: str) -> int | None:
    try:
        return parse_int64(text)
    except IntegerError:
        return None


def _integer_problems(text: str) -> Iterator[str]:
    if problem := canonical_problem(text):
        yield problem
    try:
        parse_int64(text)
    except IntegerError as error:
        yield str(error)


def _spell_integer(text: str, step: int = 0) -> str:
    value = _parse_int64(text)
    moved = "" if value is None else str(value + step)
    return moved if _parse_int64(moved) is not None else ""


def _version_problems(text: str) -> Iterator[str]:
    try:
        parse_tolerant(text)
    except SemverError as error:
        yield str(error)


def _lower_version(text: str) -> str:
    """Return a version below *text*: the patch before it, or the lowest prerelease of its own release."""
    version = find_tolerant(text)
    if version is None:
        return ""
    lower = (
        Version(version.major, version.minor, version.patch - 1)
        if version.patch and not version.prerelease
        else Version(version.major, version.minor, version.patch, ((0, 0, ""),))
    )
    prefix = "v" if text.startswith("v") else ""
    return f"{prefix}{lower}" if lower < version else ""


def _higher_version(text: str) -> str:
    """Return a version above *text*: the release of a prerelease, or the next patch."""
    version = find_tolerant(text)
    if version is None:
        return ""
    higher = Version(version.major, version.minor, version.patch + (not version.prerelease))
    return str(higher) if find_tolerant(str(higher)) is not None else ""


INTEGERS: Final = Scale(
    name="numeric",
    gate=TOLERATION_COMPARISON,
    gated_in_affinity=False,
    parse=_parse_integer,
    parse_label=_parse_int64,
    problems=_integer_problems,
    label_problems=lambda text: iter(()),  # what is no integer is accepted there and never matches
    spell=_spell_integer,
    below=lambda text: _spell_integer(text, -1),
    above=lambda text: _spell_integer(text, 1),
    equal="Equal",
    not_read=Outcome.NOT_AN_INTEGER,
    limit_not_read=Outcome.TOLERATION_NOT_AN_INTEGER,
    labels_only=True,
    named_when_off=True,
)
VERSIONS: Final = Scale(
    name="semver",
    gate=SEMVER_COMPARISON,
    gated_in_affinity=True,
    parse=find_tolerant,
    parse_label=find_tolerant,
    problems=_version_problems,
    label_problems=_version_problems,
    spell=lambda text: text if find_tolerant(text) is not None else "",
    below=_lower_version,
    above=_higher_version,
    equal="SemverEq",
    not_read=Outcome.NOT_A_VERSION,
    limit_not_read=Outcome.TOLERATION_NOT_A_VERSION,
    labels_only=False,  # a version may carry `+build`, which no label value can
    named_when_off=False,
)


# ── operators ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator that compares the text of values: Equal, or Exists, which takes any."""

    name: str
    holds: Callable[[Any, Any], Any]  #: whether a value meets a limit
    symbol: str  #: between the thing compared and the limit, as people write it
    bound: str  #: the same as a word: `above` the limit
    takes_value: bool = True
    gate: str = ""
    direction: int = field(init=False)  #: 1: higher values meet the limit, -1: lower ones, 0: neither as such
    strict: bool = field(init=False)  #: the limit itself does not meet it

    def __post_init__(self) -> None:
        object.__setattr__(self, "direction", int(self.holds(1, 0)) - int(self.holds(0, 1)))
        object.__setattr__(self, "strict", not self.holds(0, 0))

    def compare(self, limit: str, value: str, gates: Gates) -> Outcome:
        """Return how a taint's *value* meets a toleration's *limit*."""
        return Outcome.TOLERATED if self.holds(value, limit) else Outcome.OTHER_VALUE

    def phrase(self, limit: str) -> str:
        """Return what is asked of a value: `> 950`, `any value`."""
        return f"{self.symbol} {limit}" if self.takes_value else "any value"

    def limit_for(self, value: str) -> str:
        """Return the tightest limit that *value* meets, or "" when there is none to write."""
        return ""

    def value_for(self, limit: str) -> str:
        """Return the value nearest to *limit* that meets it; what cannot be read is returned as it is."""
        return limit if self.takes_value else ""

    def beside(self, limit: str) -> str:
        """Return the value next to *limit* of which the opposite holds, or "" for operators without an order."""
        return ""

    def covers(self, limit: str, other: Operator, other_limit: str) -> bool:
        """Return whether every value that meets *other_limit* surely meets *limit*."""
        if not self.takes_value or (self is other and limit == other_limit):
            return True
        if not other.takes_value or isinstance(other, Comparison):
            return False
        return bool(self.compare(limit, other_limit, ALL_FEATURES))

    def needs_lowering(self, gates: Gates) -> bool:
        """Return whether a cluster with *gates* needs an Equal entry for each known value that this one meets."""
        return bool(self.gate) and not gates.enabled(self.gate)


@dataclass(frozen=True, eq=False)
class Comparison(Operator):
    """An operator that compares integers or versions; what is not given follows from `holds` and the scale.

    >>> at_least = Comparison("SemverGe", operator.ge, "version ≥", "at or above", scale=VERSIONS)
    >>> at_least.direction, at_least.strict, at_least.limit_for("1.2.3"), at_least.beside("1.2.3")
    (1, False, '1.2.3', '1.2.2')
    """

    scale: Scale = field(kw_only=True)
    in_affinity: bool = field(default=True, kw_only=True)  #: node affinity and PersistentVolumes have it too
    missed: Outcome = field(init=False)

    def __post_init__(self) -> None:
        Operator.__post_init__(self)
        missed = {1: Outcome.NOT_GREATER, -1: Outcome.NOT_LESS}.get(self.direction, Outcome.OTHER_VALUE)
        object.__setattr__(self, "missed", missed)
        object.__setattr__(self, "gate", self.gate or self.scale.gate)

    @property
    def affinity_gate(self) -> str:
        """The gate that a node selector requirement with this operator needs, or ""."""
        return self.gate if self.scale.gated_in_affinity else ""

    def compare(self, limit: str, value: str, gates: Gates) -> Outcome:
        if not gates.enabled(self.gate):
            return Outcome.GATE_OFF
        parse = self.scale.parse
        bound, compared = parse(limit), parse(value)
        if bound is None:
            return self.scale.limit_not_read
        if compared is None:
            return self.scale.not_read
        return Outcome.TOLERATED if self.holds(compared, bound) else self.missed

    def compare_label(self, limit: str, value: str) -> Outcome:
        """Return how a node label's *value* meets the *limit* of a requirement."""
        bound, compared = self.scale.parse_label(limit), self.scale.parse_label(value)
        if bound is None or compared is None:
            return self.scale.not_read
        return Outcome.TOLERATED if self.holds(compared, bound) else self.missed

    def limit_for(self, value: str) -> str:
        if not self.strict:
            return self.scale.spell(value)
        return self.scale.below(value) if self.direction > 0 else self.scale.above(value)

    def value_for(self, limit: str) -> str:
        if not self.strict:
            return limit
        return (self.scale.above(limit) if self.direction > 0 else self.scale.below(limit)) or limit

    def beside(self, limit: str) -> str:
        if not self.direction:
            return ""
        return self.scale.above(limit) if (self.direction > 0) == self.strict else self.scale.below(limit)

    def covers(self, limit: str, other: Operator, other_limit: str) -> bool:
        if not isinstance(other, Comparison):
            return super().covers(limit, other, other_limit)
        outer, inner = self.scale.parse(limit), other.scale.parse(other_limit)
        if self.scale is not other.scale or outer is None or inner is None:
            return self is other and limit == other_limit
        if not other.direction:
            return bool(self.holds(inner, outer))
        return self.direction == other.direction and bool(
            self.holds(inner, outer) or (inner == outer and (other.strict or not self.strict))
        )


#: Every toleration operator by name, in the order in which the API server lists them.
OPERATORS: Final[dict[str, Operator]] = {
    each.name: each
    for each in (
        Operator("Equal", operator.eq, "=", "equal to"),
        Operator("Exists", lambda value, limit: True, "", "", takes_value=False),
        Comparison("Lt", operator.lt, "<", "below", scale=INTEGERS),
        Comparison("Gt", operator.gt, ">", "above", scale=INTEGERS),
        Comparison("SemverLt", operator.lt, "version <", "below", scale=VERSIONS),
        Comparison("SemverGt", operator.gt, "version >", "above", scale=VERSIONS),
        Comparison("SemverEq", operator.eq, "version =", "equal to", scale=VERSIONS),
    )
}


def find_operator(name: str) -> Operator | None:
    """Return the operator of a toleration; no name means Equal."""
    return OPERATORS.get(name or "Equal")


def find_comparison(name: Any) -> Comparison | None:
    """Return the operator of a toleration that compares integers or versions, or None.

    >>> find_comparison("Gt").gate, find_comparison("Exists")
    ('TaintTolerationComparisonOperators', None)
    """
    found = OPERATORS.get(name) if isinstance(name, str) else None
    return found if isinstance(found, Comparison) else None


def find_in_affinity(name: Any) -> Comparison | None:
    """Return the operator of a node selector requirement that compares integers or versions, or None."""
    found = find_comparison(name)
    return found if found is not None and found.in_affinity else None


def names_of(scale: Scale, *, in_affinity: bool = False) -> list[str]:
    """Return the names of the operators that compare values of *scale*.

    >>> names_of(INTEGERS)
    ['Lt', 'Gt']
    """
    found = (each for each in OPERATORS.values() if isinstance(each, Comparison))
    return [each.name for each in found if each.scale is scale and (each.in_affinity or not in_affinity)]
