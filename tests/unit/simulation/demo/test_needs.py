"""Every story says what it needs, and every need can be asked for."""

from __future__ import annotations

import pytest

from tests.story_needs import used
from weir.conformance.features import PROBES
from weir.simulation.demo.story import NEEDS, StoryError, find_stories, parse_story
from weir.simulation.kubelet.node_classes import CLASSES

STORIES = find_stories()


def shown(story):
    """What a story shows by what it uses that it needs."""
    nodes = [*story.nodes, *(node for step in story.steps for node in step.nodes)]
    documents = [*story.objects]
    found = set()
    for step in story.steps:
        documents += [*step.apply, *step.everywhere, *(patch.merge for patch in step.patch)]
        if any("taint" in fault for fault in step.device):
            found.add("device-taints")
    for node in nodes:
        if node.devices or CLASSES[node.node_class].devices:
            found.add("devices")
        if isinstance(node.devices, dict) and node.devices.get("taints") == "separate":
            found.add("separate-taints")
    return found | used(documents)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_declares_what_it_uses(story):
    assert shown(story) <= set(story.needs)


def test_every_need_has_a_probe():
    assert set(PROBES) == set(NEEDS)


def test_a_need_nobody_knows_is_refused():
    text = "{title: t, source: s, asks: a, needs: [magic], steps: [{event: e}]}"
    with pytest.raises(StoryError, match=r"x: needs: 'magic' is none of numeric, semver"):
        parse_story(text, "x")


def test_time_in_a_live_cluster_is_shorter_never_longer():
    text = "{title: t, source: s, asks: a, steps: [{event: e, after: 10s, live: 1m}]}"
    with pytest.raises(StoryError, match="live: '1m' is not between nothing and '10s'"):
        parse_story(text, "x")


def test_no_story_is_longer_than_ten_minutes_in_a_live_cluster():
    assert max(story.lasts_live for story in STORIES if not story.sets_gates).total_seconds() <= 600
