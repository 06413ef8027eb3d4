"""Random small clusters to plan changes of, plans carried out in them, and every division into waves as an oracle.

Goals are watched here by what pods and budgets do, without a word of the planner's. No two nodes are alike, so that
places are not a matter of chance. `python -m tests.property.plan_clusters 500` carries out as many plans by hand; a
second number is the first seed.
"""

from __future__ import annotations

import copy
import itertools
import math
import random
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from weir.cli._what_if_changes import read_line
from weir.clock import VirtualClock
from weir.forecast.cluster import ForecastCluster
from weir.gates import ALL_FEATURES
from weir.objects.pod_usage import UsageModel
from weir.plan.document import Goals, Made, Plan
from weir.plan.search import NoPlan, Searcher, plan_of
from weir.plan.state import ClusterState
from weir.plan.task import Task, task_of
from weir.plan.verify import check_waves
from weir.simulation.cluster import Cluster
from weir.simulation.kubelet.run import Hosts
from weir.taints.notation import parse_taint
from weir.whatif.changes import Apply, Change, Drain, Nodes, Taint, TaintEdit
from weir.whatif.changes.change import ChangedCluster
from weir.whatif.completion import complete
from weir.whatif.run import WITHOUT, WhatIfOptions, life_in_copy

Document = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTLE_SECONDS = 10.0
#: A wave has reached its state after so long, or never.
WAVE_SECONDS = 400
KINDS = ("Node", "Pod", "ReplicaSet", "PodDisruptionBudget")


# ── clusters ─────────────────────────────────────────────────────────────────────────────────────


def question(seed: int, most_targets: int = 3) -> tuple[list[Document], Change, Goals]:
    """Return a cluster, a change of some of its nodes, and goals."""
    rng = random.Random(seed)
    targets = [f"old-{number}" for number in range(rng.randint(1, most_targets))]
    others = [f"new-{number}" for number in range(rng.randint(1, 3))]
    room = {
        name: 4000 + 1000 * place
        for place, name in enumerate(rng.sample(targets + others, len(targets + others)))
    }
    documents: list[Document] = [_node(name, cpu) for name, cpu in room.items()]
    for number in range(rng.randint(1, 4)):
        documents += _workload(rng, f"app-{number}", room)
    documents = [each for each in documents if each]
    if rng.random() < 0.5:
        change: Change = Drain(Nodes(tuple(targets)), force=rng.random() < 0.3)
    else:
        taint = parse_taint(f"sla={rng.choice([500, 700, 900])}:NoExecute")
        change = Taint(Nodes(tuple(targets)), (TaintEdit(taint),))
    goals = Goals(
        max_unavailable=rng.choice(["1", "2", "34%", "50%", "50%", "100%"]),
        keep_budgets=rng.random() < 0.8,
        spare_seconds=3600.0,
        within_seconds=1800.0,
        allow_lost=isinstance(change, Drain) and change.force,
    )
    return documents, change, goals


def _node(name: str, milli_cpu: int) -> Document:
    amounts = {"cpu": f"{milli_cpu}m", "memory": "32Gi", "pods": "30"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _workload(rng: random.Random, name: str, room: dict[str, int]) -> Iterator[Document]:
    """Yield a ReplicaSet, its pods where there is room, and perhaps a budget; or pods of nobody."""
    cpu = rng.choice([200, 500, 1000, 1500])
    spec: Document = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": f"{cpu}m"}}}],
    }
    if rng.random() < 0.4:
        entry: Document = {"key": "sla", "operator": "Gt", "value": str(rng.choice([400, 600, 800]))}
        if rng.random() < 0.3:
            entry |= {"effect": "NoExecute", "tolerationSeconds": rng.choice([5, 30])}
        spec["tolerations"] = [entry]
    alone = rng.random() < 0.06
    pods = []
    for number in range(rng.randint(1, 5)):
        fitting = [node for node, left in room.items() if left >= cpu]
        if not fitting:
            break
        node = rng.choice(fitting)
        if rng.random() < 0.4:  # a node without one of its pods yet, if there is one
            used = {each["spec"]["nodeName"] for each in pods}
            node = rng.choice([each for each in fitting if each not in used] or fitting)
        room[node] -= cpu
        pods.append(_pod(f"{name}-{number}", name, node, copy.deepcopy(spec), owned=not alone))
    if not pods:
        return
    if not alone:
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        wanted = {"replicas": len(pods), "selector": {"matchLabels": {"app": name}}, "template": template}
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        yield {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": wanted}
    yield from pods
    if rng.random() < 0.4:
        limit = rng.choice(
            [{"maxUnavailable": 1}, {"maxUnavailable": 0}, {"minAvailable": max(len(pods) - 1, 0)}]
        )
        metadata = {"name": name, "namespace": "default", "uid": f"pdb-{name}"}
        wanted = {"selector": {"matchLabels": {"app": name}}, **limit}
        yield {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": wanted}


def _pod(name: str, app: str, node: str, spec: Document, *, owned: bool) -> Document:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": app,
        "uid": f"uid-{app}",
        "controller": True,
    }
    metadata: Document = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": app}}
    if owned:
        metadata["ownerReferences"] = [owner]
    metadata["creationTimestamp"] = "2026-03-01T10:00:00Z"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "nodeName": node},
        "status": {"phase": "Running", "startTime": "2026-03-01T10:00:00Z"},
    }


