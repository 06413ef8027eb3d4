"""Pods' lives written by hand: what a history would have held had a copy been run."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from weir.gates import ALL_FEATURES
from weir.whatif.history import Cause, History, PodLife, Why

DRIVEN_OUT = Cause(Why.EVICTED)


def life(
    name: str,
    *,
    owner: str = "ReplicaSet/web",
    made: float = -10.0,
    node: str = "a",
    left: float | None = None,
    cause: Cause | None = None,
    **more: Any,
) -> PodLife:
    """Return a pod that runs since it was made, unless it is said otherwise; one that left was evicted."""
    more = {"bound": made if node else None, "running": made if node else None, **more}
    cause = DRIVEN_OUT if cause is None and left is not None else cause
    uid = f"uid-of-{owner}" if owner else ""
    return PodLife("default", name, f"uid-{name}", owner, uid, made, 0, node, left=left, cause=cause, **more)


def history(lives: Iterable[PodLife], *, seen: float = 60.0) -> History:
    found = History(ALL_FEATURES)
    found.lives = {each.uid: each for each in lives}
    found.last_seen = seen
    return found


def chain(*lives: PodLife) -> list[PodLife]:
    """Return pods each of which was made in the place of the one before."""
    for earlier, later in pairwise(lives):
        earlier.instead = later
    return list(lives)


def by_owner(one: PodLife) -> str:
    return f"{one.namespace}/{one.owner}" if one.owner else f"{one.namespace}/Pod/{one.name}"
