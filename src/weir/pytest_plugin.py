"""pytest plugin: the fixture `weir_cluster`, a simulated cluster per test.

    def test_my_operator(weir_cluster):
        weir_cluster.add_nodes(2)
        weir_cluster.apply(MANIFEST)
        weir_cluster.advance(30)
        assert weir_cluster.get("Deployment", "web")["status"]["availableReplicas"] == 3

A failing test reports its cluster: nodes, pods that do not run with the reason, and the last events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from weir.simulation.cluster import Cluster

_MOST_PODS: Final = 10
_MOST_EVENTS: Final = 20
_SHOWN: Final = pytest.StashKey["Cluster"]()


@pytest.fixture
def weir_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A Kubernetes cluster in this process, under virtual time, with every feature on and no nodes yet."""
    from weir.simulation.cluster import Cluster

    with Cluster() as cluster:
        request.node.stash[_SHOWN] = cluster
        yield cluster


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add the state of the cluster to the report of a test that failed."""
    outcome: Any = yield
    report = outcome.get_result()
    cluster = item.stash.get(_SHOWN, None)
    if call.when == "call" and report.failed and cluster is not None:
        try:
            report.sections.append(("weir_cluster", "\n".join(picture(cluster))))
        except Exception as error:  # a report must not fail because of what it reports on
            report.sections.append(("weir_cluster", f"cannot be shown: {error}"))


def picture(cluster: Cluster) -> Iterator[str]:
    """Yield how *cluster* is: its time, its nodes, pods that do not run with the reason, its last events."""
    yield f"at {cluster.now:%H:%M:%S} of the cluster's time"
    for node in cluster.list("Node"):
        taints = node["spec"].get("taints") or ()
        shown = ", ".join(f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in taints)
        yield f"node {node['metadata']['name']}" + (f"  {shown}" if shown else "")
    pods = cluster.list("Pod")
    waiting = [pod for pod in pods if pod["status"].get("phase") not in ("Running", "Succeeded")]
    yield f"{len(pods)} pods, {len(waiting)} of them do not run"
    for pod in waiting[:_MOST_PODS]:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        yield f"pod {namespace}/{name} {pod['status'].get('phase', '')}: {_why(cluster, pod)}"
    events = sorted(cluster.list("Event"), key=lambda event: event.get("lastTimestamp") or "")
    for event in events[-_MOST_EVENTS:]:
        about = event["involvedObject"]
        place = f"{about.get('kind', '')} {about.get('name', '')}"
        yield f"event {place}: {event.get('reason', '')}: {event.get('message', '')}"


def _why(cluster: Cluster, pod: dict[str, Any]) -> str:
    if pod["spec"].get("nodeName"):
        return f"bound to {pod['spec']['nodeName']}"
    explanation = cluster.explain(pod["metadata"]["name"], pod["metadata"]["namespace"])
    return str(explanation)
