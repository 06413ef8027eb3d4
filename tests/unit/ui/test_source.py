"""Which changes of a live cluster are news to the page."""

from __future__ import annotations

from weir.ui.source import matters


def node(**more):
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-16T10:00:00Z"}
    return {
        "metadata": {"name": "n", "resourceVersion": "1", "managedFields": []},
        "spec": {},
        "status": {"conditions": [{**beat, **more}]},
    }


def test_a_heartbeat_is_no_news():
    later = node(lastHeartbeatTime="2026-11-16T10:00:10Z")
    later["metadata"]["resourceVersion"] = "2"
    assert not matters(node(), later)


def test_a_condition_a_taint_a_new_and_a_lost_object_are():
    tainted = node()
    tainted["spec"] = {"taints": [{"key": "a", "effect": "NoExecute"}]}
    assert matters(node(), node(status="False")) and matters(node(), tainted)
    assert matters(None, node()) and matters(node(), None)
