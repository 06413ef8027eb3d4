"""Ordered text keys with cheap insertion.

A list of short sorted lists: insertion moves at most one of them, a range is a few slices, and a key's position is a
sum of lengths. Order is by code point, the same as of UTF-8 bytes, so all backends agree.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

_SPLIT = 1024


def after_prefix(prefix: str) -> str:
    """Return the smallest key greater than every key with *prefix*; empty when there is none.

    >>> after_prefix("/pods/")
    '/pods0'
    """
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            step = 0xE000 if last == 0xD7FF else last + 1  # surrogates cannot be encoded
            return prefix[:-1] + chr(step)
        prefix = prefix[:-1]
    return ""


class OrderedKeys:
    """A set of keys, in order.

    >>> keys = OrderedKeys(["/b", "/a/2", "/a/1"])
    >>> list(keys.between("/a/", "/a0")), keys.count("/a/", "/a0")
    (['/a/1', '/a/2'], 2)
    """

    __slots__ = ("_first", "_runs")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(keys)
        self._runs = [ordered[i : i + _SPLIT // 2] for i in range(0, len(ordered), _SPLIT // 2)]
        self._first = [run[0] for run in self._runs]

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def _run_of(self, key: str) -> int:
        """Return the index of the run that holds *key*, or would."""
        at = bisect_left(self._first, key)
        if at < len(self._first) and self._first[at] == key:
            return at
        return max(at - 1, 0)

    def add(self, key: str) -> None:
        """Insert *key*, which must not be there yet."""
        if not self._runs:
            self._runs.append([key])
            self._first.append(key)
            return
        at = self._run_of(key)
        run = self._runs[at]
        if key > run[-1]:
            run.append(key)
        else:
            insort(run, key)
        self._first[at] = run[0]
        if len(run) > _SPLIT:
            half = len(run) // 2
            self._runs.insert(at + 1, run[half:])
            self._first.insert(at + 1, run[half])
            del run[half:]

    def discard(self, key: str) -> None:
        """Remove *key* if it is there."""
        if not self._runs:
            return
        at = self._run_of(key)
        run = self._runs[at]
        position = bisect_left(run, key)
        if position == len(run) or run[position] != key:
            return
        del run[position]
        if run:
            self._first[at] = run[0]
        else:
            del self._runs[at], self._first[at]

    def between(self, start: str, stop: str) -> Iterator[str]:
        """Yield the keys from *start* on and before *stop* (empty: to the end)."""
        for run in self.runs(start, stop):
            yield from run

    def runs(self, start: str, stop: str) -> Iterator[list[str]]:
        """Yield the same keys, many at a time; the lists are not the caller's to change."""
        if not self._runs:
            return
        for at in range(self._run_of(start), len(self._runs)):
            run = self._runs[at]
            if stop and run[0] >= stop:
                return
            low = bisect_left(run, start) if run[0] < start else 0
            high = bisect_left(run, stop) if stop and run[-1] >= stop else len(run)
            yield run if low == 0 and high == len(run) else run[low:high]

    def count(self, start: str, stop: str) -> int:
        """Return how many keys lie from *start* on and before *stop*."""
        if not self._runs or (stop and stop <= start):
            return 0
        first = self._run_of(start)
        last = self._run_of(stop) if stop else len(self._runs) - 1
        whole = sum(map(len, self._runs[first : last + 1]))
        skipped = bisect_left(self._runs[first], start)
        beyond = len(self._runs[last]) - bisect_left(self._runs[last], stop) if stop else 0
        return whole - skipped - beyond