# ── plans ────────────────────────────────────────────────────────────────────────────────────────


def state_of(documents: Iterable[Document], now: datetime, goals: Goals, seed: int) -> ClusterState:
    options = WhatIfOptions(ALL_FEATURES, now, goals.within_seconds or 0.0, seed)
    return ClusterState.of(copy.deepcopy(list(documents)), (), options)


def planned(
    documents: Iterable[Document], change: Change, goals: Goals, seed: int = 0, now: datetime = NOW
) -> Plan | NoPlan:
    """Return what the planner finds."""
    state = state_of(documents, now, goals, seed)
    search = Searcher(task_of([change], state.objects), state, goals, lambda *_: None)
    found = search.search()
    if isinstance(found, NoPlan):
        return found
    return plan_of(found, search, goals, Made(at="2026-03-01T12:00:00Z", command="weir plan"))


# ── carrying out ─────────────────────────────────────────────────────────────────────────────────


class Watch:
    """What happens to the goals of a plan in a cluster, seen from its pods and budgets."""

    def __init__(self, cluster: ChangedCluster, goals: Goals) -> None:
        self._cluster, self._goals = cluster, goals
        self.broken: list[str] = []
        self.evicted = 0
        self._began = cluster.now
        self._first = {each["metadata"]["uid"] for each in cluster.list("Pod")}
        self._before_wave = self._first
        self._replicas = {
            each["metadata"]["uid"]: each["spec"]["replicas"] for each in cluster.list("ReplicaSet")
        }
        self._running: dict[str, set[str]] = {}
        self._gone: set[str] = set()
        self._bound: set[str] = set()
        self._made: dict[str, datetime] = {}
        for each in cluster.list("Pod"):
            self._pod(cluster.now, None, each)
        cluster.observe("Pod", self._pod)
        cluster.observe("PodDisruptionBudget", self._budget)

    def begin_wave(self) -> None:
        """Take the pods of now as those that a wave may evict: one that it evicts twice is in a loop."""
        self._before_wave = {each["metadata"]["uid"] for each in self._cluster.list("Pod")}

    def _pod(self, now: datetime, old: Document | None, new: Document | None) -> None:
        pod = new or old
        assert pod is not None
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        owner = next((each["uid"] for each in pod["metadata"].get("ownerReferences") or ()), "")
        running = self._running.setdefault(owner, set())
        if uid not in self._first and new is not None:
            self._made.setdefault(uid, now)
            if pod["spec"].get("nodeName") and uid not in self._bound:
                self._bound.add(uid)
                waited = (now - self._made[uid]).total_seconds()
                if waited > self._goals.max_pending_seconds + 1.0:
                    self.broken.append(f"{name} was pending for {waited:g} s")
        if new is None or new["metadata"].get("deletionTimestamp"):
            if uid not in self._gone:
                self._gone.add(uid)
                self.evicted += 1
                if uid not in self._before_wave:
                    self.broken.append(f"{name} was made in this wave and evicted again")
                elif not owner and not self._goals.allow_lost:
                    self.broken.append(f"{name} is lost")
            running.discard(uid)
        elif new["status"].get("phase") == "Running":
            running.add(uid)
        wanted = self._replicas.get(owner, 0)
        text = self._goals.max_unavailable
        most = math.ceil(wanted * int(text[:-1]) / 100) if text.endswith("%") else int(text)
        if owner and wanted - len(running) > most and now > self._began:
            self.broken.append(f"{owner}: {wanted - len(running)} of {wanted} are unavailable")

    def _budget(self, now: datetime, old: Document | None, new: Document | None) -> None:
        status = (new or {}).get("status") or {}
        if self._goals.keep_budgets and status.get("currentHealthy", 0) < status.get("desiredHealthy", 0):
            self.broken.append(f"budget {new['metadata']['name'] if new else ''} is violated")

    def end(self) -> None:
        """Note the pods that have no node at the end."""
        for each in self._cluster.list("Pod"):
            if not each["spec"].get("nodeName"):
                self.broken.append(f"{each['metadata']['name']} is pending")


