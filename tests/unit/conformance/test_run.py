"""The longest stories begin first; who compares the scheduler's words is played among few."""

from __future__ import annotations

from weir.conformance.run import FEW, Turns
from weir.simulation.demo.story import parse_story


def story(name, after="10s", message=""):
    outcome = f'message: "{message}"' if message else "phase: Running"
    steps = f"[{{event: e, after: {after}, outcomes: [{{pod: p, {outcome}}}]}}]"
    return parse_story(f"{{title: t, source: s, asks: a, steps: {steps}}}", name)


def order(stories, at_once):
    turns, over, begun = Turns(stories, at_once), set(), []
    while True:
        new = turns.next(over)
        if not new:
            return begun
        begun.append([stories[number].name for number in new])
        over |= set(new)


def test_long_ones_then_those_that_compare_messages_then_the_rest():
    stories = [story("short"), story("longer", "20s"), story("says", message="x"), story("long", "5m")]
    assert order(stories, 1) == [["long"], ["says"], ["longer"], ["short"]]


def test_few_at_once_while_messages_are_compared():
    stories = [story(f"s{number}", message="x" if number == 0 else "") for number in range(20)]
    assert [len(each) for each in order(stories, 12)][:2] == [FEW, 12]


def test_everybody_gets_a_turn():
    stories = [story(f"s{number}") for number in range(7)]
    assert sorted(name for names in order(stories, 3) for name in names) == sorted(s.name for s in stories)
