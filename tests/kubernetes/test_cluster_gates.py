"""The gates of a real kube-apiserver are learned: from its metrics, and by dry runs for who may not read them."""

from __future__ import annotations

import asyncio

import pytest

from tests.kubernetes.real_server import real_server
from weir.client.cluster_gates import API_SERVER, detect_gates
from weir.client.http import connect
from weir.gates import FEATURES, TOLERATION_CEL, TOLERATION_COMPARISON
from weir.objects.kinds import by_kind

USER = "poor-token,poor,2,people"
RIGHTS = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices", "devicetaintrules"],
        "verbs": ["create"],
    },
]
GROUP = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module", params=[True, False], ids=["on", "off"])
def server(request, tmp_path_factory):
    """A server with the gate of numeric tolerations on or off; its kubeconfigs for an administrator and for others."""
    folder = tmp_path_factory.mktemp("gates")
    setting = f"--feature-gates={TOLERATION_COMPARISON}={str(request.param).lower()}"
    with real_server(folder, setting, users=(USER,)) as kubeconfig:
        asyncio.run(_grant(kubeconfig))
        poor = folder / "poor.kubeconfig"
        poor.write_text(kubeconfig.read_text().replace("admin-token", "poor-token"))
        yield request.param, kubeconfig, poor


async def _grant(kubeconfig):
    client = connect(kubeconfig)
    try:
        role = by_kind(f"{GROUP}/v1", "ClusterRole")
        await client.create(role, {"metadata": {"name": "probing"}, "rules": RIGHTS})
        about = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "probing"}
        subject = {"apiGroup": GROUP, "kind": "Group", "name": "people"}
        binding = by_kind(f"{GROUP}/v1", "ClusterRoleBinding")
        await client.create(
            binding, {"metadata": {"name": "probing"}, "roleRef": about, "subjects": [subject]}
        )
    finally:
        await client.close()


def learned(kubeconfig):
    async def ask():
        client = connect(kubeconfig)
        try:
            return (await detect_gates(client)).by_component[API_SERVER]
        finally:
            await client.close()

    return asyncio.run(ask())


def test_metrics_and_dry_runs_say_the_same_of_every_gate(server):
    on, administrator, poor = server
    by_metrics, by_asking = learned(administrator), learned(poor)
    assert by_metrics[TOLERATION_COMPARISON].on is on and "metrics" in by_metrics[TOLERATION_COMPARISON].how
    assert "dry run" in by_asking[TOLERATION_COMPARISON].how
    assert by_metrics[TOLERATION_CEL].on is False  # no release has it
    assert {name: by_asking[name].on for name in FEATURES} == {name: by_metrics[name].on for name in FEATURES}
