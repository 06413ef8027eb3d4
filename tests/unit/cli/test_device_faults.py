"""`weir device degrade`, `unplug`, `break`, `repair`, `republish`: what they write on a simulated node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from weir.cli.main import run
from weir.clock import VirtualClock
from weir.exit_codes import FINDINGS, FINE, USAGE
from weir.simulation.cluster import Cluster
from weir.simulation.kubelet.node_classes import CLASSES

DRIVER = "gpu.example.com"


class Lent:
    """The cluster's client, for a command that runs on a loop of its own and closes it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster.client, name)

    async def close(self) -> None:
        return None


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    # The commands take the time of day; in the cluster it is a little later.
    clock = VirtualClock(datetime.now(UTC) + timedelta(minutes=1))
    with Cluster(clock=clock, controllers=["namespace"]) as cluster:
        cluster.add_nodes(1, node_class=CLASSES["gpu"].with_devices(2))
        cluster.add_nodes(1, name="plain")
        monkeypatch.setattr("weir.client.http.connect", lambda *_, **__: Lent(cluster))
        monkeypatch.setattr("asyncio.run", cluster._do)
        yield cluster


def taints(cluster: Cluster) -> list[str]:
    found = [d for s in cluster.list("ResourceSlice") for d in s["spec"].get("devices", ())]
    return [
        f"{d['name']} {t['key']}={t.get('value', '')}:{t['effect']}"
        for d in found
        for t in d.get("taints", ())
    ]


def device(*words: str) -> int:
    return run(["device", *words])


def test_a_device_overheats_unless_something_else_is_said(cluster: Cluster) -> None:
    assert device("degrade", "node-0/gpu-1") == FINE
    assert taints(cluster) == [f"gpu-1 {DRIVER}/overheated=:NoSchedule"]


def test_a_whole_node_degrades_and_is_repaired(cluster: Cluster) -> None:
    device("degrade", "node-0", "power=low:NoExecute")
    device("degrade", "node-0/gpu-0", "hot:NoSchedule")
    before = taints(cluster)
    device("repair", "node-0")
    assert (before, taints(cluster)) == (
        ["gpu-0 power=low:NoExecute", "gpu-0 hot=:NoSchedule", "gpu-1 power=low:NoExecute"],
        [],
    )


def test_one_taint_is_taken_back(cluster: Cluster) -> None:
    device("degrade", "node-0/gpu-0", "a:NoSchedule")
    device("degrade", "node-0/gpu-0", "b:NoSchedule")
    device("repair", "node-0/gpu-0", "a")
    assert taints(cluster) == ["gpu-0 b=:NoSchedule"]


def test_degrading_again_replaces_the_value(cluster: Cluster) -> None:
    device("degrade", "node-0/gpu-0", "sla=980:NoSchedule")
    device("degrade", "node-0/gpu-0", "sla=940:NoSchedule")
    assert taints(cluster) == ["gpu-0 sla=940:NoSchedule"]


