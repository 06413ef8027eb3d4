"""Hands of queues are fair: every flow gets different cards, all queues are used, and few flows share a whole hand."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from weir.apiserver.flowcontrol.shuffle import flow_hash, shuffle_shard


@given(st.integers(0, 2**64 - 1), st.integers(1, 600), st.data())
def test_a_hand_holds_different_queues(number, queues, data):
    size = data.draw(st.integers(1, min(queues, 10)))
    hand = shuffle_shard(number, queues, size)
    assert len(hand) == len(set(hand)) == size
    assert all(0 <= card < queues for card in hand)


def test_hands_use_all_queues_alike_and_are_seldom_the_same():
    hands = [shuffle_shard(flow_hash("schema", f"user-{i}"), 64, 6) for i in range(2000)]
    used = Counter(card for hand in hands for card in hand)
    assert len(used) == 64 and max(used.values()) < 2 * min(used.values())
    assert len({frozenset(hand) for hand in hands}) > 1990


def test_schema_and_distinguisher_are_told_apart():
    assert flow_hash("ab", "c") != flow_hash("a", "bc")
