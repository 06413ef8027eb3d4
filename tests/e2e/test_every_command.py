"""Every command runs: each example line of each help text, on a cluster that has what the examples name.

A command without an example gets a line in `MORE`; a line that needs more than one cluster and a minute is in
`ELSEWHERE` with the test that runs it. A command without a run fails, and so does an exit code other than 0 and 1.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml
from docs.generate import commands as every_command

from tests.documented import weir_words
from tests.e2e.shell import SERVES, Shell
from tests.e2e.test_up import up
from weir.cli.main import EXAMPLES, weir

ROOT = Path(__file__).parents[2]
#: Runs of commands whose help shows no example.
MORE = {
    "weir cel check": ["weir cel check 'taint.value.size() < 3'"],
    "weir cel functions": ["weir cel functions"],
    "weir what-if cordon": ["weir what-if cordon spot-1"],
    "weir what-if uncordon": ["weir what-if uncordon spot-1"],
    "weir what-if delete-node": ["weir what-if delete-node spot-1"],
    "weir status": ["weir status"],
    "weir kubeconfig": ["weir kubeconfig --user alice"],
    "weir apiserver": ["weir apiserver --secure-port 0 --data-dir alone"],
    "weir device break": ["weir device break node-2"],
    "weir device republish": ["weir device republish node-2"],
    "weir device unplug": ["weir device unplug node-2/gpu-0"],
    "weir node fail": ["weir node fail node-6"],
    "weir node recover": ["weir node recover node-6"],
    "weir node remove": ["weir node remove node-6 --yes"],
    "weir down": ["weir up --detach --secure-port 0 --data-dir third && weir down --data-dir third"],
}
#: Lines that another test runs, because they need minutes or a machine of their own.
ELSEWHERE = {
    "source <(weir completion zsh)": "tests/unit/cli/test_completion.py",
    "weir demo": "tests/integration/test_demo.py",
    "weir demo kep-5500 --real-time": "tests/integration/test_demo.py",
    "weir conformance --context staging": "tests/e2e/test_conformance.py",
    "weir conformance kep-5471 --yes -o junit > report.xml": "tests/e2e/test_conformance.py",
    "weir install --image registry.example/weir:1 --apply --context production": "tests/e2e/test_install.py",
    "weir install --rotate-path --context production": "tests/e2e/test_install.py",
    "weir operator --url https://192.0.2.7:9443": "tests/e2e/test_install.py",
    "weir backup monday.snapshot --store etcd=127.0.0.1:2379": "tests/integration/test_backup.py",
    "weir up --apiservers 4 --store etcd=127.0.0.1:2379": "tests/e2e/test_many_apiservers.py",
    "weir down && weir restore monday.db && weir up": "tests/e2e/test_every_command.py",
    "weir restore monday.snapshot --etcd-data-dir m1 -- --name m1 --initial-cluster m1=http://10.0.0.1:2380": (
        "tests/unit/cli/test_backup.py"
    ),
}
FILES = {
    "pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: web, image: web:1}]
  tolerations: [{key: sla, operator: Gt, value: "700", effect: NoExecute}]
""",
    "deployment.yaml": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web:1, resources: {requests: {cpu: 100m}}}]
      tolerations: [{key: sla, operator: Gt, value: "700", effect: NoExecute}]
""",
    "cel.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: rack}
spec:
  containers: [{name: rack, image: rack:1}]
  tolerations: [{expression: "taint.key == 'example.com/rack'"}]
""",
    "rule.yaml": """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: recall}
spec:
  deviceSelector: {driver: gpu.example.com}
  taint: {key: recall, effect: NoExecute}
""",
    "policies/none.yaml": """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: named}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  validations: [{expression: "object.metadata.name != 'nobody'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: named}
spec: {policyName: named, validationActions: [Deny]}
""",
}
FILES["app.yaml"] = FILES["manifests/app.yaml"] = FILES["deployment.yaml"]


def examples() -> dict[str, list[str]]:
    """Return the example lines of every command's help by the command's name, groups' lines by their commands'."""
    lines: dict[str, list[str]] = {"weir": [line.strip() for line in EXAMPLES.splitlines()[1:]]}
    for name, command in every_command(weir, "weir"):
        shown = [line.strip() for line in (command.help or "").splitlines() if _is_example(line.strip())]
        lines.setdefault(name, []).extend(MORE.get(name, []) + shown)
    return lines