def test_a_budget_runs_out_and_everything_about_a_taint_is_published(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--every", "1h", "--step", "-2", "--for", "30h", "--rate", "3"]
    more = ["--description", "fan", "--data", '{"rpm": 0}']
    assert device("degrade", "node-0/gpu-0", "budget=8:NoExecute", *options, *more) == FINE
    (taint,) = (
        t for s in cluster.list("ResourceSlice") for d in s["spec"]["devices"] for t in d.get("taints", ())
    )
    assert (taint["evictionsPerSecond"], taint["description"], taint["data"]) == (3, "fan", {"rpm": 0})
    assert (
        capsys.readouterr().out == "node-0/gpu-0: tainted budget=8:NoExecute for 108000 s, -2 every 3600 s\n"
    )


def test_a_device_is_unplugged_and_put_back(cluster: Cluster) -> None:
    device("unplug", "node-0/gpu-1")
    (without,) = cluster.list("ResourceSlice")
    device("repair", "node-0/gpu-1")
    (again,) = cluster.list("ResourceSlice")
    assert [len(s["spec"]["devices"]) for s in (without, again)] == [1, 2]


@pytest.mark.parametrize(("how", "slices"), [("wrong-count", [2]), ("duplicate-devices", [2, 2])])
def test_a_pool_is_broken_and_repaired(cluster: Cluster, how: str, slices: list[int]) -> None:
    device("break", "node-0", "--how", how)
    broken = [s["spec"]["pool"]["resourceSliceCount"] for s in cluster.list("ResourceSlice")]
    device("repair", "node-0")
    well = [s["spec"]["pool"]["resourceSliceCount"] for s in cluster.list("ResourceSlice")]
    assert (broken, well) == (slices, [1])


def test_a_restarted_driver_publishes_the_same_devices_in_new_slices(cluster: Cluster) -> None:
    (before,) = cluster.list("ResourceSlice")
    assert device("republish", "node-0") == FINE
    (after,) = cluster.list("ResourceSlice")
    assert before["spec"] == after["spec"] and before["metadata"]["uid"] != after["metadata"]["uid"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["degrade", "nowhere/gpu-0"], FINDINGS, 'nodes "nowhere" not found'),
        (["degrade", "plain-0/gpu-0"], FINDINGS, "has no simulated devices"),
        (["degrade", "node-0/gpu-7"], FINDINGS, "has no device gpu-7: there are gpu-0, gpu-1"),
        (["degrade", "node-0/a/b"], USAGE, "write NODE or NODE/DEVICE"),
        (["degrade", "node-0/"], USAGE, "write NODE or NODE/DEVICE"),
        (["degrade", "node-0", "hot"], USAGE, "is no taint"),
        (["degrade", "node-0", "/:NoSchedule"], USAGE, "prefix part must be non-empty"),
        (["degrade", "node-0", "a=x:NoSchedule", "--every", "1h"], USAGE, "is no number"),
        (["degrade", "node-0", "a=1:NoSchedule", "--every", "soon"], USAGE, "write a time like"),
        (["degrade", "node-0", "a=1:NoSchedule", "--for", "0s"], USAGE, "write a time like"),
        (["degrade", "node-0", "a:None", "--data", "[]"], USAGE, "is no JSON object"),
        (["degrade", "node-0", "a:None", "--data", "{"], USAGE, "--data"),
        (["unplug", "node-0"], USAGE, "which device?"),
        (["break", "node-0/gpu-0"], USAGE, "broken as a whole"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    cluster: Cluster, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert device(*words) == code
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_real_node_is_left_alone(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}})
    assert device("degrade", "real/gpu-0") == FINDINGS
    assert "is not simulated" in capsys.readouterr().err


class TestNodesWithDevices:
    def test_a_class_file_and_a_number_say_how_many(self, cluster: Cluster, tmp_path: Path) -> None:
        file = tmp_path / "lab.yaml"
        file.write_text("devices: {count: 6, attributes: {model: A100}}\n")
        assert run(["node", "add", "--name", "all", "--class", str(file)]) == FINE
        assert run(["node", "add", "--name", "few", "--class", str(file), "--devices", "1"]) == FINE
        found = {s["spec"]["pool"]["name"]: s["spec"]["devices"] for s in cluster.list("ResourceSlice")}
        assert {name: len(devices) for name, devices in found.items()} == {"node-0": 2, "all": 6, "few": 1}
        assert found["few"][0]["attributes"]["model"] == {"string": "A100"}

    def test_a_class_file_that_cannot_be_used_is_one_line(
        self, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "lab.yaml"
        file.write_text("devices: {count: -3}\n")
        assert run(["node", "add", "--class", str(file)]) == USAGE
        assert capsys.readouterr().err == "weir: lab: devices: count: -3 is not between 0 and 1024\n"
