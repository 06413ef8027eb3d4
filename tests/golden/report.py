"""What came of replaying a folder."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """What came of a folder."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, list[str]] = field(default_factory=dict)
    waiting: dict[str, list[str]] = field(default_factory=dict)
    #: passed only as a kept state is shown: a cluster in which the components run answered otherwise, maybe because it
    #: lacks something no recording shows
    kept: dict[str, list[str]] = field(default_factory=dict)

    def tell(self, name: str, wrong: list[str]) -> None:
        """Note one fixture."""
        if wrong:
            self.failed[name] = wrong
        else:
            self.passed.append(name)

    def add(self, other: Report) -> None:
        """Note what another report says too."""
        self.passed += other.passed
        self.failed.update(other.failed)
        self.kept.update(other.kept)
        for need, names in other.waiting.items():
            self.waiting.setdefault(need, []).extend(names)

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
