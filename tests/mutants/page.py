"""The table of README.md: how many mutants of each module were killed when it was last tried."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.modules import MODULES

FILE: Final = Path(__file__).with_name("README.md")
_ROW: Final = re.compile(r"^\| `(?P<module>weir[\w.]+)` \| (\d+) \| (\d+) \| (\d+) \|", re.MULTILINE)
_HEAD: Final = "| module | mutants | killed | equivalent | percent |\n|---|---:|---:|---:|---:|\n"


@dataclass(frozen=True, slots=True)
class Score:
    """How a module fared; the equivalent mutants are not among the others."""

    module: str
    mutants: int
    killed: int
    equivalent: int

    @property
    def percent(self) -> float:
        """Of a hundred mutants, how many were killed; of none, all."""
        return 100 * self.killed / self.mutants if self.mutants else 100.0


def read_page() -> dict[str, Score]:
    """Return what the page says, by module."""
    return {
        module: Score(module, int(mutants), int(killed), int(same))
        for module, mutants, killed, same in _ROW.findall(FILE.read_text())
    }


def write_page(scores: Iterable[Score]) -> None:
    """Write the table anew: what was tried now, what the page said of the others, and no module that is gone."""
    known = read_page() | {score.module: score for score in scores}
    rows = [_row(module, known.get(module)) for module in MODULES]
    before, _, _ = FILE.read_text().partition(_HEAD)
    FILE.write_text(before + _HEAD + "".join(rows))


def _row(module: str, score: Score | None) -> str:
    if score is None:
        return f"| `{module}` | – | – | – | – |\n"
    return f"| `{module}` | {score.mutants} | {score.killed} | {score.equivalent} | {score.percent:.1f} |\n"
