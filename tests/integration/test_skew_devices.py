"""Device taints through upgrade, downgrade and skew: every row of dra.md 8 that concerns KEP-5055, lived through.

Each component has its own gates. A taint or a rule that is stored stays stored; what a component does not know has no
effect there; when the feature comes back, everything acts again.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from weir.errors import ApiError
from weir.gates import ALL_FEATURES
from weir.simulation.cluster import Cluster, ComponentGates

pytestmark = pytest.mark.proves(
    "5055-84", "5055-89", "5055-90", "5055-91", "5055-92", "5055-96", "5055-97", "5055-98"
)

COMPONENTS = ("apiserver", "scheduler", "controllers", "kubelet")
TAINTS, RULES, DRA = "DRADeviceTaints", "DRADeviceTaintRules", "DynamicResourceAllocation"
ON = ComponentGates()
VERSION = "resource.k8s.io/v1"
RULE_VERSION = "resource.k8s.io/v1beta2"

#: Gate or skew, row: as dra.md 8 lists them.
TABLE = {
    ("DynamicResourceAllocation", "off: kinds not served, plugin and controllers inert"),
    ("DRADeviceTaints", "off at the server: taints and tolerations dropped from new writes, no error"),
    ("DRADeviceTaints", "off at the server: an object that already had some keeps them"),
    ("DRADeviceTaints", "off at the server: rules stay readable and deletable"),
    ("DRADeviceTaints", "off at the scheduler: all taints ignored"),
    ("DRADeviceTaints", "off at the controllers: nobody evicted"),
    ("DRADeviceTaintRules", "off: rules ignored, taints of drivers keep working"),
    ("DRADeviceTaintRules", "off: rules neither evict nor get a status"),
    ("TaintTolerationComparisonOperators", "off at the server: new claims refused, stored ones stay"),
    ("TaintTolerationComparisonOperators", "off at the scheduler: stored ones never match"),
    (
        "TaintTolerationNodeAffinitySemverComparisonOperators",
        "off at the server: new claims refused, stored ones stay",
    ),
    ("TaintTolerationNodeAffinitySemverComparisonOperators", "off at the scheduler: stored ones never match"),
    ("TaintTolerationCEL", "off at the server: new claims refused, stored ones stay"),
    ("TaintTolerationCEL", "off at the scheduler: stored ones never match"),
    ("skew", "server on, scheduler off: accepted, no effect on scheduling"),
    ("skew", "server and controllers on, scheduler off: placed and evicted again and again"),
    ("skew", "server on, controllers off: allocation blocked, nobody evicted until the controller runs"),
    ("skew", "off, then on again: stored taints and rules act again"),
}
ROWS = []


def row(gate, text):
    def note(check):
        ROWS.append((gate, text, check))
        return check

    return note


def off(*components, gate=TAINTS):
    gates = ALL_FEATURES.replace({gate: False})
    return replace(ON, **dict.fromkeys(components or COMPONENTS, gates))


class Walk:
    """One node with one device, and pods that claim it."""

    def __init__(self, gates=ON):
        self.cluster = Cluster(gates=gates)
        self.cluster.add_node("n")

    def furnish(self, *taints, name="gpu"):
        selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
        self.make("DeviceClass", "gpu", {"spec": {"selectors": [selector]}})
        self.publish(*taints, name=name)

    def publish(self, *taints, name="gpu"):
        """Write the slice with the device, as its driver would; return what was stored of its taints."""
        device = {"name": "gpu-0", **({"taints": list(taints)} if taints else {})}
        pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "n", "devices": [device]}
        there = self.cluster.get("ResourceSlice", name)
        if there is None:
            self.make("ResourceSlice", name, {"spec": spec})
        else:
            self.cluster.patch("ResourceSlice", name, {"spec": {"devices": [device]}})
        self.cluster.advance(5)
        return self.cluster.get("ResourceSlice", name)["spec"]["devices"][0].get("taints")

    def make(self, kind, name, body, version=VERSION):
        document = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **body}
        try:
            return self.cluster.create(document)
        except ApiError as error:
            return error.message
        finally:
            self.cluster.advance(1)

    def claim(self, name, *tolerations):
        exactly = {"deviceClassName": "gpu", **({"tolerations": list(tolerations)} if tolerations else {})}
        requests = [{"name": "gpu", "exactly": exactly}]
        return self.make("ResourceClaim", name, {"spec": {"devices": {"requests": requests}}})

    def pod(self, name, *tolerations, claim=True):
        """Create a claim and a pod that uses it, and let time pass."""
        if claim:
            made = self.claim(name, *tolerations)
            if isinstance(made, str):
                return made
        containers = [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}]
        spec = {"containers": containers, "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
        self.make("Pod", name, {"spec": spec}, "v1")
        self.cluster.advance(30)
        return ""

    def rule(self, name, effect="NoExecute"):
        selector = {"driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
        taint = {"key": "broken", "value": "yes", "effect": effect}
        return self.make(
            "DeviceTaintRule", name, {"spec": {"deviceSelector": selector, "taint": taint}}, RULE_VERSION
        )

    def switch(self, gates, seconds=60):
        self.cluster.set_gates(gates)
        self.cluster.advance(seconds)

    def phase(self, name):
        found = self.cluster.get("Pod", name)
        return found and found["status"]["phase"]

    def tolerations(self, name):
        request = self.cluster.get("ResourceClaim", name)["spec"]["devices"]["requests"][0]
        return request["exactly"].get("tolerations")


HOT = {"key": "hot", "value": "95", "effect": "NoSchedule"}
BURNING = {"key": "hot", "value": "99", "effect": "NoExecute"}
BEARS_HEAT = {"key": "hot", "operator": "Exists"}


# ── gates ────────────────────────────────────────────────────────────────────────────────────────


@row(DRA, "off: kinds not served, plugin and controllers inert")
def everything_off(walk):
    walk.furnish()
    walk.switch(off(gate=DRA))
    refused = walk.claim("c")
    walk.make("Pod", "plain", {"spec": {"containers": [{"name": "c", "image": "i"}]}}, "v1")
    walk.cluster.advance(30)
    plain = walk.phase("plain")
    walk.switch(ON)
    walk.pod("p")
    assert ("could not find the requested resource" in refused, plain, walk.phase("p")) == (
        True,
        "Running",
        "Running",
    )


@row(TAINTS, "off at the server: taints and tolerations dropped from new writes, no error")
def server_drops(walk):
    walk.switch(off("apiserver"))
    walk.furnish(HOT)
    walk.pod("p", BEARS_HEAT)
    stored = walk.cluster.get("ResourceSlice", "gpu")["spec"]["devices"][0].get("taints")
    assert (stored, walk.tolerations("p"), walk.phase("p")) == (None, None, "Running")


@row(TAINTS, "off at the server: an object that already had some keeps them")
def server_keeps(walk):
    walk.furnish(HOT)
    walk.claim("old", BEARS_HEAT)
    walk.switch(off("apiserver"))
    written = walk.publish(HOT, {**HOT, "key": "loud"})
    walk.cluster.patch("ResourceClaim", "old", {"metadata": {"labels": {"still": "changeable"}}})
    keys = [taint["key"] for taint in written or ()]
    assert (keys, [t["key"] for t in walk.tolerations("old") or ()]) == (["hot", "loud"], ["hot"])


@row(TAINTS, "off at the server: rules stay readable and deletable")
def rules_deletable(walk):
    walk.furnish()
    walk.rule("r")
    walk.switch(off("apiserver"))
    readable = walk.cluster.get("DeviceTaintRule", "r") is not None
    walk.cluster.delete("DeviceTaintRule", "r")
    assert (readable, walk.cluster.get("DeviceTaintRule", "r")) == (True, None)


@row(TAINTS, "off at the scheduler: all taints ignored")
def scheduler_ignores(walk):
    walk.furnish(HOT)
    walk.pod("p")
    waiting = walk.phase("p")
    walk.switch(off("scheduler"), seconds=400)
    assert (waiting, walk.phase("p")) == ("Pending", "Running")


@row(TAINTS, "off at the controllers: nobody evicted")
def controllers_idle(walk):
    walk.furnish()
    walk.pod("p")
    walk.switch(off("controllers"))
    walk.publish(BURNING)
    walk.cluster.advance(300)
    assert walk.phase("p") == "Running"


@row(RULES, "off: rules ignored, taints of drivers keep working")
def rules_off(walk):
    walk.furnish()
    walk.rule("r", effect="NoSchedule")
    walk.switch(off(gate=RULES))
    walk.pod("despite-the-rule")
    placed = walk.phase("despite-the-rule")
    walk.publish(BURNING)
    walk.cluster.advance(30)
    assert (placed, walk.phase("despite-the-rule")) == ("Running", None)


@row(RULES, "off: rules neither evict nor get a status")
def rules_off_controllers(walk):
    walk.furnish()
    walk.pod("p")
    walk.switch(off("controllers", gate=RULES))
    walk.rule("r")
    walk.cluster.advance(60)
    told = walk.cluster.get("DeviceTaintRule", "r").get("status")
    stays = walk.phase("p")
    walk.switch(ON)
    assert (bool(told), stays, walk.phase("p")) == (False, "Running", None)


MATCHING = {
    "TaintTolerationComparisonOperators": {"key": "hot", "operator": "Gt", "value": "90"},
    "TaintTolerationNodeAffinitySemverComparisonOperators": {
        "key": "hot",
        "operator": "SemverGt",
        "value": "90.0.0",
    },
    "TaintTolerationCEL": {"expression": "taint.key == 'hot'"},
}


def claims_at_the_server(gate):
    def check(walk):
        walk.furnish(HOT)
        walk.pod("old", MATCHING[gate])
        walk.switch(off("apiserver", gate=gate))
        refused = walk.claim("new", MATCHING[gate])
        kept = walk.tolerations("old")
        assert (isinstance(refused, str), kept, walk.phase("old")) == (True, [MATCHING[gate]], "Running")

    return check


def claims_at_the_scheduler(gate):
    def check(walk):
        walk.furnish(HOT)
        walk.switch(off("scheduler", gate=gate))
        walk.pod("p", MATCHING[gate])
        waiting = walk.phase("p")
        walk.switch(ON, seconds=400)
        assert (waiting, walk.phase("p")) == ("Pending", "Running")

    return check


for _gate in MATCHING:
    row(_gate, "off at the server: new claims refused, stored ones stay")(claims_at_the_server(_gate))
    row(_gate, "off at the scheduler: stored ones never match")(claims_at_the_scheduler(_gate))


# ── skew ─────────────────────────────────────────────────────────────────────────────────────────


@row("skew", "server on, scheduler off: accepted, no effect on scheduling")
def only_the_scheduler_off(walk):
    walk.switch(off("scheduler"))
    walk.furnish(HOT)
    walk.pod("p")
    stored = walk.cluster.get("ResourceSlice", "gpu")["spec"]["devices"][0]["taints"]
    assert ([taint["key"] for taint in stored], walk.phase("p")) == (["hot"], "Running")


@row("skew", "server and controllers on, scheduler off: placed and evicted again and again")
def evicted_where_it_was_placed(walk):
    """With the whole feature they wait instead, so the scheduler has it before the controllers and as long as they."""
    walk.furnish(BURNING)
    walk.switch(off("scheduler"))
    for name in ("first", "second"):
        walk.pod(name)
    gone = walk.phase("first"), walk.phase("second")
    walk.switch(ON)
    walk.pod("third")
    assert (gone, walk.phase("third")) == ((None, None), "Pending")


@row("skew", "server on, controllers off: allocation blocked, nobody evicted until the controller runs")
def only_the_controllers_off(walk):
    walk.furnish()
    walk.pod("old")
    walk.switch(off("controllers"))
    walk.publish(BURNING)
    walk.pod("new")
    meanwhile = walk.phase("old"), walk.phase("new")
    walk.switch(ON)
    assert (meanwhile, walk.phase("old")) == (("Running", "Pending"), None)


@row("skew", "off, then on again: stored taints and rules act again")
def off_and_on(walk):
    walk.furnish()
    walk.switch(off("scheduler", "controllers", "kubelet"))
    walk.pod("p")
    walk.rule("r")
    walk.cluster.advance(600)
    walk.switch(off())
    downgraded = walk.phase("p"), walk.cluster.get("DeviceTaintRule", "r") is not None
    walk.switch(ON, seconds=5)
    assert (downgraded, walk.phase("p")) == (("Running", True), None)


def test_every_row_of_the_table_is_lived_through_and_no_other():
    assert {(gate, text) for gate, text, _ in ROWS} == TABLE


@pytest.mark.parametrize("gate, text, check", ROWS, ids=[f"{gate} {text}" for gate, text, _ in ROWS])
def test_a_row_comes_out_as_written(gate, text, check):
    walk = Walk()
    try:
        check(walk)
    finally:
        walk.cluster.close()


def test_upgrade_downgrade_and_upgrade_again():
    """Off, on, off, on, one component after the other: pods that run stay, and what is stored stays."""
    walk = Walk(off())
    order = ("apiserver", "scheduler", "controllers", "kubelet")
    try:
        walk.furnish()
        walk.pod("runs")
        phases = [walk.phase("runs")]
        for number in range(1, 5):
            others = order[number:]
            walk.switch(off(*others) if others else ON)
            phases.append(walk.phase("runs"))
        taints = walk.publish(HOT)
        for number in range(1, 5):
            walk.switch(off(*order[::-1][:number]))
            phases.append(walk.phase("runs"))
        walk.switch(ON)
        kept = walk.cluster.get("ResourceSlice", "gpu")["spec"]["devices"][0]["taints"]
        assert (set(phases), walk.phase("runs"), kept) == ({"Running"}, "Running", taints)
    finally:
        walk.cluster.close()
