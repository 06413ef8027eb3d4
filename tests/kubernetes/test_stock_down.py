"""stock.md 9 on a real Kubernetes: what passes and what is refused while the operator cannot do its work.

Four ways to be down: the process is gone, its certificate has expired, it has no rights, it cannot reach the server.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.real_server import KUBECONFIG
from tests.stock.real import HOOKS, NODES, PODS, Door, Plane, installed, plane, start_operator
from tests.stock.scenarios import entry, sla
from weir import errors
from weir.lowering import webhooks
from weir.objects.kinds import by_kind
from weir.operator.certificates import renewed
from weir.operator.controller import KEYS_SECONDS

DEPLOYMENTS = by_kind("apps/v1", "Deployment")
GT = entry("Gt", "900")
EXISTS = entry("Exists")
#: What says something extended, or brings a taint that may evict.
REFUSED = ("an extended pod", "an extended Deployment", "a new value on a node", "a new node with a taint")
PASSES = (
    "a plain pod",
    "a label of a lowered pod",
    "a pod's status",
    "the end of a pod",
    "a heartbeat",
    "a cordon",
    "the end of a taint",
    "a taint of Kubernetes' own",
)
#: No extended pod names its key; an operator that answers, but cannot finish, still refuses it.
UNUSED = "a taint with a key that nothing uses"
OUT_OF_SERVICE = {
    "key": "node.kubernetes.io/out-of-service",
    "value": "nodeshutdown",
    "effect": "NoExecute",
}
Outcomes = dict[str, str]


async def rows(made: Plane, turn: int) -> Outcomes:
    """Try every row of the table; return what each write was refused for, "" where it passed."""
    client, spare, pod = made.client, f"spare-{turn}", f"plain-{turn}"
    condition = [{"type": "Ready", "status": "True", "reason": f"turn-{turn}"}]
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [GT]},
    }
    deployment = {
        "metadata": {"name": f"d-{turn}", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "replicas": 0, "template": template},
    }
    status = {"status": {"message": f"turn {turn}"}}

    acts: dict[str, Callable[[], Awaitable[Any]]] = {
        "an extended pod": lambda: made.pod(f"extended-{turn}", GT),
        "an extended Deployment": lambda: client.create(DEPLOYMENTS, deployment, "default"),
        "a new value on a node": lambda: client.patch(NODES, "n", {"spec": {"taints": [taint(960 + turn)]}}),
        "a new node with a taint": lambda: made.node(f"new-{turn}", sla(str(1_000 + turn))),
        "a plain pod": lambda: made.pod(pod, EXISTS),
        "a label of a lowered pod": lambda: client.patch(
            PODS, "p", {"metadata": {"labels": {"turn": str(turn)}}}, "default"
        ),
        "a pod's status": lambda: client.patch(PODS, "p", status, "default", subresource="status"),
        "the end of a pod": lambda: client.delete(PODS, pod, "default", grace_period_seconds=0),
        "a heartbeat": lambda: client.patch(
            NODES, "n", {"status": {"conditions": condition}}, subresource="status"
        ),
        "a cordon": lambda: client.patch(NODES, spare, {"spec": {"unschedulable": True}}),
        "the end of a taint": lambda: client.patch(NODES, spare, {"spec": {"taints": None}}),
        "a taint of Kubernetes' own": lambda: client.patch(
            NODES, spare, {"spec": {"taints": [OUT_OF_SERVICE]}}
        ),
    }
    acts[UNUSED] = lambda: client.patch(
        NODES, spare, {"spec": {"taints": [{**taint(turn), "key": "repair"}]}}
    )
    assert set(acts) == {*REFUSED, *PASSES, UNUSED}
    found: Outcomes = {}
    for name, act in acts.items():
        try:
            await act()
            found[name] = ""
        except errors.ApiError as error:
            found[name] = str(error)
    # The last taint is to evict: once that has come, a wrong eviction would have come before it.
    await made.until(lambda: f"canary-{turn}" in made.gone, "the pod that has to leave leaves")
    found["evicted"] = "p" if "p" in made.gone else ""
    return found


def taint(value: int) -> dict[str, str]:
    return {"key": "sla", "value": str(value), "effect": "NoExecute"}


async def every_way(folder: Path) -> dict[str, Outcomes]:
    found: dict[str, Outcomes] = {}
    async with plane(folder) as made, installed(made):
        await made.node("n", sla("950"))
        for turn in range(4):
            await made.node(f"spare-{turn}", sla("950"))
            await made.pod(f"canary-{turn}", EXISTS, node=f"spare-{turn}")
        await made.pod("p", GT, node="n")
        await made.until(lambda: len(made.bound) == 5, "p and the canaries are bound")
        await asyncio.sleep(KEYS_SECONDS + 1)
        where = [f"--secure-port={made.hook_ports[0]}", "--no-leader-elect"]
        made.operators[-1].kill()
        found["gone"] = await rows(made, 0)

        nobody = folder / "nobody.kubeconfig"
        nobody.write_text(made.kubeconfigs[0].read_text().replace("admin-token", "nobody-token"))
        operator = start_operator(made, "without-rights", nobody, where)
        await made.until(lambda: "No credentials yet" in operator.log, "it says that it cannot start")
        found["without rights"] = await rows(made, 1)
        found["without rights"]["log"] = operator.log
        operator.kill()

        door = Door([made.server_ports[0]])
        cut_off = folder / "door.kubeconfig"
        cut_off.write_text(KUBECONFIG.format(server=f"https://127.0.0.1:{await door.open()}"))
        operator = start_operator(made, "cut-off", cut_off, where)
        await made.until(lambda: " Ready " in operator.log, "the operator is ready")
        door.cut()
        found["cut off"] = await rows(made, 2)
        operator.kill()

        await show_expired(made)
        operator = start_operator(made, "expired", made.kubeconfigs[0], where)
        await made.until(lambda: " Ready " in operator.log, "the operator is ready")
        found["expired"] = await rows(made, 3)
    return found


async def show_expired(made: Plane) -> None:
    """Give the operator a certificate that was good once, of an authority that the webhooks trust."""
    old = renewed(None, ["127.0.0.1"], datetime.now(UTC) - timedelta(days=200))
    (made.folder / "hook.crt").write_bytes(old.leaf)
    (made.folder / "hook.key").write_bytes(old.leaf_key)
    bundle = base64.b64encode(old.authority).decode()
    names = (webhooks.MUTATING_CONFIGURATION, webhooks.VALIDATING_CONFIGURATION)
    for kind, name in zip(HOOKS, names, strict=True):
        stored = await made.client.get(kind, name)
        for hook in stored["webhooks"]:
            hook["clientConfig"]["caBundle"] = bundle
        await made.client.update(kind, stored)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, Outcomes]:
    return asyncio.run(every_way(tmp_path_factory.mktemp("down")))


WAYS = {
    "gone": "failed calling webhook",
    "without rights": "failed calling webhook",
    "expired": "certificate has expired",
    "cut off": "pods could not be made ready",
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_evicted_and_everything_else_passes(outcomes, way):
    found = outcomes[way]
    assert {name: found[name] for name in (*PASSES, "evicted")} == dict.fromkeys((*PASSES, "evicted"), "")


@pytest.mark.parametrize("way", ["gone", "without rights", "expired"])
def test_a_taint_passes_whose_key_no_extended_pod_names(outcomes, way):
    assert outcomes[way][UNUSED] == ""


@pytest.mark.parametrize("way", ["gone", "without rights", "expired"])
def test_what_is_extended_is_refused_with_the_reason(outcomes, way):
    for name in REFUSED:
        assert WAYS[way] in outcomes[way][name], name


def test_an_operator_that_cannot_reach_the_server_lowers_and_holds_what_it_cannot_finish(outcomes):
    """The hook answers from its copy: a pod is stored and held; no node gets a taint that pods are not ready for.

    A node that is new comes with its taints: nobody is on it.
    """
    found = outcomes["cut off"]
    assert found["an extended pod"] == found["an extended Deployment"] == ""
    assert found["a new node with a taint"] == ""
    refusal = found["a new value on a node"]
    assert WAYS["cut off"] in refusal or "not every pod is ready" in refusal


def test_an_operator_without_rights_says_which(outcomes):
    assert 'cannot list resource "pods"' in outcomes["without rights"]["log"] or (
        "forbidden" in outcomes["without rights"]["log"]
    )
