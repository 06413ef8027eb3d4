"""Parsing and printing of index ranges like `1-3,5`, the form of completedIndexes and failedIndexes."""

from __future__ import annotations

from collections.abc import Iterable


def parse_indexes(text: str | None, completions: int) -> frozenset[int]:
    """Return the indexes below *completions* that *text* names; what cannot be read is left out.

    >>> sorted(parse_indexes("1-3,5,x,9", 6))
    [1, 2, 3, 5]
    """
    found: set[int] = set()
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            continue
        found.update(range(int(first), min(int(last if dash else first), completions - 1) + 1))
    return frozenset(found)


def print_indexes(indexes: Iterable[int]) -> str:
    """Return numbers as Jobs write them: runs of three or more with a dash.

    >>> print_indexes([8, 1, 2, 3, 5, 7])
    '1-3,5,7,8'
    """
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = [f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in runs]
    return ",".join(parts)
