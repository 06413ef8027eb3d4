"""The journal of a plan that is carried out: one line of JSON for everything done, kept beside the plan.

`--resume` and `--undo` read from it which waves were made; people read in it what was done and when.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from weir.objects.times import format_time
from weir.plan.document import Plan, PlanError, write

Step = Literal["begun", "made", "reached", "stopped", "undone"]


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was done."""

    plan: str  #: the digest of the plan
    at: str
    wave: int
    step: Step
    cluster: str = ""
    text: str = ""


def digest(plan: Plan) -> str:
    """Return what tells this plan from others."""
    return hashlib.sha256(msgspec.json.encode(write(plan), order="sorted")).hexdigest()[:16]


@dataclass
class Journal:
    """The journal of one plan."""

    path: Path
    plan: str
    cluster: str
    entries: list[Entry]
    length: int  #: bytes of its whole lines; what is behind is overwritten

    @classmethod
    def open(cls, path: Path, plan: Plan, cluster: str) -> Journal:
        """Return the journal at *path*, empty where there is none; raises PlanError when it is another plan's."""
        wanted, entries, whole = digest(plan), [], 0
        if path.exists():
            for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
                if not line.endswith(
                    b"\n"
                ):  # cut off while it was written, and what it says was not done yet
                    break
                whole += len(line)
                try:
                    entries.append(msgspec.json.decode(line, type=Entry))
                except msgspec.MsgspecError as error:
                    raise PlanError(f"{path}:{number}: not a line of a plan's journal: {error}") from None
        for each in entries:
            if each.plan != wanted:
                raise PlanError(
                    f"{path}: the journal of another plan; move it away, or name another file with --journal"
                )
            if each.cluster != cluster:
                raise PlanError(f"{path}: the plan was begun in {each.cluster}, not in {cluster}")
        return cls(path, wanted, cluster, entries, whole)

    def note(self, at: datetime, wave: int, step: Step, text: str = "") -> None:
        """Write one line; it is on the disk when this returns."""
        entry = Entry(self.plan, format_time(at), wave, step, self.cluster, text)
        with self.path.open("ab") as file:
            file.truncate(self.length)
            self.length += file.write(msgspec.json.encode(entry) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.entries.append(entry)

    def reached(self) -> set[int]:
        """Return the waves whose state was reached and that were not undone."""
        return self._latest(("reached",))

    def to_undo(self) -> list[int]:
        """Return the waves of which something may be set, the last one first."""
        return sorted(self._latest(("begun", "made", "reached", "stopped")), reverse=True)

    def _latest(self, steps: Iterable[Step]) -> set[int]:
        last = {each.wave: each.step for each in self.entries}
        return {wave for wave, step in last.items() if step in steps}
