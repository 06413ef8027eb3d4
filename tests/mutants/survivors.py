"""Which mutants are known to live, and why: survivors.yaml, held against what was found.

An entry with a `reason` is equivalent: no test could tell it from the original. One without is a gap, and counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import yaml

FILE: Final = Path(__file__).with_name("survivors.yaml")


def read_survivors() -> dict[str, str]:
    """Return reason by mutant name; the reason is empty for a gap."""
    known: dict[str, dict[str, str]] = yaml.safe_load(FILE.read_text()) or {}
    return {
        f"{module} {name}": reason or "" for module, names in known.items() for name, reason in names.items()
    }


def write_survivors(reasons: Mapping[str, str], living: Iterable[str], exists: Iterable[str]) -> None:
    """Write the list anew: equivalent ones that still exist, and the gaps found now."""
    present = set(exists)
    kept = {name: reason for name, reason in reasons.items() if reason and name in present}
    kept |= {name: reasons.get(name, "") for name in living}
    by_module: dict[str, dict[str, str]] = {}
    for name in sorted(kept):
        module, _, rest = name.partition(" ")
        by_module.setdefault(module, {})[rest] = kept[name]
    opening = FILE.read_text().partition("\n\n")[0]
    FILE.write_text(f"{opening}\n\n{yaml.safe_dump(by_module, allow_unicode=True, width=118)}")
