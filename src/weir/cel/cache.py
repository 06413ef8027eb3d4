"""Which expressions are compiled already?

Spec: cel.md 15 "Matching and cache". Keyed by environment and text; the least recently used go first; threads that
miss the same key wait for one compilation. A hit takes no lock: it only writes down when it happened, and a full
cache looks at these times when it must make room, for a few entries at once.
What differs from upstream: a refusal is remembered too, because compiling a broken expression again for every
taint costs more than keeping its message. Counters may miss hits of threads that meet.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from weir.cel.env import Env
from weir.cel.lowering import ProgramError
from weir.cel.program import Program, compile
from weir.cel.source import CompileError

_Key = tuple[str, Env]
#: A full cache forgets this share of its entries at once (at least one).
_SHARE: Final = 64


class CacheInfo(NamedTuple):
    """What a cache did so far."""

    hits: int
    misses: int
    size: int
    capacity: int


class _Entry:
    """A program or a refusal, and when it was last asked for."""

    __slots__ = ("found", "used")

    def __init__(self, found: Program | CompileError | ProgramError, used: int) -> None:
        self.found, self.used = found, used


class ProgramCache:
    """At most *capacity* compiled expressions, and what refused ones said.

    >>> from weir.cel import types
    >>> from weir.cel.library import KUBERNETES
    >>> env, programs = Env(KUBERNETES, {"x": types.INT}), ProgramCache(10)
    >>> programs.compile("x > 1", env) is programs.compile("x > 1", env), programs.hits, programs.misses
    (True, 1, 1)
    """

    __slots__ = ("_clock", "_compiling", "_entries", "_lock", "capacity", "hits", "misses")

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a cache holds at least one program")
        self.capacity: Final = capacity
        self.hits = 0
        self.misses = 0
        self._clock = 0
        self._entries: dict[_Key, _Entry] = {}
        self._lock = threading.Lock()
        self._compiling: dict[_Key, threading.Event] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def info(self) -> CacheInfo:
        """Return hits, misses, size and capacity."""
        return CacheInfo(self.hits, self.misses, len(self._entries), self.capacity)

    def compile(self, expression: str, env: Env) -> Program:
        """Return the program of *expression*; raises CompileError or ProgramError, also from memory."""
        entry = self._entries.get((expression, env))
        if entry is None:
            entry = self._miss((expression, env))
        else:
            self.hits += 1
        self._clock = entry.used = self._clock + 1
        found = entry.found
        if found.__class__ is Program:
            return found
        assert isinstance(found, CompileError | ProgramError)
        raise found.with_traceback(None)

    def _miss(self, key: _Key) -> _Entry:
        """Compile, or wait for the thread that does."""
        while True:
            with self._lock:
                entry = self._entries.get(key)
                waiting = self._compiling.get(key)
                if entry is None and waiting is None:
                    self._compiling[key] = threading.Event()
                    self.misses += 1
            if entry is not None:
                self.hits += 1
                return entry
            if waiting is None:
                return self._fill(key)
            waiting.wait()

    def _fill(self, key: _Key) -> _Entry:
        entry = None
        try:
            try:
                entry = _Entry(compile(*key), self._clock)
            except (CompileError, ProgramError) as refusal:
                entry = _Entry(refusal, self._clock)
            return entry
        finally:
            with self._lock:
                if entry is not None:
                    self._make_room()
                    self._entries[key] = entry
                self._compiling.pop(key).set()

    def _make_room(self) -> None:
        """Forget the least recently used entries of a full cache."""
        if len(self._entries) < self.capacity:
            return
        oldest = sorted(self._entries.items(), key=lambda item: item[1].used)
        for key, _ in oldest[: max(1, self.capacity // _SHARE)]:
            del self._entries[key]
