"""Upgrades, downgrades and skew, component by component: every row of core.md 8.1 to 8.5, lived through.

`TABLE` names the rows as the specification has them; each check below lives through one of them for each feature it
concerns. What is stored stays, who runs stays unless a row says otherwise, who pends pends.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.integration.skew import COMPONENTS, FEATURES, ROWS, Walk, row
from tests.promql import scrape
from weir.objects.kinds import by_kind
from weir.simulation.cluster import ComponentGates
from weir.taints.expression import shared

ON = ComponentGates()
PODS = by_kind("v1", "Pod")
EXPRESSION_ONLY = ("cel",)

#: Section, row: as core.md 8 lists them.
TABLE = {
    ("8.1", "enable order"),
    ("8.1", "disable order"),
    ("8.1", "before disabling: rewrite templates, delete pending pods"),
    ("8.2", "apiserver off: create rejected, update of pods that use it allowed"),
    ("8.2", "apiserver off: node affinity and volumes too"),
    ("8.2", "scheduler off: pending with untolerated taint, no preemption"),
    ("8.2", "scheduler off: PreferNoSchedule counts against the score"),
    ("8.2", "scheduler off: required affinity never matches"),
    ("8.2", "scheduler off: preferred affinity contributes nothing"),
    ("8.2", "scheduler off: a volume's affinity matches no node"),
    ("8.2", "controllers off: running pods evicted at once"),
    ("8.2", "controllers off: DaemonSet pods not created"),
    ("8.2", "controllers off: DaemonSet pods not continued"),
    ("8.2", "kubelet off: new pods rejected, running ones unaffected"),
    ("8.3", "apiserver on, scheduler older: pending"),
    ("8.3", "apiserver on, controller-manager old: evicted, DaemonSet pods missing"),
    ("8.3", "apiserver on, kubelet off: bound, then rejected"),
    ("8.3", "apiserver off, others on: no new use, existing pods evaluated"),
    ("8.3", "everything off, then on again: no migration"),
    ("8.3", "template uses it, apiserver off: endless 422, counted"),
    ("8.3", "scheduler and kubelet both older: nothing new runs, nothing is lost"),
    ("8.4", "scheduler, gate off: no match"),
    ("8.4", "scheduler, field unknown: every empty-valued taint tolerated"),
    ("8.4", "scheduler, field unknown: taints of node conditions tolerated"),
    ("8.4", "controllers, gate off: no match"),
    ("8.4", "controllers, field unknown: stays under empty-valued taints, leaves under others"),
    ("8.4", "controllers, field unknown: daemon pods lose the field and are refused"),
    ("8.4", "kubelet, gate off: no match"),
    ("8.4", "kubelet, field unknown: admitted under empty-valued taints, rejected under others"),
    ("8.5", "apiserver matches nothing"),
    ("8.5", "scheduler: filter and hints"),
    ("8.5", "scheduler: spread policies"),
    ("8.5", "scheduler: preemption dry runs"),
    ("8.5", "controller-manager: eviction timers and condition taints"),
    ("8.5", "kubelet: NoExecute admission"),
    ("8.5", "kubelet: memory-pressure admission"),
}


def test_every_row_of_the_table_is_lived_through_and_no_other():
    assert {(each.section, each.text) for each in ROWS} == TABLE


# ── 8.1 required order ───────────────────────────────────────────────────────────────────────────

ENABLE = {
    "numeric": ("apiserver", "controllers", "kubelet", "scheduler"),
    "semver": ("apiserver", "controllers", "kubelet", "scheduler"),
    "cel": ("kubelet", "controllers", "scheduler", "apiserver"),
}
DISABLE = {
    "numeric": ("scheduler", "apiserver", "kubelet", "controllers"),
    "semver": ("scheduler", "apiserver", "kubelet", "controllers"),
    "cel": ("apiserver", "scheduler", "controllers", "kubelet"),
}


@pytest.mark.proves(
    "5471-98", "5721-104", "5721-111", "5500-69", "5500-73", "5500-79", "5500-80", "5500-91", "1.35-18"
)
@row("8.1", "enable order")
def enable_order(walk):
    """Component by component: no pod is evicted or rejected on the way, and in the end it runs."""
    feature = walk.feature
    walk.cluster.set_gates(feature.off())
    walk.node()
    order, accepted = ENABLE[feature.name], []
    for number in range(1, len(order) + 1):
        walk.switch(feature.on(*order[:number]))
        name = f"p{number}"
        if not walk.pod(name):
            accepted.append(name)
        assert [walk.phase(each) for each in accepted] in (
            ["Pending"] * len(accepted),
            ["Running"] * len(accepted),
        )
    assert (accepted != [], {walk.phase(each) for each in accepted}, walk.evictions()) == (
        True,
        {"Running"},
        [],
    )


@pytest.mark.proves("5471-49", "5721-33", "5721-97", "5721-114", "5500-79", "5500-82", "5500-95")
@row("8.1", "disable order")
def disable_order(walk):
    """Component by component: who runs stays until the controller-manager no longer knows why."""
    walk.node()
    walk.pod("old")
    order = DISABLE[walk.feature.name]
    fates = {}
    for number, component in enumerate(order, 1):
        walk.switch(walk.feature.off(*order[:number]))
        fates[component] = walk.phase("old")
    expected = dict.fromkeys(order, "Running")
    for component in order[order.index("controllers") :]:
        expected[component] = None
    assert fates == expected


@pytest.mark.proves("5721-114", "5500-95")
@row("8.1", "before disabling: rewrite templates, delete pending pods")
def prepared_disabling(walk):
    """Who was rewritten to plain tolerations first loses nothing when everything is switched off."""
    walk.node()
    walk.workload("Deployment", "web", replicas=2)
    walk.pod("waiting", nodeSelector={"kubernetes.io/hostname": "elsewhere"})
    plain = {"key": "sla", "operator": "Exists", "effect": "NoExecute"}
    walk.cluster.patch("Deployment", "web", {"spec": {"template": {"spec": {"tolerations": [plain]}}}})
    walk.cluster.delete("Pod", "waiting")
    walk.pass_seconds(60)
    before = walk.evictions()
    for number in range(1, 5):
        walk.switch(walk.feature.off(*DISABLE[walk.feature.name][:number]))
    assert (walk.phases("web"), walk.evictions()) == (["Running", "Running"], before)


# ── 8.2 a gate off, component by component ───────────────────────────────────────────────────────


@pytest.mark.proves("5471-40", "5471-112", "5721-28", "5721-86", "5721-122", "5500-84", "5500-85", "5500-102")
@row("8.2", "apiserver off: create rejected, update of pods that use it allowed")
def apiserver_off(walk):
    walk.node()
    walk.pod("old")
    walk.switch(walk.feature.off("apiserver"))
    refusal = walk.pod("new")
    walk.cluster.patch("Pod", "old", {"metadata": {"labels": {"still": "changeable"}}})
    stored = walk.cluster.get("Pod", "old")["spec"]["tolerations"][0]
    wanted = "operator: Unsupported value" if walk.feature.operator else "expression"
    assert (wanted in refusal, stored, walk.phase("old"), walk.phase("new")) == (
        True,
        walk.feature.toleration(),
        "Running",
        None,
    )


def affinity(walk, how="required"):
    requirement = {"key": "version", "operator": "SemverGt", "values": ["1.29.0"]}
    term = {"matchExpressions": [requirement]}
    if how == "preferred":
        preferred = [{"weight": 100, "preference": term}]
        return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def volume(walk, name):
    terms = affinity(walk)["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "manual",
        "csi": {"driver": "csi.example", "volumeHandle": name},
        "nodeAffinity": {"required": terms},
    }
    return walk.create("PersistentVolume", name, {"spec": spec}, seconds=5)


@pytest.mark.proves("5721-86")
@row("8.2", "apiserver off: node affinity and volumes too", "semver")
def apiserver_off_affinity(walk):
    walk.node(taints=[], labels={"version": "1.30.2"})
    old = walk.pod("old", affinity=affinity(walk)), volume(walk, "old")
    walk.switch(walk.feature.off("apiserver"))
    new = walk.pod("new", tolerations=[], affinity=affinity(walk)), volume(walk, "new")
    walk.cluster.patch("PersistentVolume", "old", {"metadata": {"labels": {"still": "changeable"}}})
    walk.cluster.patch("Pod", "old", {"metadata": {"labels": {"still": "changeable"}}})
    refused = ["operator" in text and "is invalid" in text for text in new]
    assert (old, refused, walk.phase("old")) == (("", ""), [True, True], "Running")


@pytest.mark.proves("5721-76", "5721-98", "5721-107", "5500-63", "5500-72", "5500-83")
@row("8.2", "scheduler off: pending with untolerated taint, no preemption")
def scheduler_off(walk):
    walk.node()
    walk.pod("old")
    walk.switch(walk.feature.off("scheduler"))
    walk.pod("new")
    condition = walk.cluster.get("Pod", "new")["status"]["conditions"][0]
    assert (walk.phase("old"), walk.phase("new"), condition["message"]) == (
        "Running",
        "Pending",
        f"0/1 nodes are available: 1 node(s) had untolerated taint {{sla: {walk.feature.value}}}. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )


@pytest.mark.proves("5500-63")
@row("8.2", "scheduler off: PreferNoSchedule counts against the score")
def scheduler_off_score(walk):
    walk.node("disliked", effect="PreferNoSchedule", labels={"good": "yes"})
    walk.node("plain", taints=[])
    liking = {"key": "good", "operator": "Exists"}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [liking]}}]
    wish = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    walk.pod("on", effect="PreferNoSchedule", affinity=wish)
    walk.switch(walk.feature.off("scheduler"))
    walk.pod("off", effect="PreferNoSchedule", affinity=wish)
    assert (walk.where("on"), walk.where("off")) == ("disliked", "plain")


@pytest.mark.proves("5721-79", "5721-99")
@row("8.2", "scheduler off: required affinity never matches", "semver")
def scheduler_off_affinity(walk):
    walk.node(taints=[], labels={"version": "1.30.2"})
    walk.switch(walk.feature.off("scheduler"))
    walk.pod("p", affinity=affinity(walk))
    waiting = walk.phase("p")
    walk.switch(ON)
    assert (waiting, walk.phase("p")) == ("Pending", "Running")


@pytest.mark.proves("5721-82", "5721-100")
@row("8.2", "scheduler off: preferred affinity contributes nothing", "semver")
def scheduler_off_preferred(walk):
    walk.node("a", taints=[])
    walk.node("b", taints=[], labels={"version": "1.30.2"})
    walk.pod("on", affinity=affinity(walk, "preferred"))
    walk.cluster.delete("Pod", "on")
    placed = walk.where("on")
    walk.pass_seconds(30)
    walk.switch(walk.feature.off("scheduler"))
    for name in ("x", "y"):
        walk.pod(name, affinity=affinity(walk, "preferred"))
    spread = {walk.where("x"), walk.where("y")}
    assert (placed, spread) == ("b", {"a", "b"})


@row("8.2", "scheduler off: a volume's affinity matches no node", "semver")
def scheduler_off_volume(walk):
    walk.node(taints=[], labels={"version": "1.30.2"})
    volume(walk, "v")
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "manual",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    walk.create("PersistentVolumeClaim", "c", {"spec": claim})
    walk.switch(walk.feature.off("scheduler"))
    walk.pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    waiting = walk.phase("p")
    walk.switch(ON)
    assert (waiting, walk.phase("p")) == ("Pending", "Running")


@pytest.mark.proves("5471-103", "5721-106", "5500-75", "5500-82", "5500-92")
@row("8.2", "controllers off: running pods evicted at once")
def controllers_off(walk):
    walk.node()
    walk.node("untouched", effect="NoSchedule")
    walk.pod("leaves", nodeSelector={"kubernetes.io/hostname": "n"})
    walk.pod("stays", effect="NoSchedule", nodeSelector={"kubernetes.io/hostname": "untouched"})
    walk.switch(walk.feature.off("controllers"), seconds=3)
    assert (walk.phase("leaves"), walk.phase("stays"), walk.evictions()) == (
        None,
        "Running",
        ["Marking for deletion Pod default/leaves"],
    )


@pytest.mark.proves("5500-14", "5500-53", "5500-76", "5500-87")
@row("8.2", "controllers off: DaemonSet pods not created")
def controllers_off_daemons(walk):
    walk.node(effect="NoSchedule")
    walk.switch(walk.feature.off("controllers"))
    walk.workload("DaemonSet", "agent", effect="NoSchedule")
    missing = walk.phases("agent")
    walk.switch(ON)
    assert (missing, walk.phases("agent")) == ([], ["Running"])


@pytest.mark.proves("5500-53")
@row("8.2", "controllers off: DaemonSet pods not continued")
def controllers_off_running_daemons(walk):
    """An untolerated NoExecute taint ends them; NoSchedule alone lets them go on."""
    walk.node(effect="NoExecute")
    walk.node("other", effect="NoSchedule")
    labels = {"app": "agent"}
    both = [walk.feature.toleration(effect) for effect in ("NoExecute", "NoSchedule")]
    pod = {"containers": [{"name": "c", "image": "i"}], "tolerations": both}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    walk.create("DaemonSet", "agent", {"spec": spec}, "apps/v1")
    before = walk.phases("agent")
    walk.switch(walk.feature.off("controllers"))
    left = [pod["spec"]["nodeName"] for pod in walk.cluster.list("Pod", selector="app=agent")]
    assert (before, left) == (["Running", "Running"], ["other"])


@pytest.mark.proves("5500-77", "5500-88")
@row("8.2", "kubelet off: new pods rejected, running ones unaffected")
def kubelet_off(walk):
    walk.node()
    walk.pod("old")
    walk.switch(walk.feature.off("kubelet"))
    walk.pod("new")
    status = walk.cluster.get("Pod", "new")["status"]
    assert (walk.phase("old"), status["phase"], status["reason"]) == ("Running", "Failed", "TaintToleration")


# ── 8.3 skew scenarios ───────────────────────────────────────────────────────────────────────────


@pytest.mark.proves("5471-50", "5471-96", "5471-97", "5721-102", "5721-103", "5500-74")
@row("8.3", "apiserver on, scheduler older: pending")
def older_scheduler(walk):
    walk.node()
    walk.switch(walk.feature.off("scheduler"))
    walk.pod("p")
    waiting = walk.phase("p")
    walk.switch(ON)
    assert (waiting, walk.phase("p")) == ("Pending", "Running")


@pytest.mark.proves("5500-75", "5500-76")
@row("8.3", "apiserver on, controller-manager old: evicted, DaemonSet pods missing")
def older_controllers(walk):
    walk.node()
    walk.switch(walk.feature.off("controllers"))
    walk.pod("p")
    walk.workload("DaemonSet", "agent")
    assert (walk.phase("p"), walk.evictions(), walk.phases("agent")) == (
        None,
        ["Marking for deletion Pod default/p"],
        [],
    )


@pytest.mark.proves("5471-95", "5721-101", "5500-77")
@row("8.3", "apiserver on, kubelet off: bound, then rejected")
def older_kubelet(walk):
    walk.node()
    walk.switch(walk.feature.off("kubelet"))
    walk.pod("p")
    message = walk.cluster.get("Pod", "p")["status"]["message"]
    assert (walk.where("p"), walk.phase("p"), message) == (
        "n",
        "Failed",
        "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
    )


@pytest.mark.proves("5471-51", "5500-78")
@row("8.3", "apiserver off, others on: no new use, existing pods evaluated")
def only_the_server_off(walk):
    walk.pod("pending")
    walk.switch(walk.feature.off("apiserver"))
    refusal = walk.pod("new")
    walk.node()
    walk.pass_seconds(60)
    assert (bool(refusal), walk.phase("pending")) == (True, "Running")


@pytest.mark.proves("5471-49", "5471-100", "5471-101", "5721-9", "5721-33", "5721-110", "5500-89", "5500-98")
@row("8.3", "everything off, then on again: no migration")
def off_and_on(walk):
    """The whole walk: running, pending and stored, through a downgrade and a second upgrade."""
    walk.node(effect="NoSchedule")
    walk.pod("runs", effect="NoSchedule")
    walk.pod("waits", effect="NoSchedule", nodeSelector={"late": "yes"})
    stored = {name: walk.cluster.get("Pod", name)["spec"]["tolerations"] for name in ("runs", "waits")}
    walk.switch(walk.feature.off())
    walk.node("late", effect="NoSchedule", labels={"late": "yes"})
    walk.pass_seconds(60)
    meanwhile = walk.phase("runs"), walk.phase("waits")
    kept = {name: walk.cluster.get("Pod", name)["spec"]["tolerations"] for name in stored}
    walk.switch(ON, seconds=60)
    assert (meanwhile, kept == stored, walk.phase("runs"), walk.phase("waits"), walk.evictions()) == (
        ("Running", "Pending"),
        True,
        "Running",
        "Running",
        [],
    )


@pytest.mark.proves("5721-45", "5721-50", "5500-120")
@row("8.3", "template uses it, apiserver off: endless 422, counted")
def hot_template(walk):
    walk.node()
    walk.workload("Deployment", "web", replicas=1)
    walk.switch(walk.feature.off("apiserver"))
    walk.cluster.patch("Deployment", "web", {"spec": {"replicas": 3}})
    walk.pass_seconds(60)
    first = refused_pods(walk.cluster)
    walk.pass_seconds(900)
    again = refused_pods(walk.cluster)
    told = walk.cluster.events("FailedCreate")
    assert (walk.phases("web"), again > first > 0, len(told)) == (["Running"], True, 1)


def refused_pods(cluster):
    """How many pod creations the server answered with 422, as its metrics count them."""
    lines = [line for line in cluster.metrics().splitlines() if line.startswith("apiserver_request_total{")]
    mine = [x for x in lines if 'code="422"' in x and 'resource="pods"' in x and 'verb="POST"' in x]
    return sum(float(line.rpartition(" ")[2]) for line in mine)


@row("8.3", "scheduler and kubelet both older: nothing new runs, nothing is lost")
def both_older(walk):
    walk.node()
    walk.pod("old")
    walk.switch(walk.feature.off("scheduler", "kubelet"))
    walk.pod("new")
    assert (walk.phase("old"), walk.phase("new"), walk.evictions()) == ("Running", "Pending", [])


# ── 8.4 a component that does not know `expression` ──────────────────────────────────────────────

#: Matches no taint of these tests: whoever is let in was let in by mistake.
NEVER = [{"expression": "taint.key == 'no-such-taint'"}]


def older(*components):
    return ComponentGates(older=frozenset(components))


@pytest.mark.proves("5500-74")
@row("8.4", "scheduler, gate off: no match", *EXPRESSION_ONLY)
def scheduler_gate_off(walk):
    walk.node("empty", taints=["maintenance=:NoSchedule"])
    walk.switch(walk.feature.off("scheduler"))
    walk.pod("p", tolerations=NEVER)
    assert walk.phase("p") == "Pending"


@pytest.mark.proves("5500-71")
@row("8.4", "scheduler, field unknown: every empty-valued taint tolerated", *EXPRESSION_ONLY)
def scheduler_field_unknown(walk):
    walk.node("valued", taints=["maintenance=soon:NoSchedule"])
    walk.switch(older("scheduler"))
    walk.pod("p", tolerations=NEVER)
    waiting = walk.phase("p")
    walk.node("empty", taints=["maintenance=:NoSchedule", "other=:NoSchedule"])
    walk.pass_seconds(60)
    stored = walk.cluster.get("Pod", "p")["spec"]["tolerations"][0]
    assert (waiting, walk.where("p"), stored) == ("Pending", "empty", NEVER[0])


@row("8.4", "scheduler, field unknown: taints of node conditions tolerated", *EXPRESSION_ONLY)
def scheduler_field_unknown_conditions(walk):
    """Even a cordoned node takes the pod: the taints of node conditions have no value."""
    walk.node("cordoned", taints=[])
    walk.cluster.patch("Node", "cordoned", {"spec": {"unschedulable": True}})
    walk.pass_seconds(5)
    walk.pod("p", tolerations=NEVER)
    waiting = walk.phase("p")
    walk.switch(older("scheduler"))
    taints = [taint["key"] for taint in walk.cluster.get("Node", "cordoned")["spec"]["taints"]]
    assert (waiting, taints, walk.where("p")) == ("Pending", ["node.kubernetes.io/unschedulable"], "cordoned")


@row("8.4", "controllers, gate off: no match", *EXPRESSION_ONLY)
def controllers_gate_off(walk):
    walk.node("empty", taints=[])
    walk.pod("p", tolerations=NEVER)
    walk.switch(walk.feature.off("controllers"))
    walk.cluster.taint("empty", "maintenance=:NoExecute")
    walk.pass_seconds(10)
    assert walk.phase("p") is None


@row(
    "8.4",
    "controllers, field unknown: stays under empty-valued taints, leaves under others",
    *EXPRESSION_ONLY,
)
def controllers_field_unknown(walk):
    walk.node("empty", taints=[])
    walk.node("valued", taints=[])
    for name in ("empty", "valued"):
        walk.pod(f"on-{name}", tolerations=NEVER, nodeSelector={"kubernetes.io/hostname": name})
    walk.switch(older("controllers"))
    walk.cluster.taint("empty", "maintenance=:NoExecute")
    walk.cluster.taint("valued", "maintenance=now:NoExecute")
    walk.pass_seconds(10)
    mistaken = walk.phase("on-empty"), walk.phase("on-valued")
    walk.switch(ON)
    assert (mistaken, walk.phase("on-empty")) == (("Running", None), None)


@row("8.4", "controllers, field unknown: daemon pods lose the field and are refused", *EXPRESSION_ONLY)
def controllers_field_unknown_daemons(walk):
    """It believes that the node is tolerated, and what it asks for is an empty toleration."""
    walk.node(taints=["maintenance=:NoSchedule"])
    walk.switch(older("controllers"))
    labels = {"app": "agent"}
    pod = {"containers": [{"name": "c", "image": "i"}], "tolerations": NEVER}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    walk.create("DaemonSet", "agent", {"spec": spec}, "apps/v1")
    (told,) = [event["message"] for event in walk.cluster.events("FailedCreate")]
    assert ("spec.tolerations[0].operator: Invalid value" in told, walk.phases("agent")) == (True, [])


@row("8.4", "kubelet, gate off: no match", *EXPRESSION_ONLY)
def kubelet_gate_off(walk):
    walk.node(taints=["maintenance=:NoExecute"])
    walk.switch(walk.feature.off("kubelet"))
    walk.pod("p", tolerations=[{"expression": "taint.key == 'maintenance'"}])
    assert walk.phase("p") == "Failed"


@row(
    "8.4",
    "kubelet, field unknown: admitted under empty-valued taints, rejected under others",
    *EXPRESSION_ONLY,
)
def kubelet_field_unknown(walk):
    walk.node("empty", taints=["maintenance=:NoExecute"])
    walk.node("valued", taints=["maintenance=now:NoExecute"])
    walk.switch(older("kubelet"))
    entry = [{"expression": "taint.key == 'maintenance'"}]
    for name in ("empty", "valued"):
        walk.pod(f"on-{name}", tolerations=entry, nodeSelector={"kubernetes.io/hostname": name})
    assert (walk.phase("on-empty"), walk.phase("on-valued")) == ("Running", "Failed")


# ── 8.5 whose gate decides what ──────────────────────────────────────────────────────────────────


@row("8.5", "apiserver matches nothing")
def apiserver_duty(walk):
    """It stores a pod bound to a node whose taint it does not tolerate; others turn it away."""
    walk.node()
    refusal = walk.pod("p", tolerations=[], nodeName="n")
    assert (refusal, walk.evictions()) == ("", ["Marking for deletion Pod default/p"])


@pytest.mark.proves("5500-63")
@row("8.5", "scheduler: filter and hints")
def scheduler_duty(walk):
    """A taint that changes to a tolerated value wakes the pod that waited because of it."""
    walk.node(taints=["sla=0:NoSchedule"])
    walk.pod("p", effect="NoSchedule")
    waiting = walk.phase("p")
    walk.cluster.taint("n", f"sla={walk.feature.value}:NoSchedule")
    walk.pass_seconds(15)
    assert (waiting, walk.phase("p")) == ("Pending", "Running")


@pytest.mark.proves("5500-51")
@row("8.5", "scheduler: spread policies")
def scheduler_spread(walk):
    """With nodeTaintsPolicy Honor a zone counts only where its nodes' taints are tolerated."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    walk.node("a", taints=[], labels={"zone": "a"})
    walk.node("b", effect="NoSchedule", labels={"zone": "b"})
    labels = {"app": "web"}
    pod = {
        "containers": [{"name": "c", "image": "i"}],
        "tolerations": [walk.feature.toleration("NoSchedule")],
        "topologySpreadConstraints": [constraint],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}

    def spread(name, gates):
        walk.switch(gates)
        spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
        walk.create("Deployment", name, {"spec": spec}, "apps/v1")
        found = sorted(p["spec"].get("nodeName", "") for p in walk.cluster.list("Pod", selector="app=web"))
        walk.cluster.delete("Deployment", name)
        walk.pass_seconds(60)
        return found

    both = spread("both", ON), spread("one", walk.feature.off("scheduler"))
    assert both == (["a", "a", "b", "b"], ["a", "a", "a", "a"])


