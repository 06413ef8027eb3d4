"""For other people's tests: the fixture `weir_cluster`, a cluster of its own for each test.

def test_my_operator(weir_cluster):
    weir_cluster.add_nodes(2)
    weir_cluster.apply(MANIFEST)
    weir_cluster.advance(30)
    assert weir_cluster.get("Deployment", "web")["status"]["availableReplicas"] == 3
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from weir.simulation.cluster import Cluster


@pytest.fixture
def weir_cluster() -> Iterator[Cluster]:
    """A Kubernetes cluster in this process, under virtual time, with every feature on and no nodes yet."""
    from weir.simulation.cluster import Cluster

    with Cluster() as cluster:
        yield cluster
