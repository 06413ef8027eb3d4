"""Which synthetic labels a node carries."""

from __future__ import annotations

from weir.lowering.names import label_key
from weir.lowering.node_labels import LabelRules

NEWER = {"key": "v", "operator": "SemverGt", "values": ["1.2.3"]}
DAEMON = label_key("d")
RULES = LabelRules({"r": NEWER}, {DAEMON: [{"key": "sla", "operator": "Gt", "value": "900"}]})


def node(version, sla, **labels):
    taints = [{"key": "sla", "value": sla, "effect": "NoSchedule"}]
    return {"metadata": {"name": "n", "labels": {"v": version, **labels}}, "spec": {"taints": taints}}


def test_labels_follow_the_node_and_others_stay():
    nowhere = lambda label, name: False  # noqa: E731
    assert RULES.labels(node("1.3.0", "950"), nowhere) == {
        "v": "1.3.0",
        label_key("r"): "true",
        DAEMON: "true",
    }
    old = {label_key("r"): "true", DAEMON: "true", label_key("unknown"): "true"}
    assert RULES.labels(node("1.2.3", "800", **old), nowhere) == {"v": "1.2.3", label_key("unknown"): "true"}
    assert DAEMON in RULES.labels(node("1.2.3", "800"), lambda label, name: (label, name) == (DAEMON, "n"))