@row("8.5", "scheduler: preemption dry runs")
def scheduler_preemption(walk):
    """Making room on a tainted node helps only a pod that the scheduler knows to tolerate the taint."""
    walk.node(effect="NoSchedule")
    big = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "6"}}}]
    walk.pod("small", effect="NoSchedule", containers=big)
    for name, value in (("high", 1000),):
        walk.create("PriorityClass", name, {"value": value}, "scheduling.k8s.io/v1")
    walk.switch(walk.feature.off("scheduler"))
    walk.pod("important", effect="NoSchedule", containers=big, priorityClassName="high")
    before = walk.phase("small"), walk.phase("important")
    walk.switch(ON, seconds=60)
    assert (before, walk.phase("small"), walk.phase("important")) == (("Running", "Pending"), None, "Running")


@pytest.mark.proves("5471-64")
@row("8.5", "controller-manager: eviction timers and condition taints")
def controllers_duty(walk):
    """It owns the time a toleration lasts and the taints that conditions stand for."""
    walk.node()
    walk.pod("p", seconds=3, tolerations=[{**walk.feature.toleration(), "tolerationSeconds": 20}])
    walk.pass_seconds(10)
    before = walk.phase("p")
    pressure = {"type": "PIDPressure", "status": "True", "reason": "x", "message": "x"}
    walk.cluster.patch_status("Node", "n", {"conditions": [pressure]})
    keys = [taint["key"] for taint in walk.cluster.get("Node", "n")["spec"]["taints"]]
    walk.pass_seconds(15)
    assert (before, walk.phase("p"), keys) == ("Running", None, ["sla", "node.kubernetes.io/pid-pressure"])


