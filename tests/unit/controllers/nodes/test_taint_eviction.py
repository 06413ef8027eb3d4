"""Every row of core.md 4.3, decided by the controller and read from its actions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from weir.controllers.nodes.taint_eviction import NodeKey, PodKey, TaintEviction, TimerKey
from weir.controllers.runtime.controller import Evict, Record, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS
from weir.objects.kinds import NODES, PODS
from weir.observe.logs import Log

pytestmark = pytest.mark.proves("5471-12", "5500-54", "5500-62")

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
POD = TimerKey("default", "p")


def taint(value="5", key="sla", effect="NoExecute"):
    return {"key": key, "value": value, "effect": effect}


def tolerate(operator="Exists", value="", seconds=None, key="sla"):
    entry = {"key": key, "operator": operator, "value": value, "effect": "NoExecute"}
    return entry if seconds is None else {**entry, "tolerationSeconds": seconds}


class Story:
    """A node, a pod on it and the controller; told changes, it remembers what the controller wanted."""

    def __init__(self, tolerations=(), taints=(), gates=ALL_FEATURES, node_name="n"):
        self.controller, self.listers, self.now = TaintEviction(gates), Listers.of([]), T0
        self.actions, self.keys = [], []
        for kind in (NODES, PODS):
            self.listers.caches[kind].listen(
                lambda old, new, kind=kind: self.keys.extend(self.controller.changed(kind, old, new))
            )
        self.taint(*taints)
        self.pod(*tolerations, node_name=node_name)

    def _work(self):
        keys, self.keys = self.keys, []
        for key in keys:
            self.actions += self.controller.reconcile(key, self.listers, self.now)
        return self

    def taint(self, *taints):
        self.listers.put(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": list(taints)}}
        )
        return self._work()

    def pod(self, *tolerations, node_name="n"):
        self.document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"nodeName": node_name, "tolerations": list(tolerations), "containers": []},
        }
        self.listers.put(self.document)
        return self._work()

    def delete_pod(self):
        self.listers.drop(self.document)
        return self._work()

    def delete_node(self):
        self.listers.drop({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        return self._work()

    def after(self, seconds):
        """Let time pass: everything that asked to be woken by then is looked at, at its time."""
        until = self.now + seconds * SECOND
        for wake in sorted((a for a in self.actions if isinstance(a, WakeAt)), key=lambda a: a.at):
            if self.now <= wake.at <= until:
                self.now = wake.at
                self.actions += self.controller.reconcile(wake.key, self.listers, self.now)
        self.now = until
        return self

    @property
    def evicted_after(self):
        """How many seconds after the start the pod had to go; None while it stays."""
        found = [(a.due - T0).total_seconds() for a in self.actions if isinstance(a, Evict)]
        return found[0] if found else None

    @property
    def told(self):
        return [a.message for a in self.actions if isinstance(a, Record)]


MARKING, CANCELLING = "Marking for deletion Pod default/p", "Cancelling deletion of Pod default/p"
LONG = 1000

# ── the table ────────────────────────────────────────────────────────────────────────────────────


def test_a_taint_without_toleration_deletes_at_once():
    assert Story().taint(taint()).evicted_after == 0


def test_a_toleration_without_seconds_lets_the_pod_stay():
    assert Story([tolerate()]).taint(taint()).after(LONG).evicted_after is None


def test_thirty_seconds_bound_a_matching_toleration():
    assert Story([tolerate(seconds=30)]).taint(taint()).after(LONG).evicted_after == 30


@pytest.mark.proves("5471-29", "1.35-12")
@pytest.mark.parametrize(
    "entry, good, bad",
    [
        (tolerate("Lt", "10", 60), "5", "15"),
        (tolerate("Gt", "900", 60), "950", "900"),
        (tolerate("SemverGt", "1.2.0", 60), "1.3.0", "1.2.0-rc.1"),
        ({"expression": "taint.value == 'blue'", "tolerationSeconds": 60}, "blue", "green"),
    ],
    ids=["Lt", "Gt", "Semver", "CEL"],
)
def test_a_value_that_no_longer_matches_deletes_at_once(entry, good, bad):
    story = Story([entry]).taint(taint(good)).after(7)
    assert (story.evicted_after, story.taint(taint(bad)).evicted_after) == (None, 7)


def test_another_entry_that_matches_the_new_value_brings_its_own_seconds():
    story = Story([tolerate("Equal", "5"), tolerate("Gt", "6", 20)]).taint(taint("5")).after(3)
    assert story.taint(taint("7")).after(LONG).evicted_after == 23


def test_another_entry_that_matches_the_new_value_keeps_a_running_timer():
    story = Story([tolerate("Equal", "5", 10), tolerate("Gt", "6", 60)]).taint(taint("5")).after(3)
    assert story.taint(taint("7")).after(LONG).evicted_after == 10


def test_a_new_value_under_the_same_entry_does_not_restart_the_clock():
    story = Story([tolerate("Gt", "1", 30)]).taint(taint("5")).after(20)
    assert story.taint(taint("6")).after(LONG).evicted_after == 30


@pytest.mark.parametrize("seconds", [0, 5, 500], ids=["zero", "shorter", "longer"])
def test_other_seconds_written_while_a_timer_runs_change_nothing(seconds):
    story = Story([tolerate(seconds=30)]).taint(taint()).after(10)
    assert story.pod(tolerate(seconds=seconds)).after(LONG).evicted_after == 30


def test_seconds_removed_from_the_used_entry_cancel_the_timer():
    story = Story([tolerate(seconds=30)]).taint(taint()).after(10).pod(tolerate()).after(LONG)
    assert (story.evicted_after, story.told) == (None, [CANCELLING])


def test_of_two_entries_for_one_taint_the_first_counts():
    assert Story([tolerate(seconds=30), tolerate()]).taint(taint()).after(LONG).evicted_after == 30


def test_of_two_taints_the_shorter_time_counts():
    story = Story([tolerate(seconds=60), tolerate(seconds=10, key="other")])
    assert story.taint(taint(), taint(key="other")).after(LONG).evicted_after == 10


def test_removing_all_taints_cancels():
    story = Story([tolerate(seconds=30)]).taint(taint()).after(10).taint().after(LONG)
    assert (story.evicted_after, story.told) == (None, [CANCELLING])


def test_deleting_the_pod_cancels():
    story = Story([tolerate(seconds=30)]).taint(taint()).after(10).delete_pod().after(LONG)
    assert (story.evicted_after, story.told) == (None, [CANCELLING])


def test_deleting_the_node_leaves_the_timer():
    assert Story([tolerate(seconds=30)]).taint(taint()).delete_node().after(LONG).evicted_after == 30


def test_a_pod_is_looked_at_on_a_node_with_evicting_taints_alone():
    controller = TaintEviction(ALL_FEATURES)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    listers = Listers.of([pod, node, {**node, "metadata": {"name": "m"}, "spec": {"taints": [taint()]}}])
    waiting = listers.pod("default", "p")
    bound = {name: replace(waiting, spec=replace(waiting.spec, node_name=name)) for name in ("n", "m")}
    for name in bound:
        list(controller.changed(NODES, None, listers.node(name)))
    assert not list(controller.changed(PODS, None, waiting))
    assert not list(controller.changed(PODS, waiting, bound["n"]))
    assert list(controller.changed(PODS, waiting, bound["m"])) == [PodKey("default", "p", "m")]
    assert not list(controller.changed(PODS, bound["m"], None))  # nothing was decided about it


def test_a_pod_bound_to_a_tainted_node_is_looked_at():
    story = Story(taints=[taint()], node_name="").after(5)
    assert (story.evicted_after, story.pod(node_name="n").evicted_after) == (None, 5)


@pytest.mark.parametrize(
    "entry",
    [tolerate("Gt", "1"), tolerate("SemverLt", "9.0.0"), {"expression": "true"}],
    ids=["numeric", "semver", "cel"],
)
def test_an_entry_whose_gate_is_off_does_not_match(entry):
    assert Story([entry], gates=KUBERNETES_DEFAULTS).taint(taint()).evicted_after == 0


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule"])
def test_other_effects_are_ignored(effect):
    assert Story().taint(taint(effect=effect)).after(LONG).actions == []


@pytest.mark.parametrize("annotation", ["kubernetes.io/config.mirror", "kubernetes.io/config.source"])
def test_mirror_pods_are_pods(annotation):
    story = Story()
    story.document["metadata"]["annotations"] = {annotation: "x"}
    story.listers.put(story.document)
    assert story.taint(taint()).evicted_after == 0


# ── around the table ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seconds", [0, -5])
def test_zero_or_less_seconds_mean_at_once(seconds):
    assert Story([tolerate(seconds=seconds)]).taint(taint()).evicted_after == 0


def test_the_deletion_is_told_before_it_happens():
    story = Story().taint(taint())
    assert [type(action) for action in story.actions] == [Record, Evict]


def test_the_event_names_the_pod_without_its_uid():
    (record, _) = Story().taint(taint()).actions
    about = {"kind": "Pod", "namespace": "default", "name": "p", "apiVersion": "v1"}
    assert (record.about.document(), record.type, record.reason, record.message) == (
        about,
        "Normal",
        "TaintManagerEviction",
        MARKING,
    )


def test_nothing_is_cancelled_when_no_timer_ran():
    assert Story([tolerate()]).taint(taint()).taint().told == []


def test_a_timer_that_was_running_is_cancelled_aloud_when_the_pod_must_go_at_once():
    story = Story([tolerate("Gt", "1", 30)]).taint(taint("5")).after(10).taint(taint("0"))
    assert story.told == [CANCELLING, MARKING]


def test_a_repeated_look_under_an_untolerated_taint_deletes_again():
    story = Story().taint(taint("5")).taint(taint("6"))
    assert story.told == [MARKING, MARKING]


def test_a_pod_that_its_node_has_shown_already_is_told_of_once():
    story = Story().taint(taint("5"))
    story.actions += story.controller.reconcile(PodKey("default", "p", "n"), story.listers, story.now)
    assert story.told == [MARKING]


def test_the_same_taint_given_again_after_it_was_gone_deletes_again():
    assert Story().taint(taint("5")).taint().taint(taint("5")).told == [MARKING, MARKING]


def test_expressions_are_kept_in_a_cache_of_the_controllers_own():
    one, other = TaintEviction(ALL_FEATURES), TaintEviction(ALL_FEATURES)
    assert one._evaluate.__self__ is not other._evaluate.__self__


def test_a_deletion_under_way_is_not_started_again_by_zero_seconds():
    story = Story([tolerate(seconds=0)]).taint(taint("5")).after(1).taint(taint("6"))
    assert story.told == [MARKING]


def test_after_a_deletion_ended_zero_seconds_delete_again():
    story = Story([tolerate(seconds=0)]).taint(taint("5")).after(1)
    story.controller.eviction_ended(next(a for a in story.actions if isinstance(a, Evict)))
    assert story.taint(taint("6")).told == [MARKING, MARKING]


def test_the_time_of_a_taint_is_part_of_the_comparison():
    story = Story([tolerate()])
    story.taint(taint())
    changed = {**taint(), "timeAdded": "2026-01-01T00:00:00Z"}
    keys = []
    story.listers.caches[NODES].listen(
        lambda old, new: keys.extend(story.controller.changed(NODES, old, new)) if old else None
    )
    story.taint(changed)
    assert keys == [NodeKey("n")]


def test_a_stale_item_of_another_node_is_ignored():
    story = Story(taints=[taint()])
    story.actions.clear()
    assert list(story.controller.reconcile(PodKey("default", "p", "elsewhere"), story.listers, T0)) == []


def test_seconds_beyond_any_calendar_are_a_timer_that_never_fires():
    story = Story([tolerate(seconds=2**62)]).taint(taint()).after(LONG)
    assert (story.evicted_after, POD in story.controller.timers) == (None, True)


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("taint"), st.sampled_from([(), ("5",), ("50",)])),
            st.tuples(st.just("pod"), st.sampled_from([None, 0, 5, 20])),
            st.tuples(st.just("wait"), st.integers(0, 30)),
        ),
        max_size=12,
    )
)
def test_looking_again_at_a_later_moment_never_moves_a_timer(steps):
    story = Story([tolerate("Lt", "10", 20)])
    for what, value in steps:
        if what == "taint":
            story.taint(*map(taint, value))
        elif what == "pod":
            story.pod(tolerate("Lt", "10", value))
        else:
            story.after(value)
    before = dict(story.controller.timers)
    list(story.controller.reconcile(NodeKey("n"), story.listers, story.now + SECOND))
    assert {key: t for key, t in story.controller.timers.items() if key in before} == before or not before


def test_a_new_pod_of_the_same_name_has_a_time_of_its_own():
    """A timer belongs to one pod: when it fires, another pod of that name must not go in its place."""
    story = Story([tolerate(seconds=30)], [taint()])
    story.now += 20 * SECOND
    story.document = {**story.document, "metadata": {**story.document["metadata"], "uid": "another"}}
    story.listers.put(story.document)
    story.keys = [PodKey("default", "p", "n")]
    story._work()
    story.after(60)
    assert [(each.eviction.uid, each.due) for each in story.actions if isinstance(each, Evict)] == [
        ("another", T0 + 50 * SECOND)
    ]


def test_looked_at_too_early_a_timer_asks_to_be_woken_at_its_time():
    story = Story([tolerate(seconds=30)]).taint(taint())
    assert list(story.controller.reconcile(POD, story.listers, T0 + 29 * SECOND)) == [
        WakeAt(POD, T0 + 30 * SECOND)
    ]


def test_a_timer_fires_once():
    story = Story([tolerate(seconds=30)]).taint(taint()).after(30)
    assert story.told == [MARKING] and story.controller.timers == {}
    assert list(story.controller.reconcile(POD, story.listers, story.now)) == []


def test_other_seconds_written_at_the_moment_a_timer_began_replace_it():
    story = Story([tolerate(seconds=30)]).taint(taint()).pod(tolerate(seconds=60))
    assert story.told == [CANCELLING] and story.controller.timers[POD].fire_at == T0 + 60 * SECOND


def test_the_same_seconds_seen_twice_at_one_moment_are_one_timer():
    story = Story([tolerate(seconds=30)]).taint(taint())
    before = len(story.actions)
    story.actions += story.controller.reconcile(NodeKey("n"), story.listers, T0)
    assert len(story.actions) == before and story.told == []


def test_after_the_taint_was_gone_zero_seconds_delete_again():
    story = Story([tolerate(seconds=0)]).taint(taint("5")).taint().taint(taint("5"))
    assert story.told == [MARKING, MARKING]


def test_what_happens_to_a_pod_is_logged_at_the_second_level(monkeypatch):
    lines = []
    monkeypatch.setattr(Log, "v", lambda self, level, sentence, **fields: lines.append((level, sentence)))
    Story([tolerate("Gt", "1", 30)]).taint(taint("5")).taint().taint(taint("5")).after(30)
    Story().taint(taint())
    assert lines == [
        (2, "Pod tolerates taint for a limited time"),
        (2, "Cancelling deletion of pod"),
        (2, "Pod tolerates taint for a limited time"),
        (2, "Toleration seconds are over, evicting pod"),
        (2, "Not all taints are tolerated, evicting pod"),
    ]


def test_a_value_that_cannot_be_compared_is_told_of(monkeypatch):
    told = []
    for name in ("v", "info", "warning", "error"):
        monkeypatch.setattr(
            Log, name, lambda self, *said, **fields: told.append((said[-1], fields.get("node")))
        )
    Story([tolerate("Gt", "1")]).taint(taint("high"))
    assert ("Not all taints are tolerated, evicting pod", "n") in told
    assert len([node for sentence, node in told if "evicting" not in sentence]) == 1
