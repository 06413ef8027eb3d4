"""What one node says to one pod: every filter of core.md 3.7, asked through the engine, and the reasons it gives."""

from __future__ import annotations

from typing import Any

import pytest

from weir.explain.engine import EngineJudge, Engines
from weir.explain.reasons import Gated
from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import Pod, read
from weir.scheduler.claim_reasons import ClaimUnusable, VolumeElsewhere
from weir.scheduler.reasons import (
    Cordoned,
    OtherNode,
    PortTaken,
    Reason,
    TooFew,
    TooManyPods,
    UnmetAffinity,
    UntoleratedTaint,
    WrongLabel,
)
from weir.taints.toleration import Outcome
from weir.world import World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str = "n1", taints: Any = (), labels: Any = None, **rest: Any) -> dict[str, Any]:
    allocatable = rest.pop("allocatable", None)
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints), **rest},
        "status": {"allocatable": allocatable} if allocatable is not None else {},
    }


def pod(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name}, "spec": spec}


def wants(**requests: str) -> list[dict[str, Any]]:
    return [{"name": "c", "resources": {"requests": requests}}]


def judge(asked: dict[str, Any], world: World, gates: Gates = ALL_FEATURES) -> EngineJudge:
    return Engines(world)(read(Pod, asked), world, gates)


def reasons(
    asked: dict[str, Any], *documents: dict[str, Any], gates: Gates = ALL_FEATURES
) -> tuple[Reason, ...]:
    world = World.of(documents)
    return judge(asked, world, gates)(world.nodes["n1"]).reasons


def test_an_untainted_empty_node_takes_everything():
    assert reasons(pod(), node()) == ()


def test_each_untolerated_taint_is_a_reason_with_every_attempt():
    sla = {"key": "sla", "value": "940", "effect": "NoSchedule"}
    gpu = {"key": "gpu", "effect": "NoExecute"}
    above = {"key": "sla", "operator": "Gt", "value": "950"}
    first, second = reasons(pod(tolerations=[above]), node(taints=[sla, gpu]))
    assert isinstance(first, UntoleratedTaint) and isinstance(second, UntoleratedTaint)
    assert [a.outcome for a in (*first.attempts, *second.attempts)] == [
        Outcome.NOT_GREATER,
        Outcome.OTHER_KEY,
    ]


def test_a_preference_is_no_reason_but_is_remembered():
    soft = {"key": "slow", "effect": "PreferNoSchedule"}
    world = World.of([node(taints=[soft])])
    verdict = judge(pod(), world, ALL_FEATURES)(world.nodes["n1"])
    assert (verdict.fits, [taint.key for taint in verdict.disliked]) == (True, ["slow"])


def test_a_cordoned_node_is_refused_unless_the_cordon_is_tolerated():
    assert reasons(pod(), node(unschedulable=True)) == (Cordoned(),)
    passing = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    assert reasons(pod(tolerations=[passing]), node(unschedulable=True)) == ()


def test_each_wrong_node_selector_entry_is_named():
    found = reasons(pod(nodeSelector={"a": "1", "b": "2", "c": "3"}), node(labels={"a": "1", "b": "x"}))
    assert found == (WrongLabel("b", "2", "x"), WrongLabel("c", "3", None))


def test_every_term_of_the_affinity_says_what_it_lacks():
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]},
        {},
    ]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    (reason,) = reasons(pod(affinity=affinity), node(labels={"zone": "b"}))
    assert isinstance(reason, UnmetAffinity)
    assert [[(u.field, u.found) for u in term.unmet] for term in reason.terms] == [
        [("matchExpressions", "b")],
        [("matchFields", "n1")],
        [],
    ]


def test_an_affinity_without_terms_matches_no_node():
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}
    assert reasons(pod(affinity=affinity), node()) == (UnmetAffinity(()),)


def test_node_name_asks_for_one_node_only():
    assert reasons(pod(nodeName="n2"), node()) == (OtherNode("n2"),)


def test_a_pod_that_names_the_node_is_turned_away_by_no_execute_alone():
    soft = {"key": "a", "effect": "NoSchedule"}
    hard = {"key": "b", "effect": "NoExecute"}
    found = reasons(pod(nodeName="n1"), node(taints=[soft, hard], unschedulable=True))
    assert [reason.taint.key for reason in found if isinstance(reason, UntoleratedTaint)] == ["b"]
    assert len(found) == 1


def test_what_runs_there_counts_and_what_has_ended_does_not():
    running = pod("a", nodeName="n1", containers=wants(cpu="3"))
    ended = pod("b", nodeName="n1", containers=wants(cpu="3")) | {"status": {"phase": "Failed"}}
    found = reasons(pod(containers=wants(cpu="2")), node(allocatable={"cpu": "4", "pods": 9}), running, ended)
    assert found == (TooFew("cpu", 2000, 4000, 3000),)


def test_every_short_resource_is_a_reason_and_a_missing_one_counts_as_none():
    found = reasons(
        pod(containers=wants(cpu="2", memory="1Gi", **{"example.com/gpu": "1"})),
        node(allocatable={"cpu": "1", "memory": "512Mi"}),
    )
    assert found == (
        TooFew("cpu", 2000, 1000, 0),
        TooFew("memory", 2**30, 2**29, 0),
        TooFew("example.com/gpu", 1, 0, 0),
    )


