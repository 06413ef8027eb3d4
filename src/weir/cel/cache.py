"""Cache of compiled expressions, bounded in number and bytes.

Spec: cel.md 15 "Matching and cache". Keyed by environment and text; the least recently used go first; threads that
miss the same key wait for one compilation. A hit takes no lock: it only writes down when it happened, and a full
cache looks at these times when it must make room, for a few entries at once.
What differs from upstream: a refusal is remembered too, because compiling a broken expression again for every
taint costs more than keeping its message; of a long message only the beginning is kept. Counters may miss hits of
threads that meet.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from weir.cel.env import Env
from weir.cel.errors import CompileError
from weir.cel.lowering import ProgramError
from weir.cel.program import Program, compile

_Key = tuple[str, Env]
#: A full cache forgets this share of its entries at once (at least one).
_SHARE: Final = 64
#: Memory of all entries of one cache, about.
MOST_BYTES: Final = 64 << 20
#: Characters of a refusal's message that are kept.
_LONGEST_REFUSAL: Final = 16_384
_MOST_ISSUES: Final = 16
#: Memory of an entry without its program.
_ENTRY_BYTES: Final = 512


class CacheInfo(NamedTuple):
    """What a cache did so far."""

    hits: int
    misses: int
    size: int
    capacity: int


class _Entry:
    """A program or a refusal, and when it was last asked for."""

    __slots__ = ("bytes", "found", "used")

    def __init__(self, found: Program | CompileError | ProgramError, text: str, used: int) -> None:
        self.found, self.used = found, used
        if isinstance(found, Program):
            self.bytes = _ENTRY_BYTES + found.bytes + 4 * len(text)
        else:  # texts take up to four bytes a character
            issues = len(found.issues) if isinstance(found, CompileError) else 0
            self.bytes = _ENTRY_BYTES * (1 + issues) + 4 * (len(str(found)) + len(text))


class ProgramCache:
    """At most *capacity* compiled expressions of *most_bytes* together, and what refused ones said.

    >>> from weir.cel import types
    >>> from weir.cel.library import KUBERNETES
    >>> env, programs = Env(KUBERNETES, {"x": types.INT}), ProgramCache(10)
    >>> programs.compile("x > 1", env) is programs.compile("x > 1", env), programs.hits, programs.misses
    (True, 1, 1)
    """

    __slots__ = (
        "_clock", "_compiling", "_entries", "_lock", "bytes", "capacity", "hits", "misses", "most_bytes",
    )  # fmt: skip

    def __init__(self, capacity: int, most_bytes: int = MOST_BYTES) -> None:
        if capacity < 1:
            raise ValueError("a cache holds at least one program")
        self.capacity: Final = capacity
        self.most_bytes: Final = most_bytes
        self.bytes = 0
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
                entry = _Entry(compile(*key), key[0], self._clock)
            except (CompileError, ProgramError) as refusal:
                entry = _Entry(_shortened(refusal), key[0], self._clock)
            return entry
        finally:
            with self._lock:
                if entry is not None:
                    self._make_room(entry.bytes)
                    self._entries[key] = entry
                    self.bytes += entry.bytes
                self._compiling.pop(key).set()

    def _make_room(self, needed: int) -> None:
        """Forget the least recently used entries where there is no room for one more of *needed* bytes."""
        if len(self._entries) < self.capacity and self.bytes + needed <= self.most_bytes:
            return
        oldest = sorted(self._entries.items(), key=lambda item: item[1].used)
        fewer = len(self._entries) - max(1, min(self.capacity, len(self._entries)) // _SHARE)
        room = self.most_bytes - needed
        for key, entry in oldest:
            if len(self._entries) <= fewer and self.bytes <= room:
                return
            self.bytes -= entry.bytes
            del self._entries[key]


def _shortened(refusal: CompileError | ProgramError) -> CompileError | ProgramError:
    """Return *refusal* with as much of its message as is worth keeping, without the frames it came through."""
    text = str(refusal)
    if len(text) <= _LONGEST_REFUSAL:
        return refusal.with_traceback(None)
    beginning = f"{text[:_LONGEST_REFUSAL]}…"
    if isinstance(refusal, CompileError):
        return CompileError(refusal.issues[:_MOST_ISSUES], beginning)
    return ProgramError(beginning)
