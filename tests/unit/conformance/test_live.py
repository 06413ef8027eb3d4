"""What the scheduler says of a shared cluster, as it would be said of the story's own nodes."""

from __future__ import annotations

import pytest

from weir.conformance.live import own_part

OTHER = "node(s) had untolerated taint {weir.dev/conformance: ab-02}"
SELECTOR = "node(s) didn't match Pod's node affinity/selector"
HELPLESS = "Preemption is not helpful for scheduling"


@pytest.mark.parametrize(
    "seen, own, foreign, said",
    [
        (f"0/3 nodes are available: 1 x, 2 {OTHER}.", 1, (), "0/1 nodes are available: 1 x."),
        (f"0/3 nodes are available: 1 x, 2 {SELECTOR}.", 1, (), "0/1 nodes are available: 1 x."),
        (f"0/3 nodes are available: 3 {SELECTOR}.", 1, (), f"0/1 nodes are available: 1 {SELECTOR}."),
        (
            "0/3 nodes are available: 1 node(s) had untolerated taint {control-plane: }, 2 x, 2 y.",
            2,
            ("control-plane: ",),
            "0/2 nodes are available: 2 x, 2 y.",
        ),
        (
            f"0/4 nodes are available: 1 x, 3 {OTHER}. preemption: 0/4 nodes are available: 4 {HELPLESS}.",
            1,
            (),
            f"0/1 nodes are available: 1 x. preemption: 0/1 nodes are available: 1 {HELPLESS}.",
        ),
        (
            "0/2 nodes are available: 2 y. no new claims to deallocate, "
            f"preemption: 0/2 nodes are available: 2 {HELPLESS}.",
            2,
            (),
            f"0/2 nodes are available: 2 y. preemption: 0/2 nodes are available: 2 {HELPLESS}.",
        ),
        ("0/1 nodes are available: 1 x.", 1, (), "0/1 nodes are available: 1 x."),
        ("no nodes available to schedule pods", 1, (), "no nodes available to schedule pods"),
    ],
)
def test_other_nodes_are_left_out(seen, own, foreign, said):
    assert own_part(seen, own, foreign) == said


def test_reasons_of_the_story_are_sorted_as_the_scheduler_would():
    seen = f"0/13 nodes are available: 1 b, 10 {SELECTOR}, 12 a."
    assert own_part(seen, 12) == f"0/12 nodes are available: 1 b, 12 a, 9 {SELECTOR}."
