"""Whose the claims of a StatefulSet's pods are, by its retention policy and by who else owns them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from weir.controllers.workloads.statefulset import StatefulClaims
from weir.objects.kinds import by_kind

SETS = by_kind("apps/v1", "StatefulSet")
POD = SimpleNamespace(metadata=SimpleNamespace(name="db-0", uid="pod-uid"))
OURS = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "name": "db",
    "uid": "set-uid",
    "controller": True,
    "blockOwnerDeletion": True,
}
OF_POD = {**OURS, "apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "pod-uid"}
NOT_IN_CONTROL = {**OURS, "controller": False}
EXTERNAL = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}
OTHER_CONTROLLER = {**OURS, "name": "other", "uid": "other"}
STALE = {**OURS, "uid": "an-earlier-set"}
RETAIN, WITH_SET, WITH_BOTH = {}, {"whenDeleted": "Delete"}, {"whenDeleted": "Delete", "whenScaled": "Delete"}


def changed(policy, owners, *, scaled_down=False):
    """Return the owners that a claim with *owners* is given, None when it is left alone."""
    claim = {
        "metadata": {"name": "data-db-0", "namespace": "d", "resourceVersion": "7", "ownerReferences": owners}
    }
    stateful = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "d", "uid": "set-uid"},
        "spec": {
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
            "persistentVolumeClaimRetentionPolicy": policy,
        },
    }
    listers = SimpleNamespace(get=lambda kind, name, namespace: claim if name == "data-db-0" else None)
    found = [*StatefulClaims(stateful, SETS, listers).retained(0, POD, scaled_down=scaled_down)]
    return found[0].patch["metadata"]["ownerReferences"] or [] if found else None


@pytest.mark.parametrize(
    ("policy", "owners", "expected"),
    [
        (RETAIN, [], None),
        (RETAIN, [OURS, EXTERNAL], [EXTERNAL]),
        (RETAIN, [OURS, OTHER_CONTROLLER], [OTHER_CONTROLLER]),
        (WITH_SET, [], [OURS]),
        (WITH_SET, [OURS], None),
        (WITH_SET, [EXTERNAL], [EXTERNAL, OURS]),
        (WITH_SET, [NOT_IN_CONTROL], [OURS]),
        (WITH_SET, [OTHER_CONTROLLER], None),
        (WITH_SET, [OTHER_CONTROLLER, NOT_IN_CONTROL], [OTHER_CONTROLLER]),
        (WITH_SET, [STALE], None),
        (WITH_SET, [STALE, NOT_IN_CONTROL], None),
        (WITH_BOTH, [OF_POD], [OURS]),
    ],
)
def test_a_claim_is_the_sets_unless_another_looks_after_it(policy, owners, expected):
    assert changed(policy, owners) == expected


def test_a_claim_goes_with_a_pod_that_is_scaled_away():
    assert changed(WITH_BOTH, [OURS], scaled_down=True) == [OF_POD]
    assert changed(WITH_SET, [OURS], scaled_down=True) is None
