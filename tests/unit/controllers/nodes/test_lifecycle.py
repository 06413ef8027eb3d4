"""Node lifecycle decides: zones and rates (core.md 4.6), and looks only at what may have something to say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.controllers.nodes.condition_taints import unknown_conditions
from weir.controllers.nodes.lifecycle import CheckKey, NodeLifecycle
from weir.controllers.runtime.controller import Patch, Record, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.gates import ALL_FEATURES
from weir.objects.kinds import LEASES, NODES

T0 = datetime(2026, 1, 1, tzinfo=UTC)
EVICTING = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def printed(at):
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Everybody(NodeLifecycle):
    """Looks at every node in every check, as the specification says it."""

    listers: Listers

    def _to_check(self, now):
        super()._to_check(now)
        return sorted(node.name for node in self.listers.all(NODES))

    def _calm(self):
        return False  # and at every zone


class Story:
    """Nodes and the controller, without a server: patches are applied as they come, time is a number."""

    def __init__(self, kind=NodeLifecycle):
        self.controller, self.listers, self.seconds = kind(ALL_FEATURES), Listers.of([], [LEASES]), 0.0
        self.controller.listers = self.listers
        self.nodes, self.silent, self.versions = {}, set(), 0
        self.due, self.log, self.renewal = [], [], 7.0
        for kind in (NODES, LEASES):
            self.listers.caches[kind].listen(
                lambda old, new, kind=kind: self._wake(*self.controller.changed(kind, old, new))
            )
        self._wake(CheckKey())

    @property
    def now(self):
        return T0 + timedelta(seconds=self.seconds)

    def _wake(self, *keys):
        self.due += [(self.seconds, len(self.log), key) for key in keys]

    def add(self, name, zone="", labels=None):
        named = {"topology.kubernetes.io/zone": zone} if zone else {}
        conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": printed(self.now)}]
        self.nodes[name] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": name, "labels": {**named, **(labels or {})}},
            "spec": {},
            "status": {"conditions": conditions},
        }
        self._put(name)

    def remove(self, name):
        self.listers.drop(self.nodes.pop(name))

    def _put(self, name):
        self.versions += 1
        self.nodes[name]["metadata"]["resourceVersion"] = str(self.versions)
        self.listers.put(self.nodes[name])

    def _renew(self):
        for name in self.nodes:
            if name not in self.silent:
                lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
                metadata = {"name": name, "namespace": "kube-node-lease"}
                self.listers.put({**lease, "metadata": metadata, "spec": {"renewTime": printed(self.now)}})

    def silence(self, *names):
        self.silent.update(names)

    def come_back(self, *names):
        self.silent.difference_update(names)
        for name in names:
            for condition in self.nodes[name]["status"]["conditions"]:
                condition.update(status="True", lastHeartbeatTime=printed(self.now))
            self._put(name)

    def unready(self, name):
        """The node reports that it is not ready."""
        ready = {"type": "Ready", "status": "False", "lastHeartbeatTime": printed(self.now)}
        self.nodes[name]["status"]["conditions"] = [ready]
        self._put(name)

    def bare(self, name):
        """The node's conditions are taken away."""
        self.nodes[name]["status"]["conditions"] = []
        self._put(name)

    def _carry_out(self, action):
        if isinstance(action, WakeAt):
            self.due.append(((action.at - T0).total_seconds(), len(self.log), action.key))
        elif isinstance(action, Record):
            self.log.append((self.seconds, action.about.name, action.reason))
        elif isinstance(action, Patch) and action.name in self.nodes:
            node = self.nodes[action.name]
            if "spec" in action.patch:
                node["spec"] = {"taints": action.patch["spec"]["taints"] or []}
            else:
                changed = {c["type"]: c for c in action.patch["status"]["conditions"]}
                kept = {c["type"]: c for c in node["status"]["conditions"]}
                node["status"]["conditions"] = list({**kept, **changed}.values())
            self.log.append((self.seconds, action.name, str(action.patch.get("spec") or "status")))
            self._put(action.name)

    def pass_time(self, seconds):
        until = self.seconds + seconds
        while True:
            due = min((at for at, _, _ in self.due), default=until)
            step = min(due, self.renewal)
            if step > until:
                break
            self.seconds = max(self.seconds, step)
            if due < self.renewal:
                entry = min((each for each in self.due if each[0] <= self.seconds), key=lambda each: each[:2])
                self.due.remove(entry)
                for action in list(self.controller.reconcile(entry[2], self.listers, self.now)):
                    self._carry_out(action)
            else:
                self._renew()
                self.renewal += 10.0
        self.seconds = until
        return self

    def given_up(self):
        return sorted(
            name
            for name, node in self.nodes.items()
            if any(
                t["key"] in EVICTING and t["effect"] == "NoExecute" for t in node["spec"].get("taints", ())
            )
        )


