"""Shuffle sharding: the queues a flow may use, by its hash.

Two flows rarely share all their queues, so a flow that fills its own leaves the others at least one. Hands are the
same as upstream's.
"""

from __future__ import annotations

import hashlib

__all__ = ["flow_hash", "shuffle_shard"]


def flow_hash(schema: str, distinguisher: str) -> int:
    """Return the number that stands for a flow: sixty-four bits.

    >>> flow_hash("service-accounts", "system:serviceaccount:default:web") >> 64
    0
    """
    text = f"{schema}\0{distinguisher}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")


def shuffle_shard(number: int, queues: int, hand_size: int) -> tuple[int, ...]:
    """Return *hand_size* different queues of *queues*, chosen by *number*.

    >>> shuffle_shard(0, 4, 2), shuffle_shard(5, 4, 2), shuffle_shard(11, 4, 4)
    ((0, 1), (1, 2), (3, 2, 0, 1))
    """
    left = []
    for i in range(hand_size):
        number, card = divmod(number, queues - i)
        left.append(card)
    hand = []
    for i, card in enumerate(left):
        for before in reversed(left[:i]):
            if card >= before:
                card += 1
        hand.append(card)
    return tuple(hand)