def living(documents: Iterable[Document], seed: int) -> Cluster:
    """Return a whole control plane that holds the cluster."""
    copied = complete(copy.deepcopy(list(documents)), NOW)
    return Cluster(
        clock=VirtualClock(NOW - timedelta(seconds=SETTLE_SECONDS)),
        seed=seed,
        gates=ALL_FEATURES,
        controllers=WITHOUT,
        holding=copied.documents,
        hosts=Hosts(selector="", report=False, life=life_in_copy),
        seats={},
        event_reasons=frozenset(),
        usage=UsageModel(share=None),
    )


def carried_out(seed: int) -> tuple[list[str], int]:
    """Return which goals a plan breaks that is carried out in a living cluster, and how many waves were made.

    Before each wave the cluster is compared with the plan, as `weir plan run` does; where it differs no further wave is
    made.
    """
    documents, change, goals = question(seed)
    plan = planned(documents, change, goals, seed)
    if isinstance(plan, NoPlan):
        return [], 0
    waves = 0
    with living(documents, seed + 1) as cluster:
        cluster.advance(SETTLE_SECONDS)
        watch = Watch(cluster, goals)
        left = list(plan.waves)
        while left:
            wave = left.pop(0)
            watch.begin_wave()
            for line in wave.changes:
                read_line(line, "plan").make(cluster)
            for _ in range(WAVE_SECONDS):
                cluster.advance(1.0)
                state = [{"kind": kind, **each} for kind in KINDS for each in cluster.list(kind)]
                checks = [each for each in check_waves([wave], state) if not each.foreseen.startswith("on ")]
                if all(each.held for each in checks):
                    break
            else:
                watch.broken.append(f"wave {wave.number} did not reach its state: {checks}")
                break
            cluster.advance(5.0)
            waves += 1
            if left and not all(each.held for each in check_waves([wave], state)):
                break  # other places than foreseen: `weir plan run` stops here
        watch.end()
        return watch.broken, waves


# ── the oracle ───────────────────────────────────────────────────────────────────────────────────


def divisions(items: tuple[str, ...]) -> Iterator[list[tuple[str, ...]]]:
    """Yield every division of *items* into waves, in every order."""
    if not items:
        yield []
    for count in range(1, len(items) + 1):
        for first in itertools.combinations(items, count):
            for rest in divisions(tuple(each for each in items if each not in first)):
                yield [first, *rest]


def fewest_moves(seed: int) -> int | None:
    """Return how many pods the best of all divisions into waves moves, None if each breaks a goal."""
    documents, change, goals = question(seed)
    task = task_of([change], state_of(documents, NOW, goals, seed).objects)
    found = [
        moved
        for groups in divisions(task.items)
        for prepared in ((True, False) if task.prepare else (False,))
        if (moved := _moved(documents, task, groups, prepared, goals, seed)) is not None
    ]
    return min(found, default=None)


def _moved(
    documents: list[Document],
    task: Task,
    groups: list[tuple[str, ...]],
    prepared: bool,
    goals: Goals,
    seed: int,
) -> int | None:
    """Return how many pods a division moves in one forecast from first to last, None if it breaks a goal."""
    copied = complete(copy.deepcopy(documents), NOW)
    cluster = ForecastCluster(
        start=NOW - timedelta(seconds=SETTLE_SECONDS),
        gates=ALL_FEATURES,
        holding=copied.documents,
        controllers=WITHOUT,
        life_of=life_in_copy,
        seats={},
        event_reasons=frozenset(),
        seed=seed,
    )
    cluster.advance(SETTLE_SECONDS)
    watch = Watch(cluster, goals)
    for number, items in enumerate(groups):
        watch.begin_wave()
        changes = task.wave(items, first=number == 0, last=number + 1 == len(groups), prepared=prepared)
        for change in changes:
            assert not isinstance(change, Apply)
            if change.make(cluster):  # a drain that stops at pods without a controller
                return None
        cluster.advance(60.0)
        stay = [each for each in cluster.list("Pod") if each["spec"].get("nodeName") in items]
        if isinstance(changes[-1], Drain) and stay:
            return None
        if watch.broken:
            return None
    watch.end()
    return None if watch.broken else watch.evicted


if __name__ == "__main__":
    count, start = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    outcomes = {seed: carried_out(seed) for seed in range(start, start + count)}
    for seed, (broken, _) in outcomes.items():
        if broken:
            print(seed, broken)
    made = sum(waves > 0 for _, waves in outcomes.values())
    print(
        f"{made} of {count} clusters had a plan, {sum(waves for _, waves in outcomes.values())} waves were made"
    )
    sys.exit(any(broken for broken, _ in outcomes.values()))
