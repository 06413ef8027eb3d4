"""Kubernetes' end-to-end specs: which are run, which are left out, and the reason for each.

A spec is known by its full name, as `e2e.test --list-tests` prints it; specs.txt holds all names of the pinned
version, so that left-out.yaml can be held against them without Go. What is left out is named by patterns with a reason,
a list for each group: a pattern is a piece of the name in which `*` stands for anything; `but` names its exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
NAMES, LEFT_OUT = HERE / "specs.txt", HERE / "left-out.yaml"
SUITE = "Kubernetes e2e suite"
#: In this order a spec belongs to the first group whose mark its name bears.
MARKS = {
    "dra": ("[DRA]",),
    **{
        f"sig-{name}": (f"[sig-{name}]",)
        for name in (
            "scheduling",
            "api-machinery",
            "apps",
            "auth",
            "instrumentation",
            "architecture",
            "node",
            "network",
            "storage",
            "autoscaling",
            "cli",
        )
    },
    "others": ("",),
}
GROUPS = tuple(MARKS)
CONFORMANCE = "[Conformance]"
#: What Go's regular expressions take for more than itself.
META = re.compile(r"[][\\.+*?()|{}^$]")


def group_of(name: str) -> str:
    """Return the group that a spec belongs to."""
    return next(group for group, marks in MARKS.items() if any(mark in name for mark in marks))


def has_piece(name: str, text: str) -> bool:
    """Return whether a name has this piece, in which `*` stands for anything.

    >>> has_piece("[sig-apps] Job should run once", "[sig-apps]*once"), has_piece("abc", "ab*bc")
    (True, False)
    """
    at = 0
    for piece in text.split("*"):
        found = name.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


@dataclass(frozen=True)
class Pattern:
    """Some specs of a group that are not run, and the reason."""

    text: str
    reason: str
    but: tuple[str, ...] = ()  #: pieces of the names that are run all the same

    def matches(self, name: str) -> bool:
        return has_piece(name, self.text) and not any(has_piece(name, each) for each in self.but)


def read_names(path: Path = NAMES) -> list[str]:
    return path.read_text().splitlines()


def read_patterns(path: Path = LEFT_OUT) -> dict[str, list[Pattern]]:
    """Return the patterns of each group, in the order of the file."""
    document = yaml.safe_load(path.read_text())
    return {
        group: [
            Pattern(text, entry["reason"], tuple(entry.get("but", ())))
            for entry in entries
            for text in entry["specs"]
        ]
        for group, entries in document.items()
    }


@dataclass(frozen=True)
class Selection:
    """What of one group is run, and which pattern leaves out the rest."""

    group: str
    run: tuple[str, ...]
    left_out: dict[str, Pattern]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.run, *self.left_out)


def select(group: str, names: Iterable[str], patterns: Sequence[Pattern]) -> Selection:
    """Divide the specs of a group; the first pattern that matches gives the reason."""
    run: list[str] = []
    left_out: dict[str, Pattern] = {}
    for name in names:
        if group_of(name) != group:
            continue
        pattern = next((each for each in patterns if each.matches(name)), None)
        if pattern is None:
            run.append(name)
        else:
            left_out[name] = pattern
    return Selection(group, tuple(run), left_out)


def selections(names: Sequence[str], patterns: dict[str, list[Pattern]]) -> list[Selection]:
    return [select(group, names, patterns.get(group, [])) for group in GROUPS]


def listed(output: str) -> list[str]:
    """Return the names in what `e2e.test --list-tests` prints, sorted.

    >>> listed('''The following spec names can be used with 'ginkgo run --focus/skip':
    ...     test/e2e/apps/job.go:1: [sig-apps] Job should run a job [Conformance]
    ... ''')
    ['[sig-apps] Job should run a job [Conformance]']
    """
    return sorted(re.findall(r"^ +\S+:\d+: (.*\S)\s*$", output, re.MULTILINE))


def focus(name: str) -> str:
    """Return the regular expression (Go's) that this spec alone fulfils.

    >>> focus("[sig-apps] Job runs (once)")
    '^Kubernetes e2e suite \\\\[sig-apps\\\\] Job runs \\\\(once\\\\)$'
    """
    return f"^{SUITE} {META.sub(_escaped, name)}$"


def _escaped(found: re.Match[str]) -> str:
    return "\\" + found[0]


def parts(names: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """Yield the names in parts of about equal length, neighbours (which tend to be equally slow) in different ones.

    >>> list(parts(["a", "b", "c", "d", "e"], 3))
    [('a', 'c', 'e'), ('b', 'd')]
    """
    count = -(-len(names) // size)
    for at in range(count):
        yield tuple(names[at::count])
