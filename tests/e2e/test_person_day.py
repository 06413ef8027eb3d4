"""A person's first day: the wheel in a clean environment, the things of the README, one wrong input each.

Installs a checkout as docs/howto/use-without-a-network.md does, which is what docs/howto/run-in-ci.md leaves to pipx.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.kubectl import newest_kubectl
from tests.e2e.test_up import until

ROOT = Path(__file__).parents[2]


class Person:
    """Someone with a shell, a folder of examples, a home of their own and weir from the wheel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "venv" / "bin"
        self.kubeconfig = folder / ".weir" / "kubeconfig"

    def types(self, *words: str, stdin: str = "") -> tuple[int, str]:
        """Run a command; return its exit code and all it printed."""
        done = subprocess.run(
            [self.programs / words[0], *words[1:]],
            cwd=self.folder,
            env={
                "PATH": f"{self.programs}:{os.environ['PATH']}",
                "HOME": str(self.folder / "home"),
                "KUBECONFIG": str(self.kubeconfig),
            },
            input=stdin,
            capture_output=True,
            text=True,
            timeout=180,
        )
        said = done.stdout + done.stderr
        assert "Traceback" not in said and "internal error" not in said, said
        return done.returncode, said


def install(*words: str) -> None:
    done = subprocess.run([*words, "-q", "--disable-pip-version-check"], capture_output=True, text=True)
    if done.returncode and not os.environ.get("CI") and "Connection" in done.stderr:
        pytest.skip("no package index can be reached from here")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def person(tmp_path_factory):
    folder = tmp_path_factory.mktemp("person")
    wheels = str(folder / "wheels")
    install(
        sys.executable, "-m", "pip", "wheel", str(ROOT), "-c", str(ROOT / "constraints.txt"), "-w", wheels
    )
    # pip is started from outside and compiles nothing ahead: half of the time went into what no test looks at.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "venv" / "bin" / "python")]
    install(*pip, "install", "--no-index", "--find-links", wheels, "--no-compile", "weir-k8s")
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "home").mkdir()
    someone = Person(folder)
    yield someone
    someone.types("weir", "down")


@pytest.fixture(scope="module")
def cluster(person):
    """`weir up`, as the README has it, with devices."""
    code, said = person.types("weir", "up", "--detach", "--secure-port", "0", "--nodes", "2", "--gpus", "2")
    assert code == 0, said
    until(lambda: "2 of 2 ready" in person.types("weir", "status")[1], 60)
    return person


CLUSTER = ("--cluster", "examples/checkout/cluster.yaml")
SHOP = ("--cluster", "examples/shop-cluster.yaml")


@pytest.mark.parametrize(
    "words, code, said",
    [
        (("weir", "--version"), 0, "weir "),
        (("weir", "demo", "inference"), 0, "all as specified"),
        (("weir", "demo", "no-such-story"), 2, "no-such-story"),
        (("weir", "explain", "-f", "examples/checkout/pod.yaml", *CLUSTER), 1, "fits on none"),
        (("weir", "explain", "-f", "examples/checkout/pdo.yaml", *CLUSTER), 2, "pdo.yaml"),
        (
            ("weir", "what-if", "taint", "-l", "pool=spot", "failure-probability=15:NoExecute", *SHOP),
            1,
            "console",
        ),
        (("weir", "what-if", "taint", "spot-1", "sla=1:NoExeccute", *CLUSTER), 2, "NoExeccute"),
        (("weir", "lint", "examples/checkout/pod.yaml", *CLUSTER), 1, "W005"),
        (("weir", "lint", "examples/nowhere"), 2, "examples/nowhere"),
        (("weir", "cel", "eval", "taint.key.startsWith('a')", "a=x:NoSchedule"), 0, "true"),
        (("weir", "cel", "eval", "taint.kee", "a=x:NoSchedule"), 1, "kee"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else "",
)
def test_questions_about_files(person, words, code, said):
    done, printed = person.types(*words)
    assert (done, said in printed) == (code, True), printed


def test_the_library_is_imported_from_the_wheel(person):
    code, said = person.types("python", "-c", "import weir; print(weir.__file__, weir.__version__)")
    assert code == 0 and said.startswith(str(person.folder / "venv"))


def test_kubectl_talks_to_the_cluster_and_finds_the_plugin(cluster):
    kubectl = newest_kubectl()
    (cluster.programs / "kubectl").unlink(missing_ok=True)
    (cluster.programs / "kubectl").symlink_to(kubectl.path)
    code, listed = cluster.types("kubectl", "get", "nodes", "-o", "name")
    assert (code, listed.split()) == (0, ["node/node-0", "node/node-1"])
    code, said = cluster.types("kubectl", "weir", "--version")
    assert code == 0 and said.startswith("weir ")
    code, said = cluster.types("weir", "up", "--secure-port", "0")
    assert code == 1 and "is in use by process" in said


def test_devices_of_the_cluster(cluster):
    until(lambda: "gpu-1" in cluster.types("weir", "device", "list", "--node", "node-1")[1], 30)
    code, said = cluster.types("weir", "device", "drain", "gpu.example.com/node-0/*", "--dry-run")
    assert code == 0 and "2 published devices" in said
    code, said = cluster.types("weir", "device", "drain", "gpu.example.com/node-7/*", "--dry-run")
    assert code == 1 and "0 published devices" in said
    code, said = cluster.types("weir", "node", "remove", "node-9", "--yes")
    assert code == 1 and "node-9" in said


def test_the_parts_against_the_cluster(cluster):
    code, said = cluster.types("weir", "lint", "--cluster")
    assert code in (0, 3), said  # 3: the scheduler's own gates are not known from outside
    code, said = cluster.types("weir", "scheduler", "--kubeconfig", "nowhere")
    assert code == 2 and "nowhere" in said
    code, said = cluster.types("weir", "status", "-o", "json")
    assert code == 0 and json.loads(said)["nodes"]["ready"] == 2
