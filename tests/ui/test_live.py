"""The page on a living cluster: changes are seen as they happen, are made after a yes, and need rights."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.e2e.kubectl import Kubectl, newest_kubectl
from tests.e2e.test_up import until, up
from tests.ui.conftest import go
from weir.cli._data_folder import find_holder
from weir.inputs.live import ClusterSource, Live

CELLS = "[...document.querySelectorAll('[role=gridcell]')]"
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{key: sla, operator: Gt, value: "900", effect: NoExecute}]
      containers: [{name: web, image: nginx}]
"""
VIEWER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pods-only}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: pods-only}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods-only}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]
"""
ONLY_LOOKS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: only-looks}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: only-looks}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: only-looks}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: onlooker}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}
"""
#: One node and one rule by their names, evictions in one namespace.
SOME_RIGHTS = """
apiVersion: v1
kind: Namespace
metadata: {name: elsewhere}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: some-rights}
rules:
- {apiGroups: [""], resources: [nodes], resourceNames: [node-2], verbs: [patch]}
- {apiGroups: [resource.k8s.io], resources: [devicetaintrules], resourceNames: [mine], verbs: [delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: some-rights}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: some-rights}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: evicts, namespace: default}
rules: [{apiGroups: [""], resources: [pods/eviction], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: evicts, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: evicts}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
"""
ON_NODE_2 = '{"spec": {"nodeName": "node-2"}}'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A `weir up` with GPUs and a deployment, and kubectl for it."""
    folder = tmp_path_factory.mktemp("up")
    with up(folder, "--nodes", "3", "--gpus", "2"):
        kubectl = Kubectl(newest_kubectl(), folder / "data" / "kubeconfig", folder)
        kubectl("apply", "-f", "-", stdin=WEB)
        kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        yield kubectl


def where(cluster):
    return ClusterSource((), Live(cluster.kubeconfig))


def test_a_taint_set_by_kubectl_recolours_the_matrix(page, cluster):
    """The page hears of the change from its stream: it asks for nothing at intervals."""
    tab = page(where(cluster))
    tab.until("document.querySelector('.chip.live')")
    fits = f"{CELLS}.length && {CELLS}.every((c) => c.classList.contains('v-fits'))"
    tab.until(fits)
    cluster("taint", "nodes", "node-2", "sla=800:NoSchedule")
    refused = "[role=gridcell].v-taint, [role=gridcell].v-change"
    tab.until(f"document.querySelector('{refused}')", 60)
    cluster("taint", "nodes", "node-2", "sla-")
    tab.until(fits, 60)
    assert tab.js(f"document.querySelectorAll('{refused}').length") == 0


def test_a_change_is_made_after_a_yes_and_held_against_the_plan(page, cluster):
    tab = page(where(cluster), "#/what-if?change=taint&nodes=node-1&key=sla&value=800&effect=NoExecute")
    tab.until("document.querySelector('#apply')", 60)
    tab.click("#apply")
    tab.until("document.querySelector('dialog[open]')")
    assert "kubectl taint nodes node-1 sla=800:NoExecute" in tab.text("dialog")
    tab.click("dialog button:not(.danger)")
    tab.until("!document.querySelector('dialog')")
    assert "sla" not in cluster("get", "node", "node-1", "-o", "jsonpath={.spec.taints}")
    tab.click("#apply")
    tab.click("#sure-yes")
    tab.until("document.querySelector('main').innerText.includes('node/node-1 tainted')", 60)
    assert "800" in cluster("get", "node", "node-1", "-o", "jsonpath={.spec.taints}")
    tab.until("document.querySelector('main').innerText.includes('Plan beside reality')")
    tab.until(
        "[...document.querySelectorAll('.checks tbody tr')].every((r) => r.innerText.startsWith('✓'))", 60
    )
    cluster("taint", "nodes", "node-1", "sla-")
    assert tab.errors == []


def test_a_node_is_drained_through_the_api(serve, cluster):
    """Without a browser: what the page sends, and what comes of it."""
    screens = serve(where(cluster)).screens
    question = {"change": "drain", "nodes": {"names": ["node-0"]}}
    command = "kubectl drain node-0 --ignore-daemonsets --delete-emptydir-data"
    assert screens.post("apply", {"question": question, "confirm": "yes"})[0] == 422
    code, said = screens.post("apply", {"question": question, "confirm": command})
    assert code == 200 and said["done"][0] == "node/node-0 cordoned", said
    until(lambda: "drained" in screens.get("reality", {})[1]["drain"])
    until(lambda: not cluster("get", "pods", "--field-selector", "spec.nodeName=node-0", "-o", "name"))
    until(lambda: all(each["held"] for each in screens.get("reality", {})[1]["checks"]))
    code, _ = screens.post(
        "apply", {"question": {**question, "change": "uncordon"}, "confirm": "kubectl uncordon node-0"}
    )
    assert code == 200
    # The controller takes the taint away a moment after the API server took the field.
    until(lambda: "unschedulable" not in cluster("get", "node", "node-0", "-o", "jsonpath={.spec}"))


def test_the_cluster_of_weir_up_is_started_and_stopped_with_the_page(tmp_path):
    command = [sys.executable, "-m", "weir", "ui", "--up", "--no-browser"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        lines = iter(process.stdout.readline, "")
        url = next(line.split()[1] for line in lines if line.startswith("open http"))
        with urllib.request.urlopen(url, timeout=60) as answer:
            cookie = answer.headers["Set-Cookie"].partition(";")[0]
        origin = url.partition("?")[0]
        request = urllib.request.Request(f"{origin}api/v1/state", headers={"Cookie": cookie})
        with urllib.request.urlopen(request, timeout=60) as answer:
            state = json.load(answer)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert state["live"] and len(state["nodes"]) == 3
    assert find_holder(tmp_path / ".weir") is None, "what was started is stopped"


def test_read_only_writes_nothing(page, cluster):
    tab = page(where(cluster), "#/what-if?change=cordon&nodes=node-0", read_only=True)
    tab.until("document.querySelector('main').innerText.includes('Started read only')", 60)
    body = '{"question": {"change": "cordon", "nodes": {"names": ["node-0"]}}, "confirm": "kubectl cordon node-0"}'
    said = tab.js(
        "fetch('api/v1/apply', {method: 'POST', headers: {'content-type': 'application/json', 'x-weir-ui': '1'},"
        f" body: {body!r}}}).then((r) => r.json())"
    )
    assert "read-only" in said["error"]
    assert "unschedulable" not in cluster("get", "node", "node-0", "-o", "jsonpath={.spec}")
    tab.errors.clear()  # the refusal itself is told as a failed request


def test_devices_are_tainted_and_untainted_and_the_tiles_follow(page, cluster):
    tab = page(where(cluster), "#/devices")
    tab.until("document.querySelectorAll('.tile').length === 6")
    tab.click(".tile")
    tab.fill("#panel select[name=taint-effect]", "NoSchedule")
    tab.click("#panel form button")
    tab.click("#panel button.danger")
    tab.click("#sure-yes")
    tab.until("document.querySelector('.tile.t-noschedule')", 30)
    assert "weir.dev/drain" in cluster("get", "devicetaintrules", "-o", "yaml")
    tab.until("document.querySelector('#panel').innerText.includes('Untaint')")
    tab.js("[...document.querySelectorAll('#panel button')].find((b) => b.innerText === 'Untaint').click()")
    tab.until("!document.querySelector('.tile.t-noschedule')", 30)
    assert "weir.dev/drain" not in cluster("get", "devicetaintrules", "-o", "yaml")


def test_actions_without_rights_are_known_before_they_are_tried(page, cluster, tmp_path):
    """One that may look at everything: no button that writes can be pressed, and each says why."""
    cluster("apply", "-f", "-", stdin=ONLY_LOOKS)
    looks = ClusterSource((), Live(kubeconfig_of(cluster, "onlooker", tmp_path)))
    tab = page(looks, "#/what-if?change=taint&nodes=node-1&key=sla&value=800&effect=NoExecute")
    tab.until("document.querySelector('#apply:disabled')", 60)
    said = (
        "document.getElementById(document.querySelector('#apply').getAttribute('aria-describedby')).innerText"
    )
    assert tab.js(said) == "Your rights do not allow it: you may not patch nodes/node-1."
    go(tab, "#/devices")
    tab.click(".tile")
    tab.click("#panel form button")
    tab.until("document.querySelector('#panel button.danger:disabled')", 30)
    assert "you may not patch devicetaintrules/" in tab.text("#panel .may-not")
    assert "nor create devicetaintrules/" in tab.text("#panel .may-not")
    assert not [each for each in tab.requests if each.endswith(("/apply", "/unrule"))]


def test_rights_to_some_nodes_and_namespaces_are_told_from_rights_to_none(serve, cluster, tmp_path):
    cluster("apply", "-f", "-", stdin=ONLY_LOOKS)
    cluster("apply", "-f", "-", stdin=SOME_RIGHTS)
    screens = serve(ClusterSource((), Live(kubeconfig_of(cluster, "tenant", tmp_path)))).screens

    def may_not(change, *names, **more):
        question = {"change": change, "nodes": {"names": list(names)}, **more}
        code, found = screens.post("rights", {"question": question})
        assert code == 200, found
        return found["mayNot"]

    taint = {"key": "a", "value": "b", "effect": "NoSchedule"}
    assert may_not("taint", "node-2", **taint) == []
    assert may_not("taint", "node-2", "node-1", **taint) == ["patch nodes/node-1"]
    assert may_not("delete-node", "node-2") == ["delete nodes/node-2"]
    cluster("run", "loner", "--image=nginx", "-n", "elsewhere", "--overrides", ON_NODE_2)
    until(lambda: "elsewhere/loner" in screens.source.seen().world.pods)
    assert may_not("drain", "node-2", force=True) == ["create pods/eviction in elsewhere"]
    cluster("delete", "pod", "loner", "-n", "elsewhere", "--now")
    until(lambda: "elsewhere/loner" not in screens.source.seen().world.pods)
    assert may_not("drain", "node-2", force=True) == []
    assert screens.post("rights", {"unrule": "mine"})[1]["mayNot"] == []
    assert screens.post("rights", {"unrule": "theirs"})[1]["mayNot"] == ["delete devicetaintrules/theirs"]
    assert screens.post("rights", {})[0] == 422


def kubeconfig_of(cluster, user, folder):
    kubeconfig = folder / user
    data = str(cluster.kubeconfig.parent)
    command = ["kubeconfig", "--user", user, "--data-dir", data, "-o", str(kubeconfig)]
    made = subprocess.run([sys.executable, "-m", "weir", *command], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return kubeconfig


def test_a_viewer_without_rights_is_told_what_cannot_be_said(page, cluster, tmp_path):
    cluster("apply", "-f", "-", stdin=VIEWER)
    tab = page(ClusterSource((), Live(kubeconfig_of(cluster, "viewer", tmp_path))))
    tab.until("document.querySelector('.cannot')")
    assert "cannot say what fits where: nodes could not be read: you may not list them" in tab.text("main")
    assert "Cannot say anything that needs these" in tab.text("#top")
    tab.js("location.hash = '#/devices'")
    tab.until(
        "document.querySelector('.cannot') && document.querySelector('.cannot').innerText.includes('devices')"
    )
    assert "cannot say which devices there are" in tab.text("main")
