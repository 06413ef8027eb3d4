"""Which expressions are compiled already?

Spec: cel.md 15 "Matching and cache". Keyed by environment and text; least recently used goes first; threads that
miss the same key wait for one compilation. What differs from upstream: a refusal is remembered too, because
compiling a broken expression again for every taint costs more than keeping its message.
"""

from __future__ import annotations

import threading
from typing import Final

from weir.cel.env import Env
from weir.cel.lowering import ProgramError
from weir.cel.program import Program, compile
from weir.cel.source import CompileError

_Key = tuple[int, str]


class ProgramCache:
    """At most *capacity* compiled expressions, and what refused ones said.

    >>> from weir.cel import types
    >>> from weir.cel.library import KUBERNETES
    >>> env, programs = Env(KUBERNETES, {"x": types.INT}), ProgramCache(10)
    >>> programs.compile("x > 1", env) is programs.compile("x > 1", env), programs.hits, programs.misses
    (True, 1, 1)
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a cache holds at least one program")
        self.capacity: Final = capacity
        self.hits = 0
        self.misses = 0
        # Dicts keep their order: the front is the least recently used. The environment is kept alive by its
        # programs, so its id cannot be taken over by another one while an entry lives.
        self._entries: dict[_Key, tuple[Env, Program | CompileError | ProgramError]] = {}
        self._lock = threading.Lock()
        self._compiling: dict[_Key, threading.Event] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def compile(self, expression: str, env: Env) -> Program:
        """Return the program of *expression*; raises CompileError or ProgramError, also from memory."""
        key = (id(env), expression)
        while True:
            with self._lock:
                entry = self._entries.pop(key, None)
                if entry is not None:
                    self._entries[key] = entry
                    self.hits += 1
                    break
                waiting = self._compiling.get(key)
                if waiting is None:
                    self._compiling[key] = threading.Event()
                    self.misses += 1
            if waiting is None:
                entry = self._fill(key, expression, env)
                break
            waiting.wait()
        found = entry[1]
        if found.__class__ is Program:
            return found
        assert isinstance(found, CompileError | ProgramError)
        raise found.with_traceback(None)

    def _fill(
        self, key: _Key, expression: str, env: Env
    ) -> tuple[Env, Program | CompileError | ProgramError]:
        entry: tuple[Env, Program | CompileError | ProgramError] | None = None
        try:
            entry = (env, compile(expression, env))
        except (CompileError, ProgramError) as refusal:
            entry = (env, refusal)
        finally:
            with self._lock:
                if entry is not None:
                    self._entries[key] = entry
                    if len(self._entries) > self.capacity:
                        del self._entries[next(iter(self._entries))]
                self._compiling.pop(key).set()
        return entry
