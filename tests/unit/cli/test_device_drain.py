"""`weir device drain` and `--ttl`: what they ask, write, wait for and say, under virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import pytest
import yaml

from weir.cli._device_drain import Drain, State
from weir.cli._device_list import fetch
from weir.cli.main import run
from weir.device_rules.rule import make_rule
from weir.devices.inventory import Inventory
from weir.exit_codes import FINDINGS, FINE, INTERRUPTED, USAGE
from weir.gates import ALL_FEATURES
from weir.objects.kinds import by_kind
from weir.simulation.cluster import Cluster
from weir.simulation.kubelet.node_classes import CLASSES

DRIVER = "gpu.example.com"
RULES = by_kind("resource.k8s.io/v1", "DeviceTaintRule")
CLAIMS = by_kind("resource.k8s.io/v1", "ResourceClaim")
UNTAINT = "weir device untaint pool=node-0 weir.dev/drain"


@pytest.fixture
def cluster() -> Any:
    with Cluster(controllers=["namespace"]) as cluster:
        cluster.add_nodes(1, node_class=CLASSES["gpu"].with_devices(4))
        for number in range(3):
            use(cluster, number, tolerations=[{"operator": "Exists"}] if number == 2 else [])
        yield cluster


def use(cluster: Cluster, number: int, **result: Any) -> None:
    """Let a pod use a device, as scheduler and claim controller would have it."""
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"c{number}", "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }
    cluster.create(claim)
    pod = cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number}", "namespace": "default"},
            "spec": {
                "nodeName": "node-0",
                "containers": [{"name": "c", "image": "i"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": f"c{number}"}],
            },
        }
    )
    found = {"request": "gpu", "driver": DRIVER, "pool": "node-0", "device": f"gpu-{number}", **result}
    status = {
        "allocation": {"devices": {"results": [found]}},
        "reservedFor": [{"resource": "pods", "name": f"p{number}", "uid": pod["metadata"]["uid"]}],
    }
    patching = cluster.client.patch(CLAIMS, f"c{number}", {"status": status}, "default", subresource="status")
    cluster._do(patching)
    cluster.advance(10)


class Draining:
    """A drain of node-0 in the background, and what it was asked and showed."""

    def __init__(
        self, cluster: Cluster, answer: Any = True, limit: float | None = None, **selector: str
    ) -> None:
        self.cluster = cluster
        self.asked: list[str] = []
        self.shown: list[str] = []
        self.work = Drain(
            cluster.clock, UNTAINT, self._ask, lambda text, done, total: self.shown.append(text), limit
        )
        self.answer = answer
        wanted = selector or {"pool": "node-0"}
        rule = make_rule(wanted, {"key": "weir.dev/drain", "effect": "None"}, "drain", None, "")

        async def start() -> int:
            held = Inventory.of(await fetch(cluster.client), ALL_FEATURES)
            return await self.work.run(rule, held, cluster.client)

        self.task = cluster._loop.create_task(start())
        cluster.advance(1)

    def _ask(self, text: str) -> bool:
        self.asked.append(text)
        if isinstance(self.answer, Exception):
            raise self.answer
        return bool(self.answer)

    def status(self, status: str, reason: str, message: str) -> None:
        """Say something about the rule, as the eviction controller would."""
        rule = self.cluster.get("DeviceTaintRule", "drain")
        assert rule is not None
        condition = {
            "type": "EvictionInProgress",
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": rule["metadata"]["generation"],
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        patch = self.cluster.client.patch(
            RULES, "drain", {"status": {"conditions": [condition]}}, subresource="status"
        )
        self.cluster._do(patch)
        self.cluster.advance(1)

    def looked_at(self) -> Draining:
        self.status(
            "False", "NoEffect", "4 published devices selected. This information will not be updated again."
        )
        return self

    @property
    def effect(self) -> str | None:
        rule = self.cluster.get("DeviceTaintRule", "drain")
        return None if rule is None else rule["spec"]["taint"]["effect"]


def test_the_rule_has_no_effect_until_somebody_says_yes(cluster: Cluster, capsys: Any) -> None:
    draining = Draining(cluster)
    before = draining.effect
    draining.looked_at()
    said = capsys.readouterr()
    assert (before, draining.asked, draining.effect) == ("None", ["evict 2 pods"], "NoExecute")
    assert "the cluster says: 4 published devices selected.\n" in said.err
    assert "default/p0 at once" in said.err and "default/p2 tolerates it and stays" in said.err
    assert [d["spec"]["taint"]["effect"] for d in yaml.safe_load_all(said.out)] == ["None"]
    assert "devicetaintrule.resource.k8s.io/drain now has the effect NoExecute" in said.err


@pytest.mark.parametrize("answer, code", [(False, FINDINGS), (click.Abort(), INTERRUPTED)])
def test_after_a_no_nothing_is_left_behind(cluster: Cluster, answer: Any, code: int, capsys: Any) -> None:
    draining = Draining(cluster, answer).looked_at()
    assert (draining.task.result(), draining.effect) == (code, None)
    assert capsys.readouterr().err.endswith("no pod was evicted; the rule is removed again\n")


def test_a_selector_without_a_device_asks_and_writes_nothing(cluster: Cluster, capsys: Any) -> None:
    draining = Draining(cluster, pool="node-9")
    assert (draining.task.result(), draining.asked, draining.effect) == (FINDINGS, [], None)
    said = capsys.readouterr().err
    assert "0 published devices and 0 allocated devices selected" in said
    assert said.endswith("nothing was written\n")


def test_devices_that_nobody_uses_are_not_asked_about_as_0_pods(cluster: Cluster) -> None:
    draining = Draining(cluster, pool="node-0", device="gpu-3").looked_at()
    assert (draining.asked, draining.effect) == (["keep pods off 1 unused device"], "NoExecute")


def test_a_cluster_in_which_nobody_looks_at_the_rule_is_told_of(cluster: Cluster, capsys: Any) -> None:
    Draining(cluster)
    cluster.advance(11)
    assert "no controller has looked at the rule within 10 seconds" in capsys.readouterr().err


def test_progress_is_what_the_rules_status_says(cluster: Cluster, capsys: Any) -> None:
    draining = Draining(cluster).looked_at()
    draining.status("True", "PodsPendingEviction", "2 pods need to be evicted in 1 namespace.")
    cluster.delete("Pod", "p0")
    draining.status(
        "True",
        "PodsPendingEviction",
        "1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller.",
    )
    cluster.delete("Pod", "p1")
    draining.status("False", "Completed", "2 pods evicted since starting the controller.")
    cluster.advance(5)
    assert [text for text in dict.fromkeys(draining.shown) if "evicted" in text] == [
        "0 of 2 pods evicted, 2 to go",
        "1 of 2 pods evicted, 1 to go",
        "2 of 2 pods evicted, 0 to go",
    ]
    assert draining.task.result() == FINE
    assert capsys.readouterr().err.endswith(f"drained; the taint stays: {UNTAINT}\n")


def test_pods_that_still_end_are_waited_for(cluster: Cluster) -> None:
    draining = Draining(cluster).looked_at()
    kubelet = {"metadata": {"annotations": {"weir.dev/failed": "true"}}}
    cluster.patch("Node", "node-0", kubelet)  # nobody is there to end it
    cluster.delete("Pod", "p0")
    draining.status("False", "Completed", "1 pod evicted since starting the controller.")
    cluster.advance(60)
    still = (draining.task.done(), draining.shown[-1])
    cluster.patch("Node", "node-0", {"metadata": {"annotations": {"weir.dev/failed": None}}})
    cluster.advance(60)
    assert (still, draining.task.result()) == ((False, "1 pod still ending"), FINE)


def test_an_early_nothing_to_do_is_not_believed_at_once(cluster: Cluster) -> None:
    draining = Draining(cluster).looked_at()
    draining.status("False", "NotStarted", "")
    early = draining.task.done()
    cluster.advance(20)
    assert (early, draining.task.done()) == (False, True)


def test_time_runs_out_with_what_is_left(cluster: Cluster, capsys: Any) -> None:
    draining = Draining(cluster, limit=30).looked_at()
    draining.status("True", "PodsPendingEviction", "2 pods need to be evicted in 1 namespace.")
    cluster.advance(40)
    assert draining.task.result() == FINDINGS
    assert (
        "2 pods of 2 not gone yet by the rule's last report (one every 10 s); the rule drain stays"
        in capsys.readouterr().err
    )


def test_where_no_controller_evicts_it_does_not_wait_for_ever(cluster: Cluster, capsys: Any) -> None:
    draining = Draining(cluster)
    cluster.advance(80)
    assert (draining.task.result(), draining.effect) == (FINDINGS, "NoExecute")
    assert "no controller says anything about the rule: 2 pods of 2 not gone yet" in capsys.readouterr().err


def test_a_rule_that_somebody_removes_ends_it(cluster: Cluster, capsys: Any) -> None:
    draining = Draining(cluster).looked_at()
    cluster.delete("DeviceTaintRule", "drain")
    cluster.advance(2)
    assert draining.task.result() == FINDINGS
    assert "was removed or changed meanwhile" in capsys.readouterr().err


def test_draining_what_is_being_drained_asks_nothing(cluster: Cluster) -> None:
    Draining(cluster).looked_at().task.cancel()
    again = Draining(cluster)
    assert (again.asked, again.effect) == ([], "NoExecute")
    again.task.cancel()


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            State.EVICTING,
            "2 pods of 3 not gone yet by the rule's last report (one every 10 s); the rule drain stays and the "
            f"cluster goes on evicting. Stop it: {UNTAINT}",
        ),
        (State.LOOKING, f"the rule drain stays, without effect. Remove it: {UNTAINT}"),
        (State.WRITING, f"the rule drain may have been written, without effect. Remove it: {UNTAINT}"),
        (State.ARMING, f"the rule drain stays and may evict already. Stop it: {UNTAINT}"),
        (State.NOTHING, "nothing was written"),
    ],
)
def test_an_interruption_says_what_is_left_and_how_to_undo_it(
    cluster: Cluster, state: State, said: str, capsys: Any
) -> None:
    work = Drain(cluster.clock, UNTAINT, lambda _: True, lambda *_: None, None, state, 2, 3)
    work.name = "drain"
    work.interrupted()
    assert capsys.readouterr().err == f"\ninterrupted: {said}\n"


class Lent:
    """The cluster's client, for a command that runs on a loop of its own and closes it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster.client, name)

    async def close(self) -> None:
        return None


