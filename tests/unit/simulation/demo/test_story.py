"""Stories are data, refused with file and field when they cannot be read."""

from __future__ import annotations

import pytest

from tests.story_needs import used
from weir.conformance.features import PROBES
from weir.simulation.demo.story import NEEDS, StoryError, choose, find_path, find_stories, parse_story
from weir.simulation.kubelet.node_classes import CLASSES

HEAD = "{title: t, source: s, asks: a, steps: [%s]}"


@pytest.mark.parametrize(
    "step, problem",
    [
        ("{event: e, outcomes: [{pod: p}]}", "says nothing that could be compared"),
        ("{event: e, outcomes: [{pod: p, workload: w, there: true}]}", "name exactly one"),
        ("{event: e, outcomes: [{phase: Running}]}", "name exactly one"),
        ("{event: e, outcomes: [{pod: p, phaze: Running}]}", "phaze"),
        ("{event: e, outcomes: [{pod: p, stayed: long}]}", "not a duration"),
        ("{event: e, after: -5s}", "in the past"),
        ("{event: e, delete: [web]}", "write Kind/name"),
        ("{event: e, tainted: []}", "tainted"),
        ("{}", "event"),
        ("", "nothing happens"),
        ("{event: e, apply: [{kind: Pod}]}", "without metadata.name"),
        ("{event: e, apply: [{apiVersion: v1, kind: Pud, metadata: {name: x}}]}", "no kind Pud in v1"),
        ("{event: e, everywhere: [{apiVersion: v1, kind: Service, metadata: {name: x}}]}", "is no pod"),
        ("{event: e, nodes: [{name: n1, class: huge}]}", "no class 'huge'"),
        ("{event: e, nodes: [{name: n1, taints: [flaky]}]}", "'flaky' is no taint"),
        ("{event: e, nodes: [{name: n1, life: {speed: 2}}]}", "life: unknown field 'speed'"),
        ("{event: e, taint: [{node: n1, taints: [flaky]}]}", "'flaky' is no taint"),
        ("{event: e, gates: {NoSuchGate: true}}", "unrecognized feature gate"),
        ("{event: e, gates: {scheduler: true, TaintTolerationCEL: {a: b}}}", "gates: "),
        ("{event: e, gates: {older: [etcd]}}", "older is a list out of"),
        ("{event: e, outcomes: [{object: Pud/x, there: true}]}", "no kind Pud"),
        ("{event: e, outcomes: [{plan: p, waves: 1}]}", "this step has no plan 'p'"),
        ("{event: e, plan: {name: q, change: c}, outcomes: [{plan: p, waves: 1}]}", "has no plan 'p'"),
        ("{event: e, plan: {name: q}}", "change"),
    ],
)
def test_a_story_that_cannot_be_read_says_what_is_wrong(step, problem):
    with pytest.raises(StoryError, match=problem):
        parse_story(HEAD % step, "x")


def test_every_built_in_story_can_be_read_and_asks_for_something():
    assert all(step.outcomes for story in find_stories() for step in story.steps)


def test_a_word_chooses_by_name_title_or_source_and_an_unknown_one_is_refused():
    stories = find_stories()
    assert [s.name for s in choose(stories, ["racks"])] == ["kep-5500-story-3-racks"]
    with pytest.raises(StoryError, match="no story is called like 'nonsense'"):
        choose(stories, ["nonsense"])


@pytest.mark.parametrize(
    "path, found",
    [
        ("a.b", 1),
        ("l[0].x", "y"),
        ("l[1]", None),
        ("l[x=y].z", 2),
        ('a["c.d/e"]', 3),
        ("a.b.c", None),
        ("q", None),
    ],
)
def test_a_path_leads_to_a_value_or_to_none(path, found):
    assert find_path({"a": {"b": 1, "c.d/e": 3}, "l": [{"x": "y", "z": 2}]}, path) == found


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
