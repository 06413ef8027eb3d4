"""What-if on a stock cluster with the operator answers as on a cluster that has the operators itself."""

from __future__ import annotations

import gzip
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
import pytest

from tests.stock.virtual import StockCluster
from weir.client.snapshot import WHAT_IF
from weir.errors import NotFound
from weir.gates import ALL_FEATURES
from weir.inputs.cluster import ClusterObjects, read_cluster
from weir.inputs.live import ClusterSource
from weir.lowering.names import DOMAIN, NAMESPACE
from weir.lowering.originals import with_expressions
from weir.objects.anonymity import anonymous
from weir.objects.redaction import Redaction
from weir.simulation.cluster import Cluster
from weir.taints.notation import parse_taint
from weir.whatif.changes import Apply, Nodes, Rollout, Taint, TaintEdit
from weir.whatif.report import report
from weir.whatif.run import WhatIfOptions

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BELOW = {"key": "sla", "operator": "Lt", "value": "960", "effect": "NoExecute", "tolerationSeconds": 30}
EXPRESSION = {"operator": "CEL", "value": "taint.key == 'sla' && int(taint.value) < 900"}
NEWER = {"key": "v", "operator": "SemverGt", "values": ["1.0.0"]}


def workload(kind, name, *tolerations, **spec):
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": list(tolerations),
            **spec,
        },
    }
    number = {} if kind == "DaemonSet" else {"replicas": 2}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **number},
    }


WORKLOADS = [
    workload("Deployment", "deployment", EXPRESSION),
    workload("StatefulSet", "set", BELOW),
    workload("StatefulSet", "cel-set", EXPRESSION),
    workload("DaemonSet", "daemon", BELOW),
    workload("DaemonSet", "cel-daemon", EXPRESSION),
    workload(
        "Deployment",
        "chosen",
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [NEWER]}]
                }
            }
        },
    ),
]


def contents(cluster, written):
    """Return every object of *cluster* once *written* runs there, but those of the operator itself."""
    for name, version in (("a", "2.0.0"), ("b", "1.5.0"), ("c", "0.9.0")):
        cluster.add_node(name, labels={"v": version})
    cluster.advance(2)
    for each in written:
        cluster.create(each)
        cluster.advance(1)
    cluster.advance(10)
    found = []
    for kind in WHAT_IF:
        with suppress(NotFound):
            found += [{"kind": kind, **each} for each in cluster.list(kind)]
    return [each for each in found if each["metadata"].get("namespace") != NAMESPACE]


@pytest.fixture(scope="module")
def native():
    with Cluster(gates=ALL_FEATURES) as cluster:
        return contents(cluster, map(with_expressions, WORKLOADS))


@pytest.fixture(scope="module")
def stock():
    with StockCluster() as cluster:
        return contents(cluster, WORKLOADS)


def answer(held, change):
    """Return what becomes of the workloads; pods have other names in the two clusters."""
    forecast = held.loaded.what_if([change], WhatIfOptions(ALL_FEATURES, NOW))
    return report(forecast, ALL_FEATURES, {}, [])["workloads"]


def held(documents):
    return ClusterObjects.of((("the cluster", each) for each in documents), keep_gate=False)


def tainted(text):
    return Taint(Nodes(("a",)), (TaintEdit(parse_taint(text)),))


def test_the_cluster_is_a_lowered_one(stock):
    lowered = {each["kind"] for each in stock if DOMAIN.encode() in msgspec.json.encode(each)}
    assert lowered >= {"Node", "Pod", "ReplicaSet", "StatefulSet", "DaemonSet", "ControllerRevision"}


@pytest.mark.parametrize(
    "change",
    [
        *(tainted(f"sla={value}:NoExecute") for value in (890, 950, 990)),
        Rollout("statefulset/cel-set"),
        Rollout("deployment/chosen"),
    ],
    ids=lambda change: change.say(),
)
def test_what_if_answers_as_on_a_cluster_with_the_operators(native, stock, change):
    expected = answer(held(native), change)
    assert expected and answer(held(stock), change) == expected


def test_nothing_is_rolled_out_for_the_reading(stock):
    """A template that was raised and a revision that was not would differ, and every pod would be replaced."""
    assert answer(held(stock), tainted("other=x:NoSchedule")) == []


@pytest.mark.parametrize("renamed", [False, True], ids=["snapshot", "anonymous"])
def test_a_snapshot_answers_as_its_cluster(stock, tmp_path, renamed):
    documents = list(map(Redaction(b"0" * 32, frozenset()).apply, stock))
    expected = answer(held(stock), tainted("sla=890:NoExecute"))
    words = {}
    if renamed:
        documents, words = anonymous(documents)
    file = tmp_path / "snapshot.json.gz"
    file.write_bytes(
        gzip.compress(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": documents}))
    )
    read = read_cluster(ClusterSource((str(file),)), (), stream=True, keep_gate=False)
    assert read.pods and read.lowered
    change = Taint(Nodes((words.get("a", "a"),)), tainted("sla=890:NoExecute").edits)
    found = answer(read, change)
    assert [each["left"] for each in found] == [each["left"] for each in expected] != []


def test_manifests_are_applied_as_they_were_written(native, stock):
    """An object of `kubectl get -o yaml`, of which every pod would be replaced with its markers, and an expression."""

    def applied(documents, new):
        there = next(each for each in documents if each["metadata"]["name"] == "deployment")
        larger = {"apiVersion": "apps/v1", **there, "spec": {**there["spec"], "replicas": 3}}
        return Apply((larger, new))

    new = workload("Deployment", "new", EXPRESSION)
    found = answer(held(stock), applied(stock, new))
    assert found == answer(held(native), applied(native, with_expressions(new)))
    assert not any(each["left"] for each in found)
