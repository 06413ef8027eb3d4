"""Who is woken by what: changes that help, and those that only look as if they did."""

import pytest

from tests.unit.scheduler.hints import hints_of
from weir.objects.core import Node, Pod, read
from weir.scheduler.queueing_hints import node_events, object_events, pod_events
from weir.scheduler.volumes import CSINode, VolumeAttachment

ZONE = "topology.kubernetes.io/zone"
WEB = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HINTS = hints_of()


def pod(app="", node="", status=None, cpu="1", **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return read(Pod, {"metadata": {"name": "p", "namespace": "x", "labels": {"app": app} if app else {}},
                      "spec": {"containers": [container], "nodeName": node, **spec},
                      "status": status or {}})  # fmt: skip


def node(**labels):
    labels = {key.replace("zone", ZONE): value for key, value in labels.items()}
    return read(Node, {"metadata": {"name": "n", "labels": labels}})


def wakes(plugin, waiting, events):
    return any(HINTS.helps(plugin, waiting, event) for event in events)


NEAR = pod(affinity={"podAffinity": {REQUIRED: [WEB]}})
NEAR_ITS_KIND = pod("web", affinity={"podAffinity": {REQUIRED: [WEB]}})
APART = pod(affinity={"podAntiAffinity": {REQUIRED: [WEB]}})


@pytest.mark.parametrize(
    ("waiting", "old", "new", "woken"),
    [
        (NEAR, None, pod("web", "n"), True),
        (NEAR, None, pod("db", "n"), False),
        (NEAR, pod("web", "n"), None, False),
        (NEAR_ITS_KIND, pod("web", "n"), None, True),  # nobody of its kind is left: it may start anywhere
        (APART, None, pod("web", "n"), False),
        (APART, pod("web", "n"), None, True),
        (APART, pod("web", "n"), pod("db", "n"), True),
        (APART, pod("db", "n"), pod("web", "n"), False),
        (pod("web"), pod("db", "n", affinity={"podAntiAffinity": {REQUIRED: [WEB]}}), None, True),
    ],
)  # fmt: skip
def test_pods_that_come_and_go_wake_who_wanted_just_that(waiting, old, new, woken):
    assert wakes("InterPodAffinity", waiting, pod_events(old, new)) == woken


@pytest.mark.parametrize(
    ("waiting", "old", "new", "woken"),
    [
        (NEAR, None, node(), False),
        (NEAR, None, node(zone="a"), True),
        (APART, None, node(), True),  # without the label it is away from everybody
        (APART, node(zone="a"), node(), True),
        (APART, node(), node(zone="a"), False),
        (NEAR, node(zone="a"), node(), False),
        (NEAR, node(zone="a"), node(zone="b"), True),
        (NEAR, node(zone="a"), node(zone="a", other="x"), False),
    ],
)
def test_labels_of_nodes_wake_who_could_be_near_or_away_there(waiting, old, new, woken):
    assert wakes("InterPodAffinity", waiting, node_events(old, new)) == woken


SPREAD = {"maxSkew": 1, "topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}


@pytest.mark.parametrize(
    ("constraints", "old", "new", "woken"),
    [
        ([{**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}], pod("web", "n"), None, True),
        ([{**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}], pod("db", "n"), None, False),
        ([{**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}], pod("db", "n"), pod("web", "n"), True),
        ([], pod("db", "n"), None, True),  # rejected by the profile's own constraints
    ],
)
def test_spread_pods_wake_when_the_count_changes(constraints, old, new, woken):
    waiting = pod("web", topologySpreadConstraints=constraints)
    assert wakes("PodTopologySpread", waiting, pod_events(old, new)) == woken


def csi_node(**counts):
    drivers = [{"name": name, "allocatable": {"count": count}} for name, count in counts.items()]
    return read(CSINode, {"metadata": {"name": "n"}, "spec": {"drivers": drivers}})


@pytest.mark.parametrize(
    ("old", "new", "woken"),
    [
        ({"a": 1}, {"a": 2}, True),
        ({"a": 2}, {"a": 1}, False),
        ({"a": 1}, {"a": 1, "b": 0}, True),
        ({"a": 1}, {}, False),
    ],
)
def test_a_driver_that_attaches_more_wakes_pods_with_volumes(old, new, woken):
    events = object_events("CSINode", csi_node(**old), csi_node(**new))
    assert wakes("NodeVolumeLimits", pod(), events) == woken


def test_a_volume_that_is_detached_makes_room_for_another():
    events = object_events("VolumeAttachment", VolumeAttachment(), None)
    assert wakes("NodeVolumeLimits", pod(), events)


def test_a_pod_without_volumes_that_leaves_makes_no_room_for_volumes():
    holder = pod("a", "n", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    left = [wakes("NodeVolumeLimits", pod(), pod_events(gone, None)) for gone in (pod("a", "n"), holder)]
    assert left == [False, True]


def test_a_pod_that_was_resized_to_less_wakes_who_waits_for_room():
    def given(amount):
        return {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": amount}}]}

    shrunk = pod_events(pod("a", "n", given("4")), pod("a", "n", given("1")))
    grown = pod_events(pod("a", "n", given("1")), pod("a", "n", given("4")))
    assert (wakes("NodeResourcesFit", pod(), shrunk), wakes("NodeResourcesFit", pod(), grown)) == (
        True,
        False,
    )