def test_a_request_of_zero_fits_where_there_is_nothing():
    assert reasons(pod(containers=wants(cpu="0")), node(allocatable={"pods": "5"})) == ()


def test_a_node_that_says_nothing_about_its_room_is_not_judged_by_it():
    assert reasons(pod(containers=wants(cpu="2000")), node()) == ()


def test_pods_are_counted():
    full = node(allocatable={"pods": "1"})
    assert reasons(pod(), full, pod("other", nodeName="n1")) == (TooManyPods(1, 1),)


def test_a_pod_does_not_stand_in_its_own_way():
    world = World.of([node(allocatable={"cpu": "1"}), pod(nodeName="n1", containers=wants(cpu="1"))])
    asked = read(Pod, pod(containers=wants(cpu="1")))
    assert Engines(world, without="default/web")(asked, world, ALL_FEATURES)(world.nodes["n1"]).fits


@pytest.mark.parametrize(
    ("mine", "theirs", "taken"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, True),
        ({"containerPort": 80}, {"hostPort": 80}, False),
    ],
)
def test_host_ports_meet_only_on_the_same_address_and_protocol(mine, theirs, taken):
    holder = pod("holder", nodeName="n1", containers=[{"name": "c", "ports": [theirs]}])
    found = reasons(pod(containers=[{"name": "c", "ports": [mine]}]), node(), holder)
    assert found == ((PortTaken(80, "TCP", "default/holder"),) if taken else ())


# ── volumes ──

CLAIMED = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def claim(**rest: Any) -> dict[str, Any]:
    status = rest.pop("status", {"phase": "Bound"})
    metadata = {"name": "data", **rest.pop("metadata", {})}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": rest, "status": status}


def volume(key: str = "zone", value: str = "a", name: str = "disk") -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def test_a_bound_volume_ties_the_pod_to_its_nodes():
    documents = (claim(volumeName="disk"), volume())
    assert reasons(pod(**CLAIMED), node(labels={"zone": "a"}), *documents) == ()
    (reason,) = reasons(pod(**CLAIMED), node(labels={"zone": "b"}), *documents)
    assert isinstance(reason, VolumeElsewhere)
    assert (reason.claim, reason.volume, reason.terms[0].unmet[0].found) == ("data", "disk", "b")


def test_a_volume_that_does_not_exist_keeps_the_pod_off_every_node():
    documents = (node(), claim(volumeName="gone"), volume())
    (reason,) = blockers(pod(**CLAIMED), *documents)
    assert reason.message() == 'persistentvolume "gone" not found'
    assert (
        judge(pod(**CLAIMED), World.of(documents)).engine.place(read(Pod, pod(**CLAIMED))).prefilter
        == reason.message()
    )


def blockers(asked: dict[str, Any], *documents: dict[str, Any]) -> tuple[Reason, ...]:
    return judge(asked, World.of(documents)).blockers()


def immediate(mode: str) -> dict[str, Any]:
    return {"kind": "StorageClass", "metadata": {"name": "s"}, "volumeBindingMode": mode}


@pytest.mark.parametrize(
    ("documents", "text"),
    [
        ([claim(metadata={"name": "other"})], 'persistentvolumeclaim "data" not found'),
        ([], 'persistentvolumeclaim "data" not found'),
        (
            [claim(volumeName="disk", status={"phase": "Lost"})],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "disk"',
        ),
        (
            [claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "data" is being deleted',
        ),
        (
            [claim(storageClassName="s", status={}), immediate("Immediate")],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        ([claim(volumeName="disk", status={})], "pod has unbound immediate PersistentVolumeClaims"),
    ],
)
def test_an_unusable_claim_keeps_the_pod_off_every_node_in_the_schedulers_words(documents, text):
    (reason,) = blockers(pod(**CLAIMED), *documents)
    assert isinstance(reason, ClaimUnusable)
    assert (reason.claim, reason.text, reason.missing) == ("data", text, "not found" in text)


@pytest.mark.parametrize(
    "documents",
    [
        [claim(storageClassName="s", status={}), immediate("WaitForFirstConsumer")],
        [claim(storageClassName="unknown", status={})],
        [
            claim(
                volumeName="disk",
                status={},
                metadata={"annotations": {"pv.kubernetes.io/bind-completed": "y"}},
            )
        ],
        [
            claim(volumeName="disk", status={}),
            volume() | {"spec": {"claimRef": {"namespace": "default", "name": "data"}}},
        ],
    ],
    ids=["waits", "class unknown", "annotated", "claimRef"],
)
def test_what_is_bound_or_cannot_be_known_blocks_nothing(documents):
    assert blockers(pod(**CLAIMED), *documents) == ()


def test_scheduling_gates_block():
    assert blockers(pod(schedulingGates=[{"name": "a"}, {"name": "b"}])) == (Gated(("a", "b")),)


# ── judging once ──


def test_nodes_with_equal_taints_and_labels_share_their_reasons():
    taint = {"key": "sla", "value": "1", "effect": "NoSchedule"}
    world = World.of(
        [
            node(f"n{number}", taints=[{**taint, "timeAdded": f"2026-01-0{number}T00:00:00Z"}])
            for number in (1, 2)
        ]
    )
    asked = judge(pod(), world)
    first, second = (asked(world.nodes[name]).reasons[0] for name in ("n1", "n2"))
    assert first is second
