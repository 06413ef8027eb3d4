"""A real, unmodified Kubernetes takes everything that is installed, and the operator gets by with its own rights."""

from __future__ import annotations

import json

from tests.contract.etcd_server import free_port
from tests.e2e.kubectl import Kubectl, newest_kubectl
from tests.e2e.test_install import check, eventually, operator, own_kubeconfig, pod, weir
from tests.kubernetes.programs import controller_manager
from tests.kubernetes.real_server import real_server

OFF = "--feature-gates=TaintTolerationComparisonOperators=false"
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kernel: 5.16.0}}
spec: {taints: [{key: sla, value: "950", effect: NoExecute}]}
"""


def tolerations(kubectl, name):
    return json.loads(kubectl("get", "pod", name, "-o", "json"))["spec"]["tolerations"]


def test_installed_used_checked_and_taken_out(tmp_path):
    url = f"https://127.0.0.1:{free_port()}"
    with (
        real_server(tmp_path, OFF) as kubeconfig,
        controller_manager(tmp_path, kubeconfig, OFF),
    ):
        kubectl = Kubectl(newest_kubectl(), kubeconfig, tmp_path)
        assert "not installed" in weir(kubeconfig, "check")
        for form in (["--image", "registry.example/weir:1"], ["--url", url]):
            manifests = weir(kubeconfig, "install", *form)
            namespace, _, rest = manifests.partition("---\n")
            kubectl("apply", "-f", "-", stdin=namespace)
            kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=rest)
            kubectl("apply", "--dry-run=server", "-f", "-", stdin=rest)
        kubectl("apply", "-f", "-", stdin=manifests)
        with operator(tmp_path, own_kubeconfig(kubectl, kubeconfig, tmp_path), url) as log:
            eventually(lambda: " Ready " in log.read_text(), "the operator does not become ready")
            kubectl("create", "-f", "-", stdin=NODE)
            eventually(lambda: '"verdict": "todo"' not in check(kubeconfig), lambda: check(kubeconfig))
            found = {each["name"]: each for each in json.loads(check(kubeconfig))["checks"]}
            print(found["hook"]["says"], found["barrier"]["says"], found["confirm"]["says"], sep="\n")
            assert {found[name]["verdict"] for name in ("hook", "barrier", "confirm", "pods")} == {"fine"}

            kubectl("create", "-f", "-", stdin=pod("gt"))
            eventually(lambda: "pending" not in kubectl("get", "pod", "gt", "-o", "yaml"), "it is let go")
            assert [each.get("value") for each in tolerations(kubectl, "gt") if each["key"] == "sla"] == [
                "950"
            ]
            kubectl("taint", "node", "n1", "sla=960:NoExecute", "--overwrite")
            assert {each.get("value") for each in tolerations(kubectl, "gt") if each["key"] == "sla"} == {
                "950",
                "960",
            }

            # A bare pod again: as kubectl does it, and on the server's side with the flag that the page names.
            kubectl("apply", "-f", "-", stdin=pod("gt"))
            kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=pod("gt"))
            assert {each.get("value") for each in tolerations(kubectl, "gt") if each["key"] == "sla"} == {
                "950",
                "960",
            }

            refused = kubectl(
                "apply",
                "--validate=warn",
                "-f",
                "-",
                stdin=pod("lost", "{operator: Exists, expression: 'true'}"),
                fails=True,
            )
            assert "operator: CEL" in refused
            assert "forbidden" not in log.read_text().casefold()
            assert "namespace/weir-system deleted" in weir(kubeconfig, "uninstall", "--yes")
        assert "Unsupported value" in kubectl("create", "-f", "-", stdin=pod("late"), fails=True)