@pytest.fixture
def command(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr("weir.client.http.connect", lambda *_, **__: Lent(cluster))
    monkeypatch.setattr("asyncio.run", cluster._do)
    return cluster


def test_without_a_terminal_a_yes_is_needed(command: Cluster, capsys: Any) -> None:
    assert run(["device", "drain", "pool=node-0"]) == USAGE
    assert "no terminal to ask on: add --yes" in capsys.readouterr().err
    assert command.list("DeviceTaintRule") == []


def test_a_dry_run_of_a_drain_writes_nothing(command: Cluster, capsys: Any) -> None:
    assert run(["device", "drain", "pool=node-0", "--dry-run"]) == FINE
    assert "2 pods would have to leave" in capsys.readouterr().err
    assert command.list("DeviceTaintRule") == []


def test_draining_everything_must_be_typed_out(command: Cluster, capsys: Any) -> None:
    assert run(["device", "drain", "--yes"]) == USAGE
    assert "--all-devices" in capsys.readouterr().err


def test_ctrl_c_ends_a_drain_with_words_not_with_a_traceback(
    command: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def interrupted(work: Any) -> None:
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("asyncio.run", interrupted)
    assert run(["device", "drain", "pool=node-0", "--yes"]) == INTERRUPTED
    assert "interrupted: nothing was written" in capsys.readouterr().err


# ── a time to live ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the command would have slept; time does not pass."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("weir.cli._device_rules._ANSWER_SECONDS", 0.0)
    monkeypatch.setattr("weir.cli._device_rules.asyncio.sleep", sleep)
    return slept


def test_where_no_controller_removes_it_the_command_stays_and_does(
    command: Cluster, no_sleep: list[float], capsys: Any
) -> None:
    real = asyncio.sleep
    assert run(["device", "taint", "pool=node-0", "hot:NoSchedule", "--ttl", "2h"]) == FINE
    assert real is not None and command.list("DeviceTaintRule") == []
    assert max(no_sleep) == pytest.approx(7200, abs=5)
    assert "waiting here to remove it at" in capsys.readouterr().err


def test_no_wait_says_that_nobody_removes_it(command: Cluster, no_sleep: list[float], capsys: Any) -> None:
    words = ["device", "taint", "pool=node-0", "hot:NoSchedule", "--name", "hot", "--ttl", "2h", "--no-wait"]
    assert run(words) == FINE
    assert len(command.list("DeviceTaintRule")) == 1
    said = capsys.readouterr().err
    assert "it stays until you remove it; undo: kubectl delete devicetaintrule hot" in said


def test_a_rule_that_was_changed_meanwhile_is_not_removed(
    command: Cluster, no_sleep: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep(seconds: float) -> None:
        if seconds > 10:
            newer = {"metadata": {"annotations": {"weir.dev/expires-at": "2030-01-01T00:00:00Z"}}}
            await command.client.patch(RULES, "hot", newer)

    monkeypatch.setattr("weir.cli._device_rules.asyncio.sleep", sleep)
    run(["device", "taint", "pool=node-0", "hot:NoSchedule", "--name", "hot", "--ttl", "2h"])
    assert len(command.list("DeviceTaintRule")) == 1


@pytest.mark.parametrize("ttl", ["2", "-5m", "0s", "soon"])
def test_a_time_to_live_that_is_none_is_one_line(command: Cluster, ttl: str, capsys: Any) -> None:
    assert run(["device", "taint", "pool=node-0", "hot:None", f"--ttl={ttl}"]) == USAGE
    assert "write a time like 90s, 10m or 2h" in capsys.readouterr().err