@pytest.mark.proves("5471-64")
@row("8.5", "kubelet: NoExecute admission")
def kubelet_duty(walk):
    """NoSchedule does not concern it: only pods that need the feature for NoExecute are turned away."""
    walk.node()
    walk.node("soft", effect="NoSchedule")
    walk.switch(walk.feature.off("kubelet"))
    walk.pod("hard", nodeSelector={"kubernetes.io/hostname": "n"})
    walk.pod("soft", effect="NoSchedule", nodeSelector={"kubernetes.io/hostname": "soft"})
    assert (walk.phase("hard"), walk.phase("soft")) == ("Failed", "Running")


@row("8.5", "kubelet: memory-pressure admission", *EXPRESSION_ONLY)
def kubelet_memory_pressure(walk):
    """A BestEffort pod comes in under memory pressure only if the kubelet knows that it tolerates the taint."""
    walk.node(taints=[])
    pressure = {"type": "MemoryPressure", "status": "True", "reason": "x", "message": "x"}
    entry = [{"expression": "taint.key == 'node.kubernetes.io/memory-pressure'"}]
    found = []
    for name, gates in (("on", ON), ("off", walk.feature.off("kubelet"))):
        walk.cluster.set_gates(gates)
        walk.pass_seconds(20)
        walk.cluster.patch_status("Node", "n", {"conditions": [pressure]})
        walk.pod(name, tolerations=entry, nodeName="n", seconds=5)
        found.append((walk.phase(name), walk.cluster.get("Pod", name)["status"].get("reason")))
    assert found == [("Running", None), ("Failed", "Evicted")]


