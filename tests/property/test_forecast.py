"""A forecast says what a copy of the whole control plane says: who leaves, when, why, where to, and who waits."""

from __future__ import annotations

import os

import pytest

from tests.property.forecast_clusters import AHEAD_SECONDS, NOW, cluster, differences
from weir.gates import ALL_FEATURES
from weir.whatif.changes import Cordon, Drain, Nodes
from weir.whatif.pod_records import PodReader
from weir.whatif.run import LoadedCluster, WhatIfOptions, what_if

SEEDS = int(os.environ.get("WEIR_FORECAST_SEEDS", "100"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_forecast_agrees_with_a_copy_of_the_control_plane(seed):
    assert differences(seed) == {}


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_a_loaded_cluster_answers_every_question_as_if_it_were_the_first(seed):
    documents, made = cluster(seed)
    asked = WhatIfOptions(ALL_FEATURES, NOW, AHEAD_SECONDS, seed)
    loaded = LoadedCluster(documents, leave_out=True)
    for change in (made, Drain(Nodes(("n-1",)), force=True), Cordon(Nodes(("n-0",))), made):
        fresh = what_if(cluster(seed)[0], [change], asked, leave_out=True)
        assert loaded.what_if([change], asked) == fresh


def test_a_loaded_cluster_reads_its_pods_once(monkeypatch):
    documents, made = cluster(3)
    reads: list[object] = []
    read = PodReader.read
    monkeypatch.setattr(PodReader, "read", lambda self, source: reads.append(source) or read(self, source))
    loaded = LoadedCluster(documents, leave_out=True)
    for _ in range(3):
        loaded.what_if([made], WhatIfOptions(ALL_FEATURES, NOW, AHEAD_SECONDS))
    assert len(reads) == sum(each["kind"] == "Pod" for each in documents)
