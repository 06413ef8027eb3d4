"""The node stories of `make demo`, lived on a stock cluster with weir's operator: they come out as specified."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stock.virtual import StockCluster
from tests.stories import STORIES
from weir.simulation.demo import play as player
from weir.simulation.demo.play import Ended, play

#: A stock cluster has its own devices and claims, which weir's operator does not touch.
DEVICES = (
    "kep-5055-",
    "kep-5471-claims",
    "kep-5471-story-4-dra-claims",
    "kep-5471-story-5-error-budget",
    "kep-5721-claims",
)
#: What the objects say where weir lowered them, and what its hooks say of a bad one, is spelled otherwise.
SPELLING = ("spec.tolerations", "refused")


def stock_spelling(value: Any) -> Any:
    """Return an object with expressions in the spelling that reaches a hook."""
    if isinstance(value, list):
        return [stock_spelling(each) for each in value]
    if not isinstance(value, dict):
        return value
    changed = {name: stock_spelling(each) for name, each in value.items()}
    if "tolerations" in changed:
        changed["tolerations"] = [_entry(entry) for entry in changed["tolerations"] or ()]
    return changed


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    if not entry.keys() <= {"expression", "tolerationSeconds"}:
        return entry
    rest = {name: value for name, value in entry.items() if name != "expression"}
    return {"operator": "CEL", "value": entry.get("expression", ""), **rest}


class Stage(StockCluster):
    """Takes the stories' objects as a stock cluster's users would write them."""

    def apply(self, *objects):
        return super().apply(*(stock_spelling(each) for each in objects))

    def create(self, document):
        return super().create(stock_spelling(document))

    def patch(self, kind, name, patch, namespace="default"):
        return super().patch(kind, name, stock_spelling(patch), namespace)


def chosen():
    return [
        story
        for story in STORIES
        if not story.name.startswith(DEVICES) and not story.sets_gates and not story.has_plan
    ]


@pytest.mark.parametrize("story", chosen(), ids=lambda story: story.name)
def test_a_story_comes_out_as_specified(story, monkeypatch):
    monkeypatch.setattr(player, "Cluster", Stage)
    ended = [moment for moment in play(story) if isinstance(moment, Ended)]
    different = [
        text
        for moment in ended
        for judged in moment.judged
        for text in judged.differences
        if not text.startswith(SPELLING)
    ]
    assert ended and different == []
    assert [text for moment in ended for text in moment.unexpected] == []


def test_most_node_stories_are_among_them():
    assert len(chosen()) >= 17
