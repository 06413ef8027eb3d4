"""Polls files for changes and reloads them.

For tokens, certificates and encryption keys replaced under a running server. A missing file is polled again; an
invalid one leaves the previous content in force.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from weir.clock import Clock

logger = logging.getLogger("weir.apiserver.files")
LOOK_SECONDS = 2.0

_Mark = tuple[tuple[int, int, int], ...]


def _mark(paths: Sequence[Path]) -> _Mark | None:
    """Return what changes when one of *paths* does; None when one is not there."""
    try:
        found = [path.stat() for path in paths]
    except OSError:
        return None
    return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)


class FileChanges:
    """The files of one server, each with what to do when it changed."""

    def __init__(self) -> None:
        self._followed: list[tuple[Sequence[Path], Callable[[], object]]] = []
        self._seen: list[_Mark | None] = []

    def follow(self, paths: Sequence[Path], changed: Callable[[], object]) -> None:
        """Call *changed* whenever one of *paths* is another file than before. It has just been read."""
        self._followed.append((paths, changed))
        self._seen.append(_mark(paths))

    def look(self) -> None:
        """Look once, and act on what changed."""
        for number, (paths, changed) in enumerate(self._followed):
            mark = _mark(paths)
            if mark is None or mark == self._seen[number]:
                continue
            self._seen[number] = mark
            try:
                changed()
            except (OSError, ValueError) as error:
                logger.error("%s changed and cannot be used, what was read before stays: %s", paths[0], error)

    async def run(self, clock: Clock) -> None:
        """Look for ever."""
        while True:
            await clock.sleep(LOOK_SECONDS)
            self.look()
