"""Changes that the garbage collector reads: its shortcut against reading every object anew."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.controllers.cluster import garbage_collector
from weir.controllers.cluster.garbage_collector import GarbageCollector
from weir.controllers.runtime.listers import decoder
from weir.gates import ALL_FEATURES
from weir.objects.kinds import PODS
from weir.objects.kinds import REPLICA_SETS as REPLICASETS

owners = st.lists(
    st.builds(
        lambda uid, blocks: {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"rs-{uid}",
            "uid": uid,
            "blockOwnerDeletion": blocks,
        },
        st.sampled_from(["u1", "u2"]),
        st.booleans(),
    ),
    max_size=2,
)
versions = st.builds(
    lambda owners, deleting, finalizers: {
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "u",
            **({"ownerReferences": owners} if owners else {}),
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}),
            **({"finalizers": finalizers} if finalizers else {}),
        },
        "spec": {},
    },
    owners,
    st.booleans(),
    st.sampled_from([[], ["orphan"], ["foregroundDeletion"], ["mine"]]),
)
#: one object as it came, changed and went, None for not being there
histories = st.lists(st.none() | versions, max_size=8)


def followed(kind: Any, history: list[Any]) -> tuple[list[Any], Any]:
    collector, before, keys = GarbageCollector(ALL_FEATURES), None, []
    for document in history:
        after = None if document is None else decoder(kind)(msgspec.Raw(msgspec.json.encode(document)))
        if before is not None or after is not None:
            keys.append(list(collector.changed(kind, before, after)))
        before = after
    return keys, collector._dependents


@given(history=histories, kind=st.sampled_from([PODS, REPLICASETS]))
def test_a_change_that_leaves_the_owners_alone_concerns_nobody(history: list[Any], kind: Any) -> None:
    quickly = followed(kind, history)
    with pytest.MonkeyPatch.context() as plainly:
        plainly.setattr(garbage_collector, "_same_owners", lambda old, new: False)
        assert followed(kind, history) == quickly
