"""What people do to workloads, with the real kubectl: history, going back, refusals, Services."""

from __future__ import annotations

import json

from tests.e2e.test_up import kubectl, until, up

__all__ = ["kubectl"]

SET = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: agent, annotations: {{kubernetes.io/change-cause: first}}}}
spec:
  {more}
  selector: {{matchLabels: {{app: {kind}}}}}
  template:
    metadata: {{labels: {{app: {kind}}}}}
    spec: {{containers: [{{name: c, image: "agent:1"}}]}}
"""


def image(kubectl, kind):
    found = kubectl("get", kind, "agent", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    return found.strip()


def images(kubectl, kind):
    names = {"ds": "DaemonSet", "sts": "StatefulSet"}
    listed = json.loads(kubectl("get", "pods", "-l", f"app={names[kind]}", "-o", "json"))["items"]
    return {pod["spec"]["containers"][0]["image"] for pod in listed}


def walk(kubectl, kind, manifest):
    """Roll a set to a second template and back; return what kubectl and the cluster said on the way."""
    kubectl("apply", "-f", "-", stdin=manifest)
    kubectl("rollout", "status", f"{kind}/agent", "--timeout=60s")
    kubectl("annotate", kind, "agent", "kubernetes.io/change-cause=second", "--overwrite")
    kubectl("set", "image", f"{kind}/agent", "c=agent:2")
    kubectl("rollout", "status", f"{kind}/agent", "--timeout=60s")
    history = kubectl("rollout", "history", f"{kind}/agent")
    first = kubectl("rollout", "history", f"{kind}/agent", "--revision=1")
    kubectl("rollout", "undo", f"{kind}/agent")
    kubectl("rollout", "status", f"{kind}/agent", "--timeout=60s")
    until(lambda: images(kubectl, kind) == {"agent:1"})
    after = kubectl("rollout", "history", f"{kind}/agent")
    return (
        [line.split()[:1] for line in history.splitlines() if line[:1].isdigit()],
        "agent:1" in first,
        image(kubectl, kind),
        [line.split()[:1] for line in after.splitlines() if line[:1].isdigit()],
    )


def test_daemonsets_and_statefulsets_have_a_history_and_go_back_in_it(kubectl, tmp_path):
    went_back = ([["1"], ["2"]], True, "agent:1", [["2"], ["3"]])
    with up(tmp_path, "--nodes", "2"):
        daemons = walk(kubectl, "ds", SET.format(kind="DaemonSet", more=""))
        stateful = walk(kubectl, "sts", SET.format(kind="StatefulSet", more="serviceName: agent"))
    assert (daemons, stateful) == (went_back, went_back)