def zone(story, count, name="n", zone="a", **more):
    names = [f"{name}{number:02}" for number in range(count)]
    for each in names:
        story.add(each, zone, **more)
    story.pass_time(20)
    return names


@pytest.mark.parametrize(
    "nodes, silent, seconds, given_up",
    [
        (4, 2, 15, 2),  # normal: one every ten seconds
        (10, 6, 600, 0),  # a small zone that mostly fails: nobody
        (60, 40, 250, 3),  # a large one: one every hundred seconds
        (10, 5, 45, 5),  # half is not yet 0.55
    ],
)
def test_a_zone_gives_up_nodes_at_the_rate_of_its_state(nodes, silent, seconds, given_up):
    story = Story()
    names = zone(story, nodes)
    story.silence(*names[:silent])
    story.pass_time(60 + seconds)
    assert len(story.given_up()) == given_up


def test_a_zone_that_is_dead_is_given_up_at_the_normal_rate_while_another_lives():
    story = Story()
    dead = zone(story, 3, "dead", "a")
    zone(story, 3, "well", "b")
    story.silence(*dead)
    assert story.pass_time(100).given_up() == dead


def test_where_every_zone_is_dead_taints_are_taken_back():
    story = Story()
    first, second = zone(story, 3, "a", "a"), zone(story, 3, "b", "b")
    story.silence(*first)
    story.pass_time(100)
    before = story.given_up()
    story.silence(*second)
    assert (before, story.pass_time(100).given_up()) == (first, [])


def test_after_the_whole_cluster_was_dead_nodes_are_given_up_again():
    story = Story()
    names = zone(story, 3)
    story.silence(*names)
    story.pass_time(100)
    dead = story.given_up()
    story.come_back(names[0])
    assert (dead, story.pass_time(30).given_up()) == ([], names[1:])


def test_nodes_that_opted_out_do_not_count_for_their_zone():
    story = Story()
    zone(story, 2, "well", "a")
    names = zone(story, 8, "out", "a", labels={"node.kubernetes.io/exclude-disruption": "true"})
    story.silence(*names)
    assert len(story.pass_time(150).given_up()) == 8  # else more than half would be down: nobody would go


def test_a_node_without_a_ready_condition_loses_the_taint_that_admission_gave_it():
    story = Story()
    story.add("n")
    story.nodes["n"]["status"] = {"conditions": []}
    story.nodes["n"]["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
    story._put("n")
    assert story.pass_time(1).nodes["n"]["spec"]["taints"] == []


def test_nodes_that_are_well_are_not_looked_at():
    story = Story()
    zone(story, 5)
    looked = []
    story.silent = set(story.nodes)  # nobody reports, and nobody's grace is over
    check = story.controller._check
    story.pass_time(10)
    story.controller._check = lambda node, *more: looked.append(node.name) or check(node, *more)
    story.pass_time(20)
    assert looked == []


def test_nodes_without_a_condition_and_nodes_that_carry_their_taint_are_not_looked_at():
    story = Story()
    zone(story, 5)
    story.add("bare")
    story.nodes["bare"]["status"] = {"conditions": []}
    story._put("bare")
    story.silence("n00")
    looked = []
    check = story.controller._check
    story.pass_time(120)
    assert story.given_up()
    story.renewal = 1000.0  # nobody reports, and nobody's grace is over
    story.pass_time(5)
    story.controller._check = lambda node, *more: looked.append(node.name) or check(node, *more)
    story.pass_time(20)
    assert not {"bare", *story.given_up()} & set(looked)


steps = st.lists(
    st.tuples(
        st.sampled_from(["silence", "come_back", "add", "remove", "unready", "bare", "nothing"]),
        st.integers(0, 5),
        st.integers(1, 120),
    ),
    max_size=12,
)


def live(kind, script):
    story = Story(kind)
    for number in range(4):
        story.add(f"n{number}", "ab"[number % 2])
    for what, number, wait in script:
        name = f"n{number}"
        if what == "add" and name not in story.nodes:
            story.add(name, "ab"[number % 2])
        elif name in story.nodes and what in ("silence", "come_back", "remove", "unready", "bare"):
            getattr(story, what)(name)
        story.pass_time(wait)
    return story.log


class TestLookingAtFew:
    """Looking only at nodes that changed, are not well or whose grace is over decides what looking at all does."""

    @settings(deadline=None, max_examples=60)
    @given(steps)
    def test_it_decides_the_same_at_the_same_times(self, script):
        assert live(NodeLifecycle, script) == live(Everybody, script)


def test_conditions_of_a_node_that_fell_silent_stay_in_the_order_they_were_in():
    present = [
        {"type": type, "status": "False"} for type in ("DiskPressure", "MemoryPressure", "Other", "Ready")
    ]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": present}}
    told = unknown_conditions(Listers.of([node]).node("n"), T0)
    assert [each["type"] for each in told] == ["DiskPressure", "MemoryPressure", "Ready", "PIDPressure"]
