"""Checks that a story of the KEPs comes out as specified: reads a folder of examples, asks weir, compares.

A folder holds `cluster.yaml` (what is there), `pods.yaml` (what is asked for) and `expected.yaml`: per pod the
nodes it fits, why not elsewhere, how many seconds it may stay (null: for ever), the scheduler's message and the
smallest change; `then` changes the cluster and asks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.explain.explanation import Explanation
from weir.explain.pod import explain
from weir.explain.subject import Subject, subjects
from weir.explain.words import sentence
from weir.gates import ALL_FEATURES
from weir.objects.manifest import read_values
from weir.world import World

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """One pod's answer, and where it differs from what is specified."""

    event: str  #: what happened to the cluster before, or ""
    answer: Explanation
    differences: tuple[str, ...]


@dataclass(frozen=True)
class Story:
    """One folder of examples."""

    folder: Path

    @property
    def expected(self) -> dict[str, Any]:
        return dict(_documents(self.folder / "expected.yaml")[0])

    def outcomes(self) -> Iterator[Outcome]:
        """Yield the answer to every question of the story, compared with what is specified."""
        expected = self.expected
        documents = _documents(self.folder / "cluster.yaml")
        pods = {s.name: s for document in _documents(self.folder / "pods.yaml") for s in subjects(document)}
        for step in ({"event": "", **expected}, *expected.get("then", ())):
            documents = [*documents, *step.get("add", ())]
            world = World.of(documents)
            for outcome in step["outcomes"]:
                yield _compare(step["event"], pods[outcome["pod"]], world, outcome)


def stories() -> list[Story]:
    """Return every story, in the order of the folders' names."""
    return [Story(path.parent) for path in sorted(FOLDER.glob("*/expected.yaml"))]


def _documents(path: Path) -> list[Any]:
    return read_values(path.read_bytes(), str(path))


def _compare(event: str, subject: Subject, world: World, outcome: dict[str, Any]) -> Outcome:
    answer = explain(subject, world, ALL_FEATURES)
    found = _found(answer)
    differences = []
    for question, wanted in outcome.items():
        if question == "pod":
            continue
        given = found[question]
        if question == "alternatives":
            given = [text for text in given if text in wanted]
        elif isinstance(wanted, dict):
            given = {key: given.get(key, "(no such node)") for key in wanted}
        if given != wanted:
            differences.append(f"{question}: specified {wanted!r}, found {given!r}")
    return Outcome(event, answer, tuple(differences))


def _found(answer: Explanation) -> dict[str, Any]:
    limits = {v.node: v.stay.limit for v in answer.nodes}
    return {
        "fits": list(answer.fitting) if not answer.blockers else [],
        "why": {v.node: "; ".join(map(sentence, v.reasons)) for v in answer.nodes if v.reasons},
        "stays": {n: None if limit is None else limit.total_seconds() for n, limit in limits.items()},
        "dislikes": {v.node: list(map(str, v.disliked)) for v in answer.nodes},
        "message": answer.attempt.message,
        "fix": "; ".join(edit.say() for edit in answer.fix.edits) if answer.fix else None,
        "alternatives": [
            "; ".join(edit.say() for edit in edits)
            for edits in (answer.fix.alternatives if answer.fix else ())
        ],
    }
