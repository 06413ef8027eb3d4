"""What came of replaying a folder."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """What came of a folder."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, list[str]] = field(default_factory=dict)
    waiting: dict[str, list[str]] = field(default_factory=dict)

    def areas(self) -> dict[str, tuple[int, int]]:
        """Passed and failed per area."""
        found: dict[str, tuple[int, int]] = {}
        for name in self.passed:
            area = name.partition("/")[0]
            good, bad = found.get(area, (0, 0))
            found[area] = (good + 1, bad)
        for name in self.failed:
            area = name.partition("/")[0]
            good, bad = found.get(area, (0, 0))
            found[area] = (good, bad + 1)
        return found
