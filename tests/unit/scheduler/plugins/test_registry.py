"""The checklist "Add a scheduler plugin", followed with a plugin that lives outside of weir."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from weir import Cluster
from weir.objects.core import Pod
from weir.scheduler.config import ConfigError, read_config
from weir.scheduler.framework import (
    Code,
    Extensions,
    FilterPlugin,
    Handle,
    Normalize,
    Plugin,
    Scope,
    ScorePlugin,
    Status,
)
from weir.scheduler.node_columns import Ids
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins.registry import IN_TREE_REGISTRY, Registration
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import NODE_ADD, NODE_LABEL, ClusterEvent, QueueingHint

NAME = "Maintenance"

# ── the plugin's file ────────────────────────────────────────────────────────────────────────────


class Maintenance(Plugin):
    """Keeps pods off nodes whose maintenance label is set, and prefers nodes that were maintained recently."""

    name = NAME

    def __init__(self, table: NodeTable, label: str) -> None:
        self._table, self._label = table, label

    def for_class(self, pod: PodClass) -> Extensions:
        bound = Bound(self._table, self._label)
        return Extensions(filter=bound, score=bound)

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {NODE_ADD: self._is_over, NODE_LABEL: self._is_over}

    def _is_over(self, pod: Pod, event: ClusterEvent) -> bool:
        before = event.old is None or self._label in event.old.labels
        return before and self._label not in event.new.labels


class Bound(FilterPlugin, ScorePlugin):
    name = NAME
    scope = Scope.NODE
    normalize = Normalize.HIGHEST

    def __init__(self, table: NodeTable, label: str) -> None:
        self._table, self._label = table, label

    def codes(self, rows: Any) -> Ids:
        return (self._table.label(self._label).ids[rows] >= 0).astype(np.int32)

    def status(self, code: int) -> Status:
        return Status(Code.UNRESOLVABLE, ("node(s) were under maintenance",), NAME)

    def score(self, rows: Any) -> Ids:
        column = self._table.label("maintained")
        years = np.array([*(int(value) for value in column.values), 0], np.int32)
        return years[column.ids[rows]]


def factory(handle: Handle) -> Plugin:
    return Maintenance(handle.table, handle.arguments.plugin_config.get(NAME, {}).get("label", "maintenance"))


# ── its line in the registry, and a profile that uses it ─────────────────────────────────────────

REGISTRY = IN_TREE_REGISTRY.register(Registration(NAME, ("filter", "score"), factory, weight=5))
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig: [{name: Maintenance, args: {label: example.com/maintenance}}]
- schedulerName: without
  plugins: {multiPoint: {disabled: [{name: Maintenance}]}}
"""
LABEL = "example.com/maintenance"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(scheduler=read_config(CONFIG, registry=REGISTRY)) as found:
        yield found


def pod(name: str, scheduler: str = "default-scheduler") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "app"}]}}  # fmt: skip


def node_of(cluster: Cluster, name: str) -> str:
    cluster.advance(2)
    found = cluster.get("Pod", name)
    assert found is not None
    return str(found["spec"].get("nodeName", ""))


def test_its_score_decides_between_nodes_that_others_find_alike(cluster: Cluster) -> None:
    for name, year in (("a", "2024"), ("b", "2026"), ("c", "1999")):
        cluster.add_node(name, labels={"maintained": year})
    cluster.apply(pod("p"))
    assert node_of(cluster, "p") == "b"


def test_its_filter_keeps_pods_off_and_its_reason_is_in_the_event(cluster: Cluster) -> None:
    cluster.add_node("a", labels={LABEL: "planned"})
    cluster.apply(pod("p"))
    assert node_of(cluster, "p") == ""
    (event,) = cluster.events("FailedScheduling")
    assert event["message"].startswith("0/1 nodes are available: 1 node(s) were under maintenance.")


def test_a_profile_that_disables_it_does_not_ask_it(cluster: Cluster) -> None:
    cluster.add_node("a", labels={LABEL: "planned"})
    cluster.apply(pod("p", "without"))
    assert node_of(cluster, "p") == "a"


def test_its_hint_wakes_the_pod_when_the_label_goes_and_not_before(cluster: Cluster) -> None:
    cluster.add_node("a", labels={LABEL: "planned", "maintained": "2024"})
    cluster.apply(pod("p"))
    cluster.advance(15)  # past every backoff
    cluster.patch("Node", "a", {"metadata": {"labels": {"maintained": "2026"}}}, namespace="")
    cluster.advance(15)
    assert len(cluster.events("FailedScheduling")) == 1  # it slept through a label that does not help
    cluster.patch("Node", "a", {"metadata": {"labels": {LABEL: None}}}, namespace="")
    assert node_of(cluster, "p") == "a"


def test_it_stands_after_the_plugins_of_the_tree_and_can_take_the_place_of_one() -> None:
    assert REGISTRY.filters == (*IN_TREE_REGISTRY.filters, NAME)
    replaced = REGISTRY.register(Registration("NodeName", ("filter",)))
    assert replaced.names == REGISTRY.names and replaced.points["preFilter"][0] == "NodeAffinity"


def test_a_configuration_names_it_only_where_it_is_registered() -> None:
    with pytest.raises(ConfigError, match="Maintenance"):
        read_config(CONFIG)
