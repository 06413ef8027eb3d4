"""Which volumes may be mounted on a node."""

from __future__ import annotations

import pytest

from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS
from weir.objects.core import read
from weir.objects.volumes import PersistentVolume
from weir.simulation.kubelet.preparation import mount_problem

pytestmark = pytest.mark.proves("5721-18")

REFUSED = 'MountVolume.NodeAffinity check failed for volume "disk" : no matching NodeSelectorTerms'


def volume(**requirement):
    terms = [{"matchExpressions": [{"key": "v", **requirement}]}] if requirement else None
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}
    return read(PersistentVolume, {"metadata": {"name": "disk"}, "spec": affinity})


@pytest.mark.parametrize(
    ("disk", "gates", "problem"),
    [
        (volume(), ALL_FEATURES, ""),
        (volume(operator="In", values=["1.9.0"]), ALL_FEATURES, ""),
        (volume(operator="In", values=["2"]), ALL_FEATURES, REFUSED),
        (volume(operator="SemverLt", values=["2.0.0"]), ALL_FEATURES, ""),
        (volume(operator="SemverGt", values=["2.0.0"]), ALL_FEATURES, REFUSED),
        (volume(operator="SemverLt", values=["2.0.0"]), KUBERNETES_DEFAULTS, REFUSED),
    ],
)
def test_the_volume_s_node_affinity_is_asked_with_the_kubelet_s_gates(disk, gates, problem):
    assert mount_problem(disk, {"v": "1.9.0"}, gates) == problem
