"""Before the installation: what decides whether it would work, each with what to do."""

from __future__ import annotations

import pytest

from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS
from weir.install.checks import Verdict
from weir.install.readiness import Readiness
from weir.simulation.cluster import Cluster


def manager(*words):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "kube-controller-manager-a",
            "namespace": "kube-system",
            "labels": {"component": "kube-controller-manager"},
        },
        "spec": {"containers": [{"name": "m", "image": "i", "command": ["kube-controller-manager", *words]}]},
    }


def asked(cluster):
    return {each.name: each for each in cluster._do(Readiness(cluster.client).checks())}


@pytest.mark.parametrize(
    "gates, says", [(KUBERNETES_DEFAULTS, "all are lowered"), (ALL_FEATURES, "left alone")], ids=["off", "on"]
)
def test_a_cluster_that_is_ready_says_so_in_each_line(gates, says):
    with Cluster(nodes=0, gates=gates) as cluster:
        found = asked(cluster)
        assert {each.verdict for each in found.values()} == {Verdict.FINE}
        assert says in found["operators"].says


@pytest.mark.parametrize(
    "words, verdict",
    [
        ([], Verdict.FINE),
        (["--controllers=*,bootstrapsigner"], Verdict.FINE),
        (["--controllers=*,-taint-eviction-controller"], Verdict.TO_DO),
        (["--controllers=taint-eviction-controller"], Verdict.TO_DO),
        (["--controllers=taint-eviction-controller,endpoint-slice-controller"], Verdict.FINE),
    ],
)
def test_controllers_that_do_not_share_their_pods_are_named(words, verdict):
    with Cluster(nodes=0) as cluster:
        cluster.create(manager(*words))
        found = asked(cluster)["controllers"]
        assert found.verdict is verdict and bool(found.do) == (verdict is Verdict.TO_DO)


@pytest.mark.parametrize("seconds, verdict", [(None, Verdict.TO_DO), (0, Verdict.TO_DO), (10, Verdict.NOTE)])
def test_with_grace_that_somebody_decided_they_may_run_apart(seconds, verdict):
    with Cluster(nodes=0) as cluster:
        cluster.create(manager("--controllers=*,-taint-eviction-controller"))
        (found,) = (
            each
            for each in cluster._do(Readiness(cluster.client, grace_seconds=seconds).checks())
            if each.name == "controllers"
        )
        assert found.verdict is verdict and "taint-eviction-controller" in found.says
