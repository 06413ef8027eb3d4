"""`weir plan` on dumps: plans, why there is none, what would make one possible, and every form of the answer."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from weir.cli.main import run
from weir.exit_codes import FINDINGS, FINE, USAGE
from weir.plan.document import read

ROOT = Path(__file__).parents[3]
POOL = str(ROOT / "examples" / "spot-pool.yaml")
TAINT = ["plan", "taint", "-l", "pool=spot", "sla=650:NoExecute", "--cluster", POOL]
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "new"}},
        "template": {
            "metadata": {"labels": {"app": "new"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}


@pytest.fixture
def answer(capsys):
    def ask(*words: str) -> tuple[int, str]:
        code = run([*words])
        return code, capsys.readouterr().out

    return ask


def test_waves_keep_what_a_workload_may_lose_at_once(answer):
    code, out = answer(*TAINT, "-o", "json")
    plan = read(json.loads(out))
    assert code == FINE
    lowest = [
        state.lowest for wave in plan.waves for state in wave.wait_for.workloads if "web" in state.workload
    ]
    assert min(lowest) >= 3  # a quarter of four
    assert plan.totals.moved_pods == plan.searched.fewest_moves == 4
    assert plan.waves[0].changes[0].startswith("cordon spot-1 spot-2 spot-3")
    assert plan.waves[-1].changes[-1] == "uncordon spot-1 spot-2 spot-3"


def test_more_at_once_takes_fewer_waves(answer):
    code, out = answer(*TAINT, "--max-unavailable", "2", "-o", "yaml")
    plan = read(yaml.safe_load(out))
    assert (code, len(plan.waves), plan.searched.fewest_waves) == (FINE, 2, 2)


def test_what_stands_in_the_way_is_said_with_what_would_help(answer):
    code, out = answer(*TAINT[:4], "sla=550:NoExecute", *TAINT[5:], "--max-unavailable", "1")
    assert code == FINDINGS
    assert "spot-2 has 2 pods of replicaset shop/batch, which may lose 1 at once" in out
    assert "Proven" in out
    assert "--max-unavailable 2" in out
    assert "sla=601:NoExecute instead on 1 node (spot-2)" in out
    assert "leave out 1 node: spot-2" in out


def test_nodes_that_would_be_enough_are_counted(answer):
    words = ["plan", "drain", "spot-1", "spot-2", "spot-3", "steady-1", "--max-unavailable", "100%"]
    code, out = answer(*words, "--cluster", POOL, "-o", "json")
    document = json.loads(out)
    assert (code, document["schema"]) == (FINDINGS, "weir.no-plan/v1")
    assert any("more node" in each and "like steady-2" in each for each in document["relaxations"]), document


def test_a_drain_asks_budgets_by_itself(answer):
    code, out = answer(
        "plan", "drain", "-l", "pool=spot", "--max-unavailable", "100%", "--cluster", POOL, "-o", "yaml"
    )
    plan = read(yaml.safe_load(out))
    assert (code, plan.waves[0].changes[-1]) == (FINE, "drain spot-1 spot-2 spot-3")
    assert all(state.healthy >= 2 for wave in plan.waves for state in wave.wait_for.budgets)


def test_a_job_with_devices_that_has_run_for_long_is_spared(answer, tmp_path):
    cluster = yaml.safe_load(Path(POOL).read_text())
    container = {"name": "t", "image": "t:1", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "train", "controller": True}
    job = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-1", "namespace": "shop", "ownerReferences": [owner]},
        "spec": {"nodeName": "spot-3", "restartPolicy": "Never", "containers": [container]},
        "status": {"phase": "Running", "startTime": "2020-01-01T00:00:00Z"},
    }
    for node in cluster["items"][:5]:
        node["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    cluster["items"].append(job)
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(cluster))
    code, out = answer(*TAINT[:-1], str(file))
    assert code == FINDINGS
    assert "shop/train-1 is a job with devices that has run for" in out
    assert "leave out 1 node: spot-3" in out


def test_devices_are_tainted_pool_by_pool(answer, tmp_path):
    cluster = yaml.safe_load(Path(POOL).read_text())
    for name in ("spot-1", "spot-2"):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}]}
        metadata = {"name": name}
        cluster["items"].append(
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
        )
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(cluster))
    words = ["plan", "device-taint", "driver=gpu.example.com", "recall:NoExecute", "--cluster", str(file)]
    code, out = answer(*words, "-o", "yaml")
    (wave,) = read(yaml.safe_load(out)).waves
    pools = [each["spec"]["deviceSelector"]["pool"] for each in wave.manifests]
    assert (code, wave.changes, pools) == (FINE, ("apply",), ["spot-1", "spot-2"])
    assert [line.partition("/")[0] for line in wave.undo] == ["delete devicetaintrule"] * 2


def test_a_script_is_bash_with_waits(answer, tmp_path):
    code, out = answer(*TAINT, "-o", "script")
    file = tmp_path / "plan.sh"
    file.write_text(out)
    assert code == FINE
    assert subprocess.run(["bash", "-n", str(file)], check=False).returncode == 0
    assert "kubectl taint nodes" in out and "sla=650:NoExecute --overwrite" in out
    assert 'kubectl wait --for=delete --timeout="$timeout" -n shop pod/web-1' in out
    assert "at_least pdb/web shop '{.status.currentHealthy}' 2" in out
    assert "at_least replicaset/web shop '{.status.readyReplicas}' 4" in out


def test_a_script_does_not_wait_for_pods_that_were_not_ready_before(answer, tmp_path):
    cluster = yaml.safe_load(Path(POOL).read_text())
    pods = {each["metadata"]["name"]: each for each in cluster["items"] if each["kind"] == "Pod"}
    pods["web-4"]["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(cluster))
    code, out = answer(
        "plan",
        "taint",
        "spot-1",
        "sla=650:NoExecute",
        "--max-unavailable",
        "2",
        "--ignore-budgets",
        "--cluster",
        str(file),
        "-o",
        "script",
    )
    assert code == FINE and "at_least replicaset/web shop '{.status.readyReplicas}' 3" in out


def test_a_picture_shows_every_wave(answer):
    code, out = answer(*TAINT, "-o", "svg")
    words = " ".join(ElementTree.fromstring(out).itertext())
    assert (code, "3 nodes, 4 pods moved" in words, "shop/web allows" in words) == (FINE, True, True)
    assert "Wave 1: 2 pods" in words


def test_another_seed_is_as_repeatable(answer):
    def waves(seed: str) -> list[object]:
        return json.loads(answer(*TAINT, "-o", "json", "--seed", seed)[1])["waves"]

    assert waves("7") == waves("7")


def test_components_restart_in_the_order_that_evicts_no_pod(answer):
    on = "TaintTolerationCEL=true"
    words = ["--to", "1.37", "--gates", on, "--feature-gates", "TaintTolerationCEL=false", "--cluster", POOL]
    code, out = answer("plan", "upgrade", *words, "-o", "json")
    last = [wave["changes"][0].rpartition(" ")[2] for wave in json.loads(out)["waves"]]
    assert (code, last) == (FINE, ["kubelet", "controllers", "scheduler", "apiserver"])


def test_an_older_release_names_what_to_rewrite_first(answer, tmp_path):
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "recall"},
        "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "recall", "effect": "NoSchedule"}},
    }
    more = tmp_path / "more.yaml"
    more.write_text(yaml.safe_dump(rule))
    code, out = answer(
        "plan", "upgrade", "--to", "1.35", "--cluster", POOL, "--cluster", str(more), "-o", "json"
    )
    rewritten = "rewrite the tolerations of 1 workload with Equal first (replicaset/shop/batch)"
    assert (code, json.loads(out)["relaxations"]) == (
        FINDINGS,
        [f"{rewritten} and delete devicetaintrule/recall first"],
    )


def test_manifests_are_applied_in_waves_that_keep_their_order(answer, tmp_path):
    manifests = tmp_path / "manifests.yaml"
    deployments = [
        {**each, "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"}}
        for name, each in (("one", DEPLOYMENT), ("two", DEPLOYMENT))
    ]
    manifests.write_text(yaml.safe_dump_all(deployments))
    words = ["plan", "apply", "-f", str(manifests), "--cluster", POOL]
    code, out = answer(*words, "-o", "yaml")
    plan = read(yaml.safe_load(out))
    assert (code, [wave.changes for wave in plan.waves]) == (FINE, [("apply",)])
    assert [each["metadata"]["name"] for each in plan.waves[0].manifests] == ["one", "two"]
    assert plan.waves[0].undo == ("delete deployment/two -n shop", "delete deployment/one -n shop")
    code, out = answer(*words)
    assert "deployment/one and" in out


def test_manifests_whose_pods_find_no_room_have_no_plan(answer, tmp_path):
    manifest = tmp_path / "large.yaml"
    large = copy.deepcopy(DEPLOYMENT)
    large["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    manifest.write_text(yaml.safe_dump({**large, "kind": "Deployment", "metadata": {"name": "large"}}))
    code, out = answer("plan", "apply", "-f", str(manifest), "--cluster", POOL)
    assert code == FINDINGS and "stays pending" in out


@pytest.mark.parametrize(
    "words, said",
    [
        (["--max-unavailable", "many"], "--max-unavailable"),
        (["--max-unavailable", "101%"], "--max-unavailable"),
        (["--max-pending", "soon"], "--max-pending"),
        (["--within", "0"], "--within"),
    ],
)
def test_a_goal_that_cannot_be_read_is_named(words, said, capsys):
    assert run([*TAINT, *words]) == USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "nodes, words", [(["spot-1", "typo"], "no node typo in the cluster"), (["-l", "pool=x"], "pool=x")]
)
def test_nodes_that_are_not_there_are_a_mistake(capsys, nodes, words):
    assert run(["plan", "taint", *nodes, "sla=650:NoExecute", "--cluster", POOL]) == USAGE
    assert words in capsys.readouterr().err
