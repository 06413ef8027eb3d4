"""`weir snapshot`: what it writes, what it leaves out, and that every command reads it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.fake_server import FakeServer
from weir.cli.main import run
from weir.client import snapshot as reading
from weir.client.api import Client
from weir.errors import Forbidden, Gone, NotFound
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE, USAGE
from weir.inputs.live import Live

SECRET = "hunter2"
CONTAINER = {
    "name": "payments",
    "image": "registry.example.com/payments:1",
    "command": ["serve", f"--password={SECRET}"],
    "args": [SECRET],
    "env": [{"name": "TOKEN", "value": SECRET}, {"name": "NODE", "valueFrom": {"fieldRef": {}}}],
    "livenessProbe": {"exec": {"command": ["check", SECRET]}, "periodSeconds": 7},
    "resources": {"requests": {"cpu": "1"}},
}
NOTED = {
    "kubectl.kubernetes.io/last-applied-configuration": SECRET,
    "example.com/token": SECRET,
    "kubernetes.io/config.mirror": "abc",
}
TOLERATION = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}

EMPTY = ("namespaces", "replicationcontrollers")


class Server(FakeServer):
    """A small cluster that refuses some kinds, and whose lists expire as often as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[str, Exception] = {}
        self.expiring = 0
        node = {
            "metadata": {"name": "acme-node", "labels": {"kubernetes.io/hostname": "acme-node"}},
            "spec": {"taints": [{"key": "sla", "value": "950", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }
        self.put("/api/v1/nodes/acme-node", node)
        for number in range(5):
            one = {
                "metadata": {"name": f"payments-{number}", "namespace": "acme", "annotations": dict(NOTED)},
                "spec": {"containers": [CONTAINER], "nodeName": "acme-node", "tolerations": [TOLERATION]},
                "status": {"phase": "Running", "podIP": "10.1.2.3"},
            }
            self.put(f"/api/v1/namespaces/acme/pods/payments-{number}", one)
        self.put(
            "/api/v1/namespaces/acme/secrets/s", {"metadata": {"name": "s"}, "data": {"password": SECRET}}
        )

    def _answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Any:
        plural = path.rpartition("/")[2]
        if method != "GET":
            raise Forbidden("read only")
        if plural in self.refused:
            raise self.refused[plural]
        if plural == "pods" and "continue" in query and self.expiring:
            self.expiring -= 1
            raise Gone("token too old")
        if path.startswith(("/apis/apps/", "/apis/batch/")) or plural in EMPTY:
            return {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}
        if not path.startswith(("/api/v1/n", "/api/v1/p")):
            raise NotFound(path)
        return super()._answer(method, path, query, body)

    async def close(self) -> None: ...


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(Live, "connect", lambda self, agent: Client(server))
    monkeypatch.setattr(reading, "PAGE", 2)
    return server


def items(file: Path) -> list[dict[str, Any]]:
    content = file.read_bytes()
    return json.loads(gzip.decompress(content) if file.suffix == ".gz" else content)["items"]


def of_kind(file: Path, kind: str) -> list[dict[str, Any]]:
    return [each for each in items(file) if each["kind"] == kind]


def test_all_is_read_in_pages_and_nothing_secret_is_written(server, tmp_path, capsys):
    file = tmp_path / "s.json.gz"
    assert run(["snapshot", "-o", str(file)]) == FINE
    content = gzip.decompress(file.read_bytes()).decode()
    assert SECRET not in content
    assert (len(of_kind(file, "Pod")), len(of_kind(file, "Secret"))) == (5, 0)
    assert any("continue=" in each for each in server.requests if "/pods" in each)
    assert (oct(file.stat().st_mode & 0o777), list(tmp_path.iterdir())) == ("0o600", [file])
    (one, *_) = of_kind(file, "Pod")
    assert one["metadata"]["annotations"] == {"kubernetes.io/config.mirror": "abc"}
    (container,) = one["spec"]["containers"]
    assert [each["name"] for each in container["env"]] == ["TOKEN", "NODE"]
    assert container["livenessProbe"]["periodSeconds"] == 7


@pytest.mark.parametrize(
    ("part", "there"),
    [("env", '"value":"hunter2"'), ("args", "--password=hunter2"), ("annotations", "example.com/token")],
)
def test_what_is_asked_for_is_taken_along(server, tmp_path, part, there):
    file = tmp_path / "s.json"
    run(["snapshot", "-o", str(file), "--include", part])
    assert there in file.read_text()


def test_an_anonymous_snapshot_names_nobody(server, tmp_path, capsys):
    file = tmp_path / "s.json.gz"
    assert run(["snapshot", "--anonymous", "-o", str(file)]) == FINE
    content = gzip.decompress(file.read_bytes()).decode()
    for word in ("acme", "payments", "registry", SECRET, "10.1.2.3"):
        assert word not in content
    (node,) = of_kind(file, "Node")
    assert node["spec"]["taints"][0] == {"key": "sla", "value": "950", "effect": "NoSchedule"}
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == node["metadata"]["name"]
    assert {each["spec"]["nodeName"] for each in of_kind(file, "Pod")} == {node["metadata"]["name"]}
    assert run(["snapshot", "--anonymous", "--include", "env", "-o", str(file)]) == USAGE


def test_kinds_that_cannot_be_read_are_one_line_each_and_recorded(server, tmp_path, capsys):
    server.refused = {"namespaces": Forbidden("no"), "persistentvolumes": Forbidden("no")}
    file = tmp_path / "s.json.gz"
    assert run(["snapshot", "-o", str(file)]) == FINDINGS
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines if "you may not list them" in line] == [
        "namespaces",
        "persistentvolumes",
    ]
    (record,) = of_kind(file, "Snapshot")
    missing = {each["kind"]: each["why"] for each in record["missing"]}
    assert missing["Namespace"] == "you may not list them"
    assert missing["DeviceTaintRule"] == "the server does not have that kind"
    assert {"Node", "Pod"} <= set(record["listed"]) and "Namespace" not in record["listed"]
    server.refused = {"nodes": Forbidden("no")}
    assert run(["snapshot", "-o", str(file)]) == CANNOT_SAY


@pytest.mark.parametrize(("times", "code"), [(1, FINE), (2, FINE)])
def test_a_list_that_expires_is_begun_again(server, tmp_path, times, code):
    server.expiring = times
    file = tmp_path / "s.json.gz"
    assert run(["snapshot", "-o", str(file)]) == code
    assert len({each["metadata"]["name"] for each in of_kind(file, "Pod")}) == 5


QUESTIONS = (
    ["explain", "payments-0", "-n", "acme"],
    ["what-if", "taint", "acme-node", "hot:NoExecute"],
    ["advise", "--all"],
)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda words: words[0])
@pytest.mark.parametrize("name", ["s.json.gz", "s.json", "folder/s.json.gz"])
def test_every_command_reads_it(server, tmp_path, capsys, question, name):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    run(["snapshot", "-o", str(file)])
    capsys.readouterr()
    place = file.parent if "/" in name else file
    answers = []
    for options in (["-c", str(place), "--feature-gates", "AllAlpha=true"], ["-c", str(place)]):
        code = run([*question, *options])
        captured = capsys.readouterr()
        assert code in (FINE, FINDINGS, CANNOT_SAY), captured.err
        assert "internal error" not in captured.err
        answers.append((code, captured.out))
    assert answers[0][1]


def test_lint_reads_nodes_of_a_snapshot(server, tmp_path, capsys):
    file, manifest = tmp_path / "s.json.gz", tmp_path / "pod.json"
    run(["snapshot", "-o", str(file)])
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    manifest.write_text(json.dumps(pod))
    capsys.readouterr()
    assert run(["lint", str(manifest), "--cluster", str(file)]) in (FINE, FINDINGS)
    assert "internal error" not in capsys.readouterr().err


def test_a_kind_the_snapshot_lacks_makes_an_answer_uncertain(server, tmp_path, capsys):
    server.refused = {"persistentvolumeclaims": Forbidden("no")}
    file, pod = tmp_path / "s.json.gz", tmp_path / "pod.json"
    run(["snapshot", "-o", str(file)])
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [claim]}
    pod.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}))
    capsys.readouterr()
    assert run(["explain", "-f", str(pod), "-c", str(file)]) == CANNOT_SAY
    assert "persistentvolumeclaims could not be read: you may not list them" in capsys.readouterr().err


def test_a_damaged_file_is_one_line(server, tmp_path, capsys):
    file = tmp_path / "s.json.gz"
    run(["snapshot", "-o", str(file)])
    file.write_bytes(file.read_bytes()[:-40])
    capsys.readouterr()
    for question in (["explain", "payments-0", "-n", "acme"], ["what-if", "cordon", "acme-node"]):
        assert run([*question, "-c", str(file)]) == USAGE
        (line,) = capsys.readouterr().err.splitlines()
        assert "cannot be decompressed" in line