@pytest.mark.proves("5471-84")
@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=getattr(row.check, "pytestmark", ()), id=str(row)) for row in ROWS]
)
def test_a_row_comes_out_as_written(row):
    walk = Walk(row.feature)
    try:
        row.check(walk)
    finally:
        walk.cluster.close()


# ── the whole way ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves("5471-101", "5471-102", "5471-106", "5500-98")
@pytest.mark.parametrize("name", sorted(FEATURES))
def test_upgrade_downgrade_and_upgrade_again(name):
    """Off, on, off, on: each time in the written order; what is stored is never touched."""
    feature = FEATURES[name]
    walk = Walk(feature, feature.off())
    try:
        walk.node(effect="NoSchedule")
        refused = bool(walk.pod("too-early", effect="NoSchedule"))
        walk.switch(feature.on(*COMPONENTS))
        walk.pod("runs", effect="NoSchedule")
        stored = walk.cluster.get("Pod", "runs")["spec"]
        for number in range(1, 5):
            walk.switch(feature.off(*DISABLE[name][:number]))
        downgraded = walk.phase("runs"), bool(walk.pod("too-late", effect="NoSchedule"))
        for number in range(1, 5):
            walk.switch(feature.on(*ENABLE[name][:number]))
        walk.pod("again", effect="NoSchedule")
        kept = walk.cluster.get("Pod", "runs")["spec"] == stored
        assert (refused, downgraded, kept, walk.phase("runs"), walk.phase("again")) == (
            True,
            ("Running", True),
            True,
            "Running",
            "Running",
        )
    finally:
        walk.cluster.close()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("semver", marks=pytest.mark.proves("5721-112", "5721-113")),
        pytest.param("cel", marks=pytest.mark.proves("5500-93", "5500-94")),
    ],
)
def test_when_the_feature_goes_pods_that_wait_are_stuck_and_rolling_updates_stall(name):
    walk = Walk(FEATURES[name])
    try:
        walk.node(effect="NoSchedule")
        walk.workload("Deployment", "web", effect="NoSchedule", replicas=2)
        walk.pod("waits", effect="NoSchedule", nodeSelector={"late": "yes"})
        old = {pod["metadata"]["uid"] for pod in walk.cluster.list("Pod", selector="app=web")}
        walk.switch(walk.feature.off("apiserver", "scheduler"))
        walk.node("late", effect="NoSchedule", labels={"late": "yes"})
        restart = {"spec": {"template": {"metadata": {"annotations": {"restarted": "yes"}}}}}
        walk.cluster.patch("Deployment", "web", restart)
        walk.pass_seconds(120)
        new = {pod["metadata"]["uid"] for pod in walk.cluster.list("Pod", selector="app=web")}
        conditions = walk.cluster.get("Deployment", "web")["status"]["conditions"]
        assert (new, walk.phases("web")) == (old, ["Running", "Running"])
        assert "ReplicaSetCreateError" in [each["reason"] for each in conditions]
        stuck = walk.phase("waits")
        walk.cluster._do(walk.cluster.client.delete(PODS, "waits", "default", grace_period_seconds=0))
        assert (stuck, walk.phase("waits")) == ("Pending", None)
    finally:
        walk.cluster.close()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("numeric", marks=pytest.mark.proves("5471-119")),
        pytest.param("semver", marks=pytest.mark.proves("5721-128")),
        pytest.param("cel", marks=pytest.mark.proves("5500-107")),
    ],
)
def test_a_pod_that_uses_the_feature_costs_the_requests_of_any_other(name):
    walk = Walk(FEATURES[name])
    try:
        walk.node()
        costs = []
        for pod, toleration in (("plain", {"key": "sla", "operator": "Exists"}), ("own", walk.feature.entry)):
            before = requests_about_pods(walk.cluster)
            walk.pod(pod, tolerations=[toleration])
            costs.append(requests_about_pods(walk.cluster) - before)
        assert costs[0] == costs[1] and costs[0].total() > 3
    finally:
        walk.cluster.close()


def requests_about_pods(cluster):
    """Count the requests about pods and events that the server has answered, by verb and subresource."""
    counts = Counter()
    for labels, count in scrape(cluster.metrics("apiserver"), "apiserver_request_total")[
        "apiserver_request_total"
    ].items():
        label = dict(labels)
        if label["resource"] in ("pods", "events"):
            counts[label["verb"], label["resource"], label["subresource"]] += count
    return counts


@pytest.mark.proves("5500-45", "5500-49", "5500-113")
def test_every_component_compiles_for_itself():
    """Scheduler, DaemonSet controller, taint eviction and kubelet: nobody uses the programs of the process."""
    walk = Walk(FEATURES["cel"])
    walk.feature = replace(
        walk.feature, entry={"expression": "taint.key == 'sla' && taint.value.endsWith('old')"}
    )
    try:
        before = len(shared().programs)
        walk.node()
        walk.pod("p")
        walk.workload("DaemonSet", "agent")
        assert (walk.phase("p"), walk.phases("agent"), walk.evictions()) == ("Running", ["Running"], [])
        assert len(shared().programs) == before
    finally:
        walk.cluster.close()
