"""Words for the skew tests: features, the cluster they are walked in, and the table of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from weir.errors import ApiError
from weir.gates import ALL_FEATURES
from weir.simulation.cluster import Cluster, ComponentGates

COMPONENTS = ("apiserver", "scheduler", "controllers", "kubelet")
#: Those that match tolerations, and those that make or bind what the rows look at.
CONTROLLERS = (
    "taint-eviction",
    "node-lifecycle",
    "daemonset",
    "deployment",
    "replicaset",
    "persistentvolume",
    "garbage-collector",
)


@dataclass(frozen=True)
class Feature:
    """One KEP's way to tolerate a taint called `sla`, and the taint value it matches."""

    name: str
    gate: str
    value: str
    entry: dict
    operator: str = ""

    def toleration(self, effect="NoExecute"):
        return self.entry if "expression" in self.entry else {**self.entry, "effect": effect}

    def off(self, *components):
        """Gates with this feature off in *components* (in all when none is named)."""
        gates = ALL_FEATURES.replace({self.gate: False})
        return replace(ComponentGates(), **dict.fromkeys(components or COMPONENTS, gates))

    def on(self, *components):
        """Gates with this feature on only in *components*."""
        others = set(COMPONENTS) - set(components)
        return self.off(*others) if others else ComponentGates()


FEATURES = {
    feature.name: feature
    for feature in (
        Feature(
            "numeric",
            "TaintTolerationComparisonOperators",
            "950",
            {"key": "sla", "operator": "Gt", "value": "900"},
            "Gt",
        ),
        Feature(
            "semver",
            "TaintTolerationNodeAffinitySemverComparisonOperators",
            "1.30.2",
            {"key": "sla", "operator": "SemverGt", "value": "1.29.0"},
            "SemverGt",
        ),
        Feature(
            "cel", "TaintTolerationCEL", "gold", {"expression": "taint.key == 'sla' && taint.value == 'gold'"}
        ),
    )
}


class Walk:
    """A cluster whose gates change under running, pending and stored objects."""

    def __init__(self, feature, gates=None):
        self.feature = feature
        self.cluster = Cluster(gates=gates or ComponentGates(), controllers=CONTROLLERS)

    def node(self, name="n", effect="NoExecute", taints=None, labels=None):
        own = [f"sla={self.feature.value}:{effect}"] if taints is None else taints
        self.cluster.add_node(name, taints=own, labels=labels)
        self.pass_seconds(5)

    def pass_seconds(self, seconds):
        self.cluster.advance(seconds)

    def switch(self, gates, seconds=30):
        self.cluster.set_gates(gates)
        self.pass_seconds(seconds)

    def pod(self, name, effect="NoExecute", seconds=30, **spec):
        """Create a pod that needs the feature, and let time pass; returns the server's refusal, or ''."""
        default = [self.feature.toleration(effect)]
        whole = {"containers": [{"name": "c", "image": "i"}], "tolerations": default, **spec}
        return self.create("Pod", name, {"spec": whole}, seconds=seconds)

    def create(self, kind, name, body, version="v1", seconds=30):
        try:
            self.cluster.create({"apiVersion": version, "kind": kind, "metadata": {"name": name}, **body})
        except ApiError as error:
            return error.message
        finally:
            self.pass_seconds(seconds)
        return ""

    def workload(self, kind, name, effect="NoExecute", **spec):
        """Create a Deployment or DaemonSet whose pods need the feature."""
        labels = {"app": name}
        pod = {"containers": [{"name": "c", "image": "i"}], "tolerations": [self.feature.toleration(effect)]}
        whole = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        return self.create(kind, name, {"spec": {**whole, **spec}}, "apps/v1")

    def phase(self, name):
        found = self.cluster.get("Pod", name)
        return found and found["status"]["phase"]

    def where(self, name):
        found = self.cluster.get("Pod", name)
        return found and found["spec"].get("nodeName")

    def phases(self, app):
        return sorted(pod["status"]["phase"] for pod in self.cluster.list("Pod", selector=f"app={app}"))

    def evictions(self):
        return [e["message"] for e in self.cluster.events("TaintManagerEviction")]


@dataclass(frozen=True)
class Row:
    """One row of core.md 8, for one feature, with the check that lives through it."""

    section: str
    text: str
    feature: Feature
    check: Callable

    def __str__(self):
        return f"{self.section} {self.text} [{self.feature.name}]"


ROWS: list[Row] = []


def row(section, text, *features):
    """Note the function as the check of a row, for each of *features* (all three when none is named)."""

    def note(check):
        ROWS.extend(Row(section, text, FEATURES[name], check) for name in features or FEATURES)
        return check

    return note
