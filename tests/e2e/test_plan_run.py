"""`weir plan run` on a running cluster: waves in their order, stops at differences and on Ctrl-C, resumes, undoes."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from tests.e2e.terminal import CTRL_C, Terminal
from tests.e2e.test_up import kubectl, pods, until, up
from tests.e2e.warm import COLD, WARM

__all__ = ["kubectl"]

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "web:1"}]
"""
TAINT = "maintenance=1:NoExecute"


@pytest.fixture
def cluster(kubectl, tmp_path):
    with up(tmp_path, "--nodes", "4", "--store", "memory"):
        kubectl("apply", "-f", "-", stdin=WEB)
        kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        yield kubectl


def weir(kubectl, *words, code=0):
    """Run a command of weir; return what it printed."""
    ended = subprocess.run(
        [*WARM, *words, "--kubeconfig", str(kubectl.kubeconfig)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout + ended.stderr


def make_plan(kubectl, path, *nodes):
    """Write the plan that taints *nodes*, one pod of four away at a time."""
    path.write_text(weir(kubectl, "plan", "taint", *nodes, TAINT, "--max-unavailable", "1", "-o", "yaml"))
    return path


def taints(kubectl):
    """Return the nodes that carry the taint."""
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    return {
        node["metadata"]["name"]
        for node in nodes
        if any(taint["key"] == "maintenance" for taint in node["spec"].get("taints", ()))
    }


def cordoned(kubectl):
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    return {node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")}


def steps(path):
    """Return wave and step of every line of a plan's journal."""
    lines = path.with_name(f"{path.name}.journal").read_text().splitlines()
    return [(entry["wave"], entry["step"]) for entry in map(json.loads, lines)]


def test_a_plan_is_carried_out_wave_by_wave_and_taken_back(cluster, tmp_path):
    path = make_plan(cluster, tmp_path / "plan.yaml", "node-0", "node-1")
    printed = weir(cluster, "plan", "run", str(path), "--yes")
    assert "wave 1 of " in printed and "carried out: " in printed
    assert taints(cluster) == {"node-0", "node-1"}
    assert {pod["spec"]["nodeName"] for pod in pods(cluster)} <= {"node-2", "node-3"}
    made = steps(path)
    waves = max(wave for wave, _ in made)
    assert made == [(n, step) for n in range(1, waves + 1) for step in ("begun", "made", "reached")]
    events = json.loads(cluster("get", "events", "-o", "json"))["items"]
    about = {event["involvedObject"]["name"] for event in events if event["reason"] == "PlanWaveMade"}
    assert about == {"node-0", "node-1"}

    again = weir(cluster, "plan", "run", str(path), "--yes", code=2)
    assert "--resume goes on, --undo takes it back" in again
    with path.with_name("plan.yaml.journal").open("a") as journal:
        journal.write('{"plan":"cut off while it was wri')
    assert "every wave of this plan was made" in weir(cluster, "plan", "run", str(path), "--resume", "--yes")
    cluster("taint", "nodes", "node-1", "maintenance-")  # by hand, so that a part is taken back already
    assert "taken back" in weir(cluster, "plan", "run", str(path), "--undo", "--yes")
    assert taints(cluster) == set()
    assert steps(path)[len(made) :] == [(n, "undone") for n in range(waves, 0, -1)]
    assert "nothing to take back" in weir(cluster, "plan", "run", str(path), "--undo", "--yes")


def test_more_harm_than_foreseen_stops_it_before_the_wave(cluster, tmp_path):
    cluster("scale", "deployment/web", "--replicas=1")
    until(lambda: len(pods(cluster)) == 1)
    (on,) = {pod["spec"]["nodeName"] for pod in pods(cluster)}
    empty = next(name for name in ("node-0", "node-1") if name != on)
    path = make_plan(cluster, tmp_path / "plan.yaml", empty)
    cluster("scale", "deployment/web", "--replicas=12")
    cluster("rollout", "status", "deployment/web", "--timeout=60s")
    printed = weir(cluster, "plan", "run", str(path), "--yes", code=1)
    assert "wave 1 was not made; the cluster is not as foreseen:" in printed
    assert "default/Deployment/web: foreseen: 0 evicted; found: " in printed
    assert "There is no plan that keeps all goals." in printed and "  - --max-unavailable " in printed
    assert taints(cluster) == set()
    assert not (tmp_path / "plan-2.yaml").exists()


def test_the_plan_for_what_is_left_opens_the_nodes_that_the_stopped_one_closed(cluster, tmp_path):
    path = make_plan(cluster, tmp_path / "plan.yaml", "node-0", "node-1")
    held = next(pod["metadata"]["name"] for pod in pods(cluster) if pod["spec"]["nodeName"] == "node-0")
    cluster("patch", "pod", held, "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
    printed = weir(cluster, "plan", "run", str(path), "--timeout", "5s", "--yes", code=1)
    print(printed)
    assert f"a new plan for what is left: {tmp_path}/plan-2.yaml" in printed
    assert cordoned(cluster) == {"node-0", "node-1"}
    cluster("patch", "pod", held, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    weir(cluster, "plan", "run", str(tmp_path / "plan-2.yaml"), "--yes")
    assert taints(cluster) == {"node-0", "node-1"}
    assert cordoned(cluster) == set()


def test_a_state_that_is_not_reached_stops_it_and_says_what_to_do(cluster, tmp_path):
    path = make_plan(cluster, tmp_path / "plan.yaml", "node-0", "node-1")
    held = next(pod["metadata"]["name"] for pod in pods(cluster) if pod["spec"]["nodeName"] == "node-0")
    finalizer = '{"metadata":{"finalizers":["example.com/hold"]}}'
    cluster("patch", "pod", held, "--type=merge", "-p", finalizer)
    printed = weir(cluster, "plan", "run", str(path), "--timeout", "5s", "--yes", code=1)
    assert f"pod default/{held}: foreseen: gone; found: terminating" in printed
    assert " --resume; take back: weir plan run " in printed
    assert steps(path)[-1][1] == "stopped"
    cluster("patch", "pod", held, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert "carried out" in weir(cluster, "plan", "run", str(path), "--resume", "--yes")
    assert taints(cluster) == {"node-0", "node-1"}


def test_ctrl_c_stops_after_the_wave_and_resume_goes_on(cluster, tmp_path):
    path = make_plan(cluster, tmp_path / "plan.yaml", "node-0", "node-1")
    log = (tmp_path / "run.log").open("w")
    process = subprocess.Popen(
        [*WARM, "plan", "run", str(path), "--yes", "--kubeconfig", str(cluster.kubeconfig)],
        stdout=log,
        stderr=log,
        env=os.environ,
    )
    journal = path.with_name(f"{path.name}.journal")
    until(lambda: journal.exists() and "begun" in journal.read_text())
    process.send_signal(signal.SIGINT)
    assert process.wait(60) in (0, 130)
    printed = (tmp_path / "run.log").read_text()
    assert "stopping after this wave" in printed and "Traceback" not in printed
    reached = [wave for wave, step in steps(path) if step == "reached"]
    assert reached[0] == 1
    if process.returncode == 130:
        assert f"stopped after wave {reached[-1]}. Go on: weir plan run" in printed
        assert "carried out" in weir(cluster, "plan", "run", str(path), "--resume", "--yes")
    assert taints(cluster) == {"node-0", "node-1"}


def test_bad_input_is_one_line_and_changes_nothing(cluster, tmp_path):
    path = make_plan(cluster, tmp_path / "plan.yaml", "node-0")
    text = path.read_text()
    for number, (old, new, said) in enumerate(
        [
            ("taint node-0", "tant node-0", "bad-0.yaml: waves[0].changes[0]: 'tant' is no change"),
            (
                "taint node-0 maintenance=1:NoExecute",
                "add-nodes 1 --like node-0",
                "cannot be carried out: nodes come from your provider",
            ),
            ("weir.plan/v1", "weir.plan/v9", "its schema is 'weir.plan/v9'"),
        ]
    ):
        bad = tmp_path / f"bad-{number}.yaml"
        bad.write_text(text.replace(old, new))
        printed = weir(cluster, "plan", "run", str(bad), "--yes", code=2)
        assert said in printed
    other = tmp_path / "other.yaml"
    other.write_text(
        text.replace("seed: 0", "seed: 1") if "seed: 0" in text else text.replace("node-0", "node-1")
    )
    weir(cluster, "plan", "run", str(path), "--yes")
    printed = weir(
        cluster, "plan", "run", str(other), "--journal", str(tmp_path / "plan.yaml.journal"), "--yes", code=2
    )
    assert "the journal of another plan" in printed
    (tmp_path / "plan.yaml.journal").write_text("not json\n")
    assert "plan.yaml.journal:1: not a line" in weir(cluster, "plan", "run", str(path), "--yes", code=2)


def test_without_a_terminal_it_wants_yes(cluster, tmp_path):
    path = make_plan(cluster, tmp_path / "plan.yaml", "node-0")
    ended = subprocess.run(
        [*WARM, "plan", "run", str(path), "--kubeconfig", str(cluster.kubeconfig)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert ended.returncode == 2 and "add --yes" in ended.stderr
    assert taints(cluster) == set()


def test_at_a_terminal_it_asks_and_shows_how_far_a_wave_is(cluster, tmp_path):
    path = make_plan(cluster, tmp_path / "plan.yaml", "node-0")
    command = [*COLD, "plan", "run", str(path), "--kubeconfig", str(cluster.kubeconfig)]
    for keys, code in ((b"n\n", 1), (CTRL_C, 130)):
        terminal = Terminal(command)
        terminal.read_until(b"[y/N]")
        terminal.type(keys)
        assert terminal.wait() == code, terminal.said
        assert b"Traceback" not in terminal.said
        assert taints(cluster) == set()
    terminal = Terminal(command)
    terminal.read_until(b"[y/N]")
    assert b"make 1 wave on 1 node, evicting 1 pod, in context weir (https://127.0.0.1:" in terminal.said
    terminal.type(b"y\n")
    assert terminal.wait() == 0, terminal.said
    drawn = terminal.said.decode().split("\r\033[K")
    assert any("wave 1: 2 of 2 as foreseen" in each for each in drawn[1:]), drawn
    assert "carried out: 1 wave." in drawn[-1]
    assert taints(cluster) == {"node-0"}
