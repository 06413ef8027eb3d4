"""Short phrases: numbers, durations, lists, tolerations and requirements.

Operators are written as symbols, never by their API names. Sentences are in weir.explain.words.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from weir.objects.core import NodeSelectorRequirement, Taint, Toleration
from weir.taints.operators import find_in_affinity, find_operator

_LONGEST: Final = 120


def short(text: str, longest: int = _LONGEST) -> str:
    """Return *text* on one line, cut where it gets longer than anyone reads."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def listed(names: Sequence[str], most: int = 2) -> str:
    """Return the first *most* names and how many follow.

    >>> listed(["a", "b", "c", "d"])
    'a, b and 2 more'
    """
    if len(names) > most + 1:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: `1 node`, `3 nodes`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def duration(limit: timedelta) -> str:
    """Return a duration in words.

    >>> duration(timedelta(seconds=90)), duration(timedelta(seconds=30))
    ('1 min 30 s', '30 s')
    """
    seconds = int(limit.total_seconds())
    days, seconds = divmod(seconds, 86400)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


# ── taints and labels ────────────────────────────────────────────────────────────────────────────


def asks(toleration: Toleration) -> str:
    """Return what a toleration asks of the taint's value.

    >>> asks(Toleration("sla", "Gt", "950"))
    '> 950'
    """
    if toleration.expression:
        return f"expression {short(toleration.expression, 60)}"
    operator = find_operator(toleration.operator)
    value = short(toleration.value, 40) or '""'
    return operator.phrase(value) if operator is not None else f"{short(toleration.operator, 40)} {value}"


def taint_name(taint: Taint) -> str:
    """Return the taint without its effect: `sla=940`, or the key alone when it has no value."""
    return f"{taint.key}={taint.value}" if taint.value else taint.key


def requires(requirement: NodeSelectorRequirement) -> str:
    """Return what a requirement asks of the label's value."""
    values = [short(value, 40) for value in requirement.values or ()]
    match requirement.operator:
        case "In":
            return " or ".join(values)
        case "NotIn":
            return "anything but " + " or ".join(values)
        case "Exists":
            return "any value"
        case "DoesNotExist":
            return "not to be there"
    operator = find_in_affinity(requirement.operator)
    sign = operator.symbol if operator is not None else short(requirement.operator, 40)
    return f"{sign} {' '.join(values)}".rstrip()
