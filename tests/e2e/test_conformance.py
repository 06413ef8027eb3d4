"""`weir conformance` in real time on a running `weir up`: verdicts, rights, and nothing left behind.

The commands of docs/howto/check-conformance.md, on fewer stories.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from tests.e2e.test_up import until, up
from tests.e2e.warm import WARM

POD = """
  - apiVersion: v1
    kind: Pod
    metadata: {{name: {name}}}
    spec:
      containers: [{{name: c, image: i}}]
      tolerations: [{{key: sla, operator: Gt, value: "{above}", effect: NoExecute}}]
"""
STORIES = {
    "good": """
title: Good
source: KEP-5471
asks: Who fits, and who leaves?
needs: [numeric]
nodes: [{name: n1, taints: ["sla=950:NoExecute"]}]
steps:
- event: two pods
  after: 1s
  apply:POD-fits-900POD-waits-960
  outcomes:
  - {pod: fits, node: n1, phase: Running}
  - pod: waits
    node: null
    message: >-
      0/1 nodes are available: 1 node(s) had untolerated taint {sla: 950}.
      preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
- event: the rating drops
  after: 1s
  taint: [{node: n1, taints: ["sla=800:NoExecute"]}]
  outcomes:
  - {pod: fits, left: 0s, there: false, disrupted: DeletionByTaintManager}
- event: a taint that cannot be
  after: 0s
  taint: [{node: n1, taints: ["sla=a/b:NoExecute"]}]
  outcomes:
  - object: Node/n1
    refused: >-
      Node "n1" is invalid: metadata.taints[0].value: Invalid value: "a/b": a valid label must be an empty string or
      consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character
      (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is
      '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
""",
    "bad": """
title: Bad
source: KEP-5471
asks: Does it run where it may not?
needs: [numeric]
nodes: [{name: n1, taints: ["sla=950:NoExecute"]}]
steps:
- event: a pod
  after: 1s
  apply:POD-one-960
  outcomes: [{pod: one, node: n1}]
""",
    "absent": """
title: Absent
source: KEP-5500
asks: Is there anything?
needs: [cel]
steps:
- {event: nothing, after: 1s, outcomes: [{pod: none, there: false}]}
""",
}


def written(text: str) -> str:
    for name, above in (("fits", 900), ("waits", 960), ("one", 960)):
        text = text.replace(f"POD-{name}-{above}", POD.format(name=name, above=above).rstrip())
    return text


def weir(*words: str) -> list[str]:
    return [*WARM, *words]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("up")
    stories = folder / "stories"
    stories.mkdir()
    for name, text in STORIES.items():
        (stories / f"{name}.yaml").write_text(written(text))
    with up(folder, "--nodes", "1", "--store", "memory", "--feature-gates", "TaintTolerationCEL=false"):
        yield folder


def conformance(folder, *words, kubeconfig="data/kubeconfig"):
    where = ("--folder", str(folder / "stories"), "--kubeconfig", str(folder / kubeconfig))
    return weir("conformance", *where, "--yes", *words)


def left(folder, kinds="nodes,namespaces,resourceslices,deviceclasses"):
    kubectl = ["kubectl", "--kubeconfig", str(folder / "data" / "kubeconfig")]
    command = [*kubectl, "get", kinds, "-l", "weir.dev/conformance", "-o", "name"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_stories_pass_fail_or_are_not_offered_and_nothing_is_left(cluster):
    ran = subprocess.run(
        conformance(cluster, "--patience", "3", "-o", "json"), capture_output=True, text=True
    )
    assert ran.returncode == 1, ran.stderr
    found = {each["name"]: each for each in json.loads(ran.stdout)["stories"]}
    assert (found["good"]["verdict"], found["good"]["instead"]) == ("passes", [])
    assert found["bad"]["verdict"] == "fails"
    assert found["bad"]["instead"][0]["difference"] == "node: specified 'n1', seen None"
    assert found["absent"]["verdict"] == "not offered"
    assert "context weir" in ran.stderr and left(cluster) == []


def test_what_a_killed_run_left_is_taken_away(cluster):
    process = subprocess.Popen(conformance(cluster, "bad"), stderr=subprocess.PIPE, text=True)
    until(lambda: any(name.startswith("node/") for name in left(cluster)))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert {name.partition("/")[0] for name in left(cluster)} == {"node", "namespace"}
    cleaned = subprocess.run(conformance(cluster, "--clean"), capture_output=True, text=True)
    assert (cleaned.returncode, left(cluster)) == (0, [])
    assert "1 Node" in cleaned.stdout
    again = subprocess.run(conformance(cluster, "--clean"), capture_output=True, text=True)
    assert (again.returncode, again.stdout.startswith("no run left anything")) == (0, True)


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_nothing(cluster, sent, code):
    process = subprocess.Popen(
        conformance(cluster, "bad"), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    until(lambda: any(name.startswith("node/") for name in left(cluster)))
    process.send_signal(sent)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, left(cluster)) == (code, [])
    assert "Traceback" not in said


def test_who_may_not_make_nodes_is_told_so_and_nothing_is_made(cluster):
    jane = cluster / "jane.kubeconfig"
    made = weir("kubeconfig", "--user", "jane", "--data-dir", str(cluster / "data"), "-o", str(jane))
    subprocess.run(made, check=True, capture_output=True)
    ran = subprocess.run(
        conformance(cluster, "good", kubeconfig="jane.kubeconfig"), capture_output=True, text=True
    )
    assert ran.returncode == 3, ran.stderr
    assert "? good  cannot say" in ran.stdout and "you may not create namespaces" in ran.stdout


def test_without_a_terminal_it_asks_for_consent(cluster):
    command = [word for word in conformance(cluster, "good") if word != "--yes"]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (ran.returncode, "add --yes" in ran.stderr) == (2, True)


def test_a_story_that_changes_gates_is_left_to_the_demo(cluster):
    ran = subprocess.run(
        weir("conformance", "kep-5471-gate-off-scale", "--yes"),
        capture_output=True,
        text=True,
        env={**os.environ},
    )
    assert (ran.returncode, "weir demo" in ran.stderr) == (2, True)
