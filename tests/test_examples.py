"""The stories of the KEPs, asked of `weir explain`, come out as specified; `make demo` lives through them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples.story import Story, stories

from weir.gates import ALL_FEATURES
from weir.objects.manifest import read_values
from weir.validate import validate

STORIES = stories()
SEEDS = {
    "KEP-5471, story 1", "KEP-5471, story 2", "KEP-5471, story 3",
    "KEP-5500, story 1", "KEP-5500, story 2", "KEP-5500, story 3",
    "KEP-5721, story 1", "KEP-5721, story 2", "KEP-5721, story 3", "KEP-5721, story 4",
    *(f"Kubernetes v1.35 announcement, example {number}" for number in (1, 2, 3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.folder.name)
def test_a_story_comes_out_as_specified(story: Story):
    assert [o.differences for o in story.outcomes() if o.differences] == []


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.folder.name)
def test_what_a_story_shows_is_accepted_by_the_api_server(story: Story):
    documents = [d for name in ("cluster", "pods") for d in read_values(_bytes(story, name), name)]
    assert [str(error) for d in documents for error in validate(d, gates=ALL_FEATURES)] == []


def test_no_story_of_the_documents_is_missing():
    assert {story.expected["source"] for story in STORIES} >= SEEDS


def test_the_demo_ends_well_and_says_how_much_it_checked():
    done = subprocess.run(
        [sys.executable, "-m", "examples"], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    assert (done.returncode, done.stdout.splitlines()[-1].endswith("all as specified")) == (0, True)


def test_an_outcome_that_differs_is_told_and_fails(tmp_path):
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    for name in ("cluster", "pods"):
        (wrong / f"{name}.yaml").write_bytes(_bytes(STORIES[0], name))
    text = _bytes(STORIES[0], "expected").decode().replace("fits: [spot-node-1]", "fits: []")
    (wrong / "expected.yaml").write_text(text)
    assert any(outcome.differences for outcome in Story(wrong).outcomes())


def _bytes(story: Story, name: str) -> bytes:
    return (story.folder / f"{name}.yaml").read_bytes()
