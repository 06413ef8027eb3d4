"""Levels of flow control: the hands of flows, and when clients that were refused may come back."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from weir.apiserver.compat.flowcontrol.levels import LONGEST, RetryAfter, flow_hash, shuffle_shard


def test_one_refusal_is_one_second():
    assert RetryAfter().refuse(100.5) == 1


def test_it_doubles_under_pressure_and_falls_again():
    retry = RetryAfter()
    said = [retry.refuse(100 + second + part / 10) for second in range(300) for part in range(10)]
    assert said[0] == 1 and sorted(said) == said and said[-1] == LONGEST
    later = [retry.refuse(1000 + 100 * second) for second in range(40)]
    assert later[-1] == 1


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
