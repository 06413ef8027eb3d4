"""The page of recorded results: complete, up to date, and every difference a named decision."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.conformance import COMPARED, SETTINGS, differing, page, recorded

from tests.stories import STORIES
from weir.conformance.isolation import isolation_problem

ROOT = Path(__file__).parents[1]
BY_NAME = {story.name: story for story in STORIES}
RESULTS = recorded()


def test_the_page_is_the_one_that_is_written():
    assert (ROOT / "docs" / "reference" / "conformance.md").read_text() == page()


@pytest.mark.parametrize("setting", sorted(RESULTS))
def test_every_story_was_played_in_every_setting(setting):
    played = {row["name"] for row in RESULTS[setting]["stories"]}
    assert played == {name for name, story in BY_NAME.items() if not isolation_problem(story)}


def test_weir_and_kubernetes_were_recorded():
    assert {"weir", "kubernetes-gates-on", "kubernetes-gates-off"} <= set(RESULTS) <= set(SETTINGS)


def test_with_the_gates_off_nothing_is_half_there():
    rows = RESULTS["kubernetes-gates-off"]["stories"]
    assert {row["name"]: row["instead"] for row in rows if row["verdict"] == "fails"} == {}


def test_weir_does_what_every_story_says():
    assert {
        row["name"]: row["instead"] for row in RESULTS["weir"]["stories"] if row["verdict"] != "passes"
    } == {}


def test_a_kubernetes_that_differs_differs_by_a_named_decision():
    found = differing({name: document for name, document in RESULTS.items() if name in COMPARED})
    assert [name for name in found if not BY_NAME[name].decisions] == []


@pytest.mark.parametrize(
    "name, decision", [(n, d) for n, story in sorted(BY_NAME.items()) for d in story.decisions]
)
def test_a_decision_that_a_story_names_is_there(name, decision):
    document, number = re.fullmatch(r"(core|dra|stock) (D-\d+|\d+)", decision).groups()
    text = (ROOT / "docs" / "spec" / f"{document}.md").read_text()
    assert f"| {number} |" in text or f"\n## {number}. " in text