def _is_example(line: str) -> bool:
    return bool(re.match(r"(?:weir|kubectl|helm|printf|source) ", line)) and any(weir_words(line))


LINES = examples()


def test_every_command_has_a_run():
    leaves = {name for name, command in every_command(weir, "weir") if not isinstance(command, click.Group)}
    run = {_command(words) for lines in LINES.values() for line in lines for words in weir_words(_code(line))}
    assert leaves - run == set()


@pytest.mark.parametrize(("line", "test"), ELSEWHERE.items())
def test_a_test_that_runs_a_line_names_its_command(line, test):
    assert line in {_code(each) for lines in LINES.values() for each in lines}
    assert next(weir_words(line))[0] in (ROOT / test).read_text()


def _code(line: str) -> str:
    """Return *line* without the remark behind it."""
    return re.sub(r"\s+# .*$", "", line)


def _command(words: list[str]) -> str:
    """Return the name of the command that *words* call, for example `weir device list`."""
    command: click.Command = weir
    name = "weir"
    for word in words:
        child = (
            command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        )
        if child is None:
            break
        command, name = child, f"{name} {word}"
    return name


def name_contexts(folder: Path) -> None:
    """Write a kubeconfig whose contexts are called as in the examples."""
    config = yaml.safe_load((folder / "data" / "kubeconfig").read_text())
    (only,) = config["contexts"]
    config["contexts"] += [{**only, "name": name} for name in ("production", "staging")]
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    here = Shell(folder, KUBECONFIG=str(folder / "kubeconfig"))
    (folder / ".weir").symlink_to("data")
    here.program("helm", "cat manifests/app.yaml")
    for name, text in FILES.items():
        here.write(name, text)
    with up(folder, "--nodes", "8", "--gpus", "2"):
        name_contexts(folder)
        here.must("weir node add --count 3 --class spot")
        here.must("kubectl label nodes spot-1 spot-2 pool=spot")
        here.must("kubectl taint nodes spot-1 maintenance:NoSchedule")
        here.must("kubectl create namespace shop && kubectl apply -n shop -f deployment.yaml -f pod.yaml")
        here.must("kubectl rollout status -n shop deploy/web --timeout 60s")
        here.must("weir device degrade node-1/gpu-0 gpu.example.com/overheated:NoSchedule")
        here.must("kubectl get nodes,pods,deployments,replicasets -A -o yaml > snapshot.yaml")
        yield here


@pytest.mark.parametrize("command", [name for name, lines in LINES.items() if lines])
def test_the_examples_of_a_command_run(command, place):
    for line in map(_code, LINES[command]):
        if line in ELSEWHERE:
            continue
        words = next(weir_words(line))
        serving = line.startswith("weir ") and words[0] in SERVES and not {"-o", "--detach"} & set(words)
        if serving:
            code, printed = place.interrupt(f"{line}{_own(words)}", SERVES[words[0]])
        else:
            result = place.run(line)
            if "asks before it acts" in result.stdout:
                result = place.run(f"{line} --yes")
            code, printed = result.returncode, result.stdout
        assert code in (0, 1) or (serving and code == 130), f"{line}: exit {code}\n{printed}"
        assert "Traceback" not in printed and "internal error" not in printed, f"{line}\n{printed}"


def test_a_backup_is_put_back(tmp_path):
    place = Shell(tmp_path, KUBECONFIG=".weir/kubeconfig")
    place.must("weir up --detach --nodes 0 --secure-port 0 && kubectl create namespace kept")
    place.must("weir backup monday.db && kubectl create namespace lost")
    place.must("weir down && weir restore monday.db --yes && weir up --detach --secure-port 0")
    try:
        names = place.run("kubectl get namespaces -o name").stdout.split()
        assert "namespace/kept" in names and "namespace/lost" not in names
    finally:
        place.must("weir down")


def _own(words: list[str]) -> str:
    """Return what a second cluster on this machine needs beside the options of an example."""
    return " --data-dir second --secure-port 0" if words[0] == "up" else ""
