"""What weir says of a live cluster that it cannot see whole: nothing it does not know, and exit code 3.

A `view` user, a user without rights, a wrong token, an expired certificate, a server that is not there; and clusters
whose components have other gates than weir's default.
"""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.e2e.server import running_server
from tests.e2e.test_up import up
from weir.apiserver.auth import pki
from weir.cli.main import run
from weir.client.http import connect
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE
from weir.objects.kinds import by_kind

TOKENS = """\
admin-token,root,1,"system:masters"
view-token,viewer,2,
none-token,stranger,3,
edit-token,editor,4,
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: c, image: i}]
  tolerations: [{key: sla, operator: Gt, value: "900", effect: NoSchedule}]
"""
PLAIN = POD.partition("  tolerations")[0]
NUMERIC = "TaintTolerationComparisonOperators"
AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "20"}


def binding(role, user):
    return {
        "metadata": {"name": f"{user}-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


async def furnish(kubeconfig):
    client = connect(kubeconfig)
    node = {"metadata": {"name": "lab-0"}, "status": {"allocatable": AMOUNTS, "capacity": AMOUNTS}}
    await client.create(by_kind("v1", "Node"), node)
    taint = {"key": "sla", "value": "950", "effect": "NoSchedule"}
    await client.patch(by_kind("v1", "Node"), "lab-0", {"spec": {"taints": [taint]}})
    bindings = by_kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")
    roles = by_kind("rbac.authorization.k8s.io/v1", "ClusterRole")
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
    await client.create(roles, {"metadata": {"name": "nodes"}, "rules": [nodes]})
    for role, user in (("view", "viewer"), ("nodes", "viewer"), ("edit", "editor"), ("nodes", "editor")):
        await client.create(bindings, binding(role, user))
    await client.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose numeric gate is off, with a tainted node and users of several rights."""
    folder = tmp_path_factory.mktemp("uncertain")
    (folder / "tokens.csv").write_text(TOKENS)
    options = ["--store", "memory", "--token-auth-file", str(folder / "tokens.csv")]
    with running_server(folder, *options, "--feature-gates", f"{NUMERIC}=false") as server:
        asyncio.run(furnish(server.kubeconfig))
        yield server


@pytest.fixture
def config(server, tmp_path):
    """A function that writes the kubeconfig of a user and returns its path."""

    def write(name, **user):
        document = yaml.safe_load(server.kubeconfig.read_text())
        document["users"] = [{"name": name, "user": user or {"token": f"{name}-token"}}]
        (context,) = document["contexts"]
        context["context"]["user"] = name
        path = tmp_path / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write


@pytest.fixture
def pod(tmp_path):
    (tmp_path / "pod.yaml").write_text(POD)
    return str(tmp_path / "pod.yaml")


def said(capsys):
    captured = capsys.readouterr()
    return captured.out + captured.err


# ── gates ────────────────────────────────────────────────────────────────────────────────────────


def test_a_gate_that_is_off_in_the_server_is_learned_from_its_metrics(config, pod, capsys):
    assert run(["explain", "-f", pod, "--kubeconfig", config("admin")]) == FINDINGS
    text = said(capsys)
    assert 'Unsupported value: "Gt"' in text
    assert f"{NUMERIC} off (API server: its /metrics)" in text


def test_a_gate_is_learned_by_a_dry_run_where_metrics_may_not_be_read(config, pod, server, capsys):
    assert run(["explain", "-f", pod, "--kubeconfig", config("edit")]) == FINDINGS
    assert f"{NUMERIC} off (API server: a dry run was refused)" in said(capsys)

    async def pods():
        client = connect(server.kubeconfig)
        found = await client.list(by_kind("v1", "Pod"))
        await client.close()
        return found.items

    assert asyncio.run(pods()) == []  # nothing of the probes was stored


def test_an_unknown_gate_gives_both_answers_and_exit_code_three(config, pod, capsys):
    assert run(["explain", "-f", pod, "--kubeconfig", config("view")]) == CANNOT_SAY
    text = said(capsys)
    assert f"If {NUMERIC} is off in the cluster (not known):" in text
    assert f"If {NUMERIC} is on in the cluster (not known):" in text
    assert "fits nowhere" in text and "fits on" in text
    assert "you may not read its /metrics, and you may not create objects in a dry run" in text


def test_both_answers_are_there_for_machines(config, pod, capsys):
    assert run(["explain", "-f", pod, "-o", "json", "--kubeconfig", config("view")]) == CANNOT_SAY
    found = json.loads(capsys.readouterr().out)
    assert [found["pods"][0]["fits"], found["otherwise"]["pods"][0]["fits"]] == [False, True]
    assert found["gates"][NUMERIC]["on"] is None


def test_a_gate_that_decides_nothing_may_stay_unknown(config, pod, tmp_path, capsys):
    (tmp_path / "pod.yaml").write_text(PLAIN)
    assert (
        run(["explain", "-f", pod, "--kubeconfig", config("view")]) == FINDINGS
    )  # the taint is not tolerated
    assert "not known" in said(capsys)


def test_what_a_person_knows_of_a_gate_counts(config, pod, capsys):
    known = ["--feature-gates", f"{NUMERIC}=true"]
    assert run(["explain", "-f", pod, "--kubeconfig", config("view"), *known]) == FINE
    assert f"{NUMERIC} on (given with --feature-gates)" in said(capsys)


def test_lint_asks_the_cluster_for_its_gates(config, pod, capsys):
    assert run(["lint", pod, "--cluster", "--kubeconfig", config("admin")]) == FINDINGS
    assert 'Unsupported value: "Gt"' in said(capsys)
    assert run(["lint", pod, "--cluster", "--kubeconfig", config("view")]) == CANNOT_SAY
    assert f"if {NUMERIC} is off" in said(capsys)


def test_the_gates_of_a_whole_cluster_are_learned_component_by_component(tmp_path, pod, capsys):
    gate = f"scheduler:{NUMERIC}=false"
    with up(tmp_path, "--nodes", "1", "--store", "memory", "--component-gates", gate):
        place = tmp_path / "data" / "kubeconfig"
        asyncio.run(taint(place))
        assert run(["explain", "-f", pod, "--kubeconfig", str(place)]) == FINDINGS
    text = said(capsys)
    assert f"{NUMERIC} off (scheduler: the API server's /metrics)" in text


async def taint(kubeconfig):
    client = connect(kubeconfig)
    found = {"key": "sla", "value": "950", "effect": "NoSchedule"}
    await client.patch(by_kind("v1", "Node"), "node-0", {"spec": {"taints": [found]}})
    await client.close()


# ── rights ───────────────────────────────────────────────────────────────────────────────────────

QUESTIONS = [
    ["explain", "web"],
    ["what-if", "taint", "lab-0", "x:NoExecute"],
    ["lint", "--cluster"],
    ["device", "list"],
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda words: words[0])
def test_a_user_without_rights_is_told_what_could_not_be_read(config, capsys, question):
    assert run([*question, "--kubeconfig", config("none")]) == CANNOT_SAY
    text = said(capsys)
    assert "could not be read: you may not list them" in text
    assert "no node lab-0" not in text and "no findings" not in text


def test_a_viewer_reads_nothing_false_about_devices(config, tmp_path, capsys):
    claims = "  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]\n"
    (tmp_path / "claims.yaml").write_text(PLAIN + claims)
    asked = ["explain", "-f", str(tmp_path / "claims.yaml"), "--kubeconfig", config("view")]
    assert run(asked) == CANNOT_SAY
    text = said(capsys)
    assert "does not exist" not in text and "could not be read: you may not list them" in text


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda words: words[0])
def test_a_wrong_token_names_the_server_and_the_user(config, capsys, question):
    assert run([*question, "--kubeconfig", config("wrong", token="nonsense")]) == CANNOT_SAY
    text = said(capsys)
    assert "https://127.0.0.1:" in text and "user 'wrong'" in text and text.count("\n") == 1


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda words: words[0])
def test_an_expired_certificate_is_named_as_the_cause(config, server, capsys, question):
    past = datetime.now(UTC) - timedelta(days=3000)
    credentials = pki.ensure(server.data / "pki", now=datetime.now(UTC))
    pair = credentials.issue_client(pki.Identity("old", ()), past)
    kubeconfig = config(
        "old", **{"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}
    )
    assert run([*question, "--kubeconfig", kubeconfig]) == CANNOT_SAY
    text = said(capsys)
    assert "user 'old'" in text and "expired" in text and text.count("\n") == 1


def encoded(pem):
    return base64.b64encode(pem).decode()


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda words: words[0])
def test_a_server_that_is_not_there_is_one_line(config, tmp_path, capsys, question):
    path = tmp_path / "away.kubeconfig"
    document = yaml.safe_load(Path(config("admin")).read_text())
    document["clusters"][0]["cluster"] = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    path.write_text(yaml.safe_dump(document))
    assert run([*question, "--kubeconfig", str(path)]) == CANNOT_SAY
    assert said(capsys).count("\n") == 1
