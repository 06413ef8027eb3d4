"""Extended tolerations on a stock cluster come out as they do natively: both under virtual time, side by side."""

from __future__ import annotations

import json

import pytest

from tests.stock.histories import History
from tests.stock.scenarios import SCENARIOS, Scenario
from tests.stock.virtual import StockCluster
from weir import errors
from weir.client.api import Unreachable
from weir.gates import ALL_FEATURES
from weir.lowering.grace import split_grace
from weir.lowering.names import ANNOTATED, GATE, GRACE, TOLERATIONS, labelled_hash, marked_hash
from weir.lowering.originals import raised
from weir.lowering.triples import Triple
from weir.lowering.webhooks import keys_shown
from weir.objects.kinds import by_kind
from weir.operator.known_triples import KnownTriples

LAST = 6.0
GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}
NEWER = {"key": "v", "operator": "SemverGt", "values": ["1.2.3"]}
SLA950, SLA960, SLA800 = (("sla", value, "NoExecute") for value in ("950", "960", "800"))


def played(cluster: StockCluster, scenario: Scenario) -> float | None:
    """Return after how many seconds the pod was evicted, None when it stayed."""
    gone: list[float] = []
    cluster.node("n")
    cluster.set_taints("n", *scenario.first)
    cluster.run_pod("p", *scenario.tolerations)
    assert cluster.where("p") == "n"
    began = cluster.now
    left = LAST
    for pause, taints in scenario.steps:
        for _ in range(round(pause * 10)):
            cluster.advance(0.1)
            left -= 0.1
            if cluster.where("p") is None and not gone:
                gone.append((cluster.now - began).total_seconds())
        cluster.set_taints("n", *taints)
    while left > 0 and not gone:
        cluster.advance(0.1)
        left -= 0.1
        if cluster.where("p") is None:
            gone.append((cluster.now - began).total_seconds())
    return gone[0] if gone else None


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_same_end_at_the_same_time_as_natively(scenario):
    with StockCluster() as stock:
        lowered = played(stock, scenario)
    with StockCluster(install=False, gates=ALL_FEATURES) as native:
        natively = played(native, scenario)
    assert (lowered is None) == (scenario.evicted is None)
    if lowered is not None:
        assert natively is not None and abs(lowered - natively) <= 0.1
        assert abs(lowered - scenario.evicted) <= 0.2
    else:
        assert natively is None


@pytest.fixture
def stock():
    with StockCluster() as cluster:
        yield cluster


def tolerations(cluster, pod):
    return cluster.get("Pod", pod)["spec"]["tolerations"]


def test_a_pod_waits_for_a_value_it_tolerates_and_is_released_for_it(stock):
    stock.node("n")
    stock.set_taints("n", SLA800)
    stock.run_pod("p", GT)
    assert stock.where("p") == "" and "schedulingGates" not in stock.get("Pod", "p")["spec"]
    stock.set_taints("n", SLA950)
    stock.advance(5)
    assert stock.where("p") == "n"


def test_semver_and_expressions(stock):
    stock.node("n")
    stock.set_taints("n", ("kernel", "6.1.0", "NoSchedule"))
    stock.run_pod("newer", {"key": "kernel", "operator": "SemverGt", "value": "6.0.0"})
    stock.run_pod("older", {"key": "kernel", "operator": "SemverLt", "value": "6.0.0"})
    stock.run_pod(
        "cel", {"operator": "CEL", "value": "taint.key == 'kernel' && semver(taint.value).major() >= 6"}
    )
    assert [stock.where(pod) for pod in ("newer", "older", "cel")] == ["n", "", "n"]


def test_a_new_value_changes_no_template_and_a_reapply_nothing_at_all(stock):
    stock.node("n")
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [GT]},
            },
        },
    }
    stock.apply(deployment)
    stock.advance(10)
    before = stock.get("Deployment", "d")
    for value in (SLA950, SLA960):
        stock.set_taints("n", value)
        stock.advance(10)
    stock.apply(deployment)
    stock.advance(10)
    after = stock.get("Deployment", "d")
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert len(after["spec"]["template"]["spec"]["tolerations"]) == 1
    assert after["status"]["readyReplicas"] == 2
    assert {pod["spec"]["nodeName"] for pod in stock.list("Pod", "default")} == {"n"}
    assert len(stock.list("ReplicaSet")) == 1


def test_a_bare_pod_can_be_applied_again(stock):
    stock.node("n")
    stock.set_taints("n", SLA950)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [GT]},
    }
    kind = by_kind("v1", "Pod")
    pod["metadata"]["namespace"] = "default"
    stock._do(stock.client.apply(kind, pod, field_manager="kubectl"))
    stock.advance(5)
    stock.set_taints("n", SLA960)
    stock.advance(5)
    before = tolerations(stock, "p")
    stock._do(stock.client.apply(kind, pod, field_manager="kubectl"))  # not forced: there is no conflict
    assert tolerations(stock, "p") == before and stock.where("p") == "n"
    assert {entry.get("value") for entry in before} >= {"950", "960"}


def annotated(kind, name, *entries, **spec):
    template = {
        "metadata": {"labels": {"app": name}, "annotations": {ANNOTATED: json.dumps(entries)}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_a_workload_with_an_annotation_is_left_alone_and_its_pods_do_as_it_says(stock, kind):
    stock.node("n")
    stock.node("other", "sla=800:NoExecute")
    stock.set_taints("n", SLA950)
    row = by_kind("apps/v1", kind)
    made = annotated(kind, "w", GT, {"expression": "taint.key == 'zone'"})
    stored = stock._do(stock.client.apply(row, made, field_manager="flux"))
    stock.advance(5)
    assert [pod["spec"]["nodeName"] for pod in stock.list("Pod", "default")] == ["n"], "800 is not tolerated"
    if kind == "Deployment":
        assert stored["spec"]["template"]["spec"].get("tolerations") is None
    owned = [str(each["fieldsV1"]) for each in stored["metadata"]["managedFields"]]
    assert not any("f:tolerations" in each or "f:nodeSelector" in each for each in owned)

    stock.set_taints("n", SLA960, ("zone", "eu", "NoExecute"))
    stock.advance(5)
    (pod,) = stock.list("Pod", "default")
    assert pod["spec"]["nodeName"] == "n" and "deletionTimestamp" not in pod["metadata"]
    again = stock._do(stock.client.apply(row, made, field_manager="flux"))
    assert again["spec"] == stored["spec"] and again["metadata"]["generation"] == 1
    stock.set_taints("n", ("sla", "800", "NoExecute"))
    stock.advance(5)
    assert not any(pod["spec"].get("nodeName") for pod in stock.list("Pod", "default"))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_a_client_s_apply_and_a_server_s_do_not_conflict(stock, kind):
    """R3's order: what an update wrote is lowered, so the apply that follows differs from it and is no conflict."""
    row = by_kind("apps/v1", kind)
    made = annotated(kind, "w")
    del made["spec"]["template"]["metadata"]["annotations"]
    made["spec"]["template"]["spec"]["tolerations"] = [GT]
    first = stock._do(stock.client.create(row, made, "default", field_manager="kubectl-client-side-apply"))
    written = {"spec": {"template": {"spec": {"tolerations": [GT]}}}}

    def as_client():
        return stock._do(
            stock.client.patch(row, "w", written, "default", field_manager="kubectl-client-side-apply")
        )

    def as_server():
        return stock._do(stock.client.apply(row, made, field_manager="kubectl"))

    for write in (as_client, as_server, as_client, as_server, as_server, as_client):
        after = write()
        assert after["spec"] == first["spec"] and after["metadata"]["generation"] == 1
    versions = {write()["metadata"]["resourceVersion"] for write in (as_server, as_client, as_server)}
    assert versions == {after["metadata"]["resourceVersion"]}, "none of them is a write"
    del made["spec"]["template"]["spec"]["tolerations"]
    assert "tolerations" not in as_server()["spec"]["template"]["spec"], "who applied it can take it out"


def test_a_dry_run_leaves_no_trace(stock):
    stock.node("n")
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [GT]},
    }
    shown = stock._do(stock.client.create(by_kind("v1", "Pod"), pod, "default", dry_run=True))
    assert shown["spec"]["schedulingGates"] == [{"name": GATE}]
    patch = {"spec": {"taints": [{"key": "sla", "value": "970", "effect": "NoExecute"}]}}
    stock._do(stock.client.patch(by_kind("v1", "Node"), "n", patch, dry_run=True))
    assert stock.get("Pod", "p") is None
    assert not any(triple.value == "970" for triple in stock.operators[0].known.known)


def test_daemonsets_follow_the_taints_and_nothing_rolls_out(stock):
    for name in ("a", "b"):
        stock.node(name)
    stock.set_taints("a", SLA950)
    stock.set_taints("b", SLA800)
    stock.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "d", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [GT]},
                },
            },
        }
    )
    stock.advance(10)

    def pods():
        found = [p for p in stock.list("Pod", "default") if not p["metadata"].get("deletionTimestamp")]
        return {p["spec"].get("nodeName", ""): p["metadata"]["uid"] for p in found}

    first = pods()
    assert set(first) == {"a"}
    for value in (SLA960, SLA950, SLA960):
        stock.set_taints("a", value)
        stock.advance(3)
    assert pods() == first, "no pod was touched"
    stock.set_taints("a", SLA800)
    stock.set_taints("b", SLA950)
    stock.advance(60)
    assert set(pods()) == {"b"}
    stock.set_taints("b", SLA950, ("maintenance", "", "NoSchedule"))
    stock.advance(10)
    kept = pods()
    assert set(kept) == {"b"}, "NoSchedule leaves a running pod alone"
    stock.delete("Pod", stock.list("Pod", "default")[0]["metadata"]["name"])
    stock.advance(90)
    assert not [p for p in stock.list("Pod", "default") if p["spec"].get("nodeName")], "but nothing new comes"
    assert stock.get("DaemonSet", "d")["metadata"]["generation"] == 1


def affinity(kind, requirement):
    term = {"matchExpressions": [requirement]}
    if kind == "required":
        inner = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    else:
        inner = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    return {"nodeAffinity": inner}


@pytest.mark.parametrize("kind", ["required", "preferred"])
def test_semver_affinity(stock, kind):
    stock.node("old", v="1.2.0")
    stock.node("new", v="1.3.0")
    stock.run_pod("p", affinity=affinity(kind, NEWER))
    assert stock.where("p") == "new"
    stock.patch("Node", "new", {"metadata": {"labels": {"v": "1.0.0"}}})
    assert not [key for key in stock.get("Node", "new")["metadata"]["labels"] if labelled_hash(key)]
    assert stock.where("p") == "new", "bound pods stay"
    stock.patch("Node", "old", {"metadata": {"labels": {"v": "2.0.0"}}})
    stock.run_pod("q", affinity=affinity(kind, NEWER))
    assert stock.where("q") == "old"


def test_a_volume_is_used_where_its_requirement_holds(stock):
    stock.node("old", v="1.2.0")
    stock.node("new", v="1.3.0")
    stock.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "v"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "manual",
                "local": {"path": "/d"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [NEWER]}]}},
            },
        }
    )
    stock.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "manual",
                "volumeName": "v",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )
    stock.advance(30)
    stock.run_pod("p", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}])
    assert stock.where("p") == "new"


def test_while_the_hook_is_down_only_what_is_extended_is_refused(stock):
    stock.node("n")
    stock.set_taints("n", SLA950)
    stock.run_pod("p", GT)
    stock.down = True
    stock.run_pod("plain", {"key": "sla", "operator": "Exists"})
    assert stock.where("plain") == "n"
    with pytest.raises(errors.ApiError, match="failed calling webhook"):
        stock.run_pod("q", GT)
    with pytest.raises(errors.ApiError, match="failed calling webhook"):
        stock.set_taints("n", SLA960)
    stock.patch("Pod", "p", {"metadata": {"labels": {"a": "b"}}})
    stock.patch("Node", "n", {"spec": {"unschedulable": True}})
    stock.advance(5)
    assert stock.where("p") == "n"
    stock.set_taints("n")
    stock.delete("Pod", "plain")
    stock.advance(40)
    assert stock.where("p") == "n" and stock.where("plain") is None


def in_use(stock):
    (hook,) = [
        each
        for each in stock.list("ValidatingWebhookConfiguration")[0]["webhooks"]
        if each["name"] == "nodes.lowered.weir.dev"
    ]
    return keys_shown(hook)


def test_while_nobody_answers_taints_pass_whose_keys_no_extended_pod_names(stock):
    stock.node("n")
    stock.node("m")
    assert in_use(stock) == set()
    stock.run_pod("p", GT, node="n")
    assert in_use(stock) == {"sla"}, "before p was released"
    stock.run_pod("q", {"operator": "CEL", "value": "taint.key == 'zone' && taint.value != ''"}, node="n")
    assert in_use(stock) == {"sla", "zone"}
    stock.down = True
    stock.set_taints("m", ("maintenance", "now", "NoExecute"), ("disk", "1", "NoSchedule"))
    for taint in (SLA960, ("zone", "eu", "NoExecute")):
        with pytest.raises(errors.ApiError, match="failed calling webhook"):
            stock.set_taints("n", taint)
    stock.down = False
    stock.delete("Pod", "q")
    stock.advance(60)
    assert in_use(stock) == {"sla"}
    stock.run_pod("r", {"operator": "CEL", "value": "taint.value == 'x'"}, node="n")
    assert in_use(stock) is None, "an expression that names no key"
    stock.set_taints("n", ("any", "x", "NoExecute"))
    stock.advance(5)
    assert (stock.where("r"), stock.where("p")) == ("n", None)


def test_bad_originals_are_refused_in_the_servers_words(stock):
    with pytest.raises(errors.ApiError, match=r'spec.tolerations\[0\].value: Invalid value: "0900"'):
        stock.run_pod("p", {**GT, "value": "0900"})


def test_a_pod_that_asks_again_with_other_seconds_keeps_its_marker(stock):
    stock.node("n")
    stock.set_taints("n", SLA950)
    stock.run_pod("p", {**GT, "tolerationSeconds": 1000})
    stock.patch(
        "Pod",
        "p",
        {"spec": {"tolerations": [{**GT, "tolerationSeconds": 2000}, *tolerations(stock, "p")[2:]]}},
    )
    marker, lowered = tolerations(stock, "p")[:2]
    assert marked_hash(marker["key"]) and lowered["tolerationSeconds"] == 2000
    assert "2000" in stock.get("Pod", "p")["metadata"]["annotations"][TOLERATIONS]


def test_two_replicas_answer_and_one_is_enough(capsys):
    with StockCluster(replicas=2) as stock:
        stock.node("n")
        stock.set_taints("n", SLA950)
        for pod in "abcd":
            stock.run_pod(pod, GT)
        assert {stock.where(pod) for pod in "abcd"} == {"n"}
        for value in (SLA960, SLA950, ("sla", "970", "NoExecute"), ("sla", "980", "NoExecute")):
            stock.set_taints("n", value)
            stock.advance(1)
        assert {stock.where(pod) for pod in "abcd"} == {"n"}
        leader = next(i for i, each in enumerate(stock.operators) if each.metrics.leader.value)
        stock.stop_operator(leader)
        stock.set_taints("n", ("sla", "990", "NoExecute"))
        stock.advance(40)
        stock.run_pod("e", GT)
        assert {stock.where(pod) for pod in "abcde"} == {"n"}


def test_a_killed_leader_makes_new_pods_wait_for_a_moment_only():
    with StockCluster(replicas=2) as stock:
        stock.node("n")
        stock.set_taints("n", SLA950)
        leader = next(i for i, each in enumerate(stock.operators) if each.metrics.leader.value)
        stock.kill_operator(leader)
        stock.set_taints("n", SLA960)
        stock.run_pod("p", GT)  # within five seconds; the Lease lasts fifteen
        assert stock.where("p") == "n" and not stock.operators[0].metrics.leader.value
        stock.advance(30)
        assert stock.operators[0].metrics.leader.value == 1


def test_a_leader_that_is_told_to_stop_hands_over():
    with StockCluster(replicas=2) as stock:
        leader = next(i for i, each in enumerate(stock.operators) if each.metrics.leader.value)
        stock.stop_operator(leader)
        stock.advance(2.5)
        assert stock.operators[0].metrics.leader.value == 1, "the Lease was given back"


def test_labels_that_nothing_asks_for_any_more_go(stock):
    stock.node("n", v="1.3.0")
    stock.run_pod("p", affinity=affinity("required", NEWER))

    def labels():
        return [key for key in stock.get("Node", "n")["metadata"]["labels"] if labelled_hash(key)]

    stock.advance(3600)
    (label,) = labels()
    stock.delete("Pod", "p")
    stock.advance(600)
    assert labels() == [label], "somebody may ask again"
    stock.advance(2400)
    assert labels() == []
    stock.run_pod("q", affinity=affinity("required", NEWER))
    assert stock.where("q") == "n" and labels() == [label]


def test_a_daemonset_that_is_edited_rolls_and_keeps_its_label(stock):
    for name in ("a", "b", "c"):
        stock.node(name)
        stock.set_taints(name, SLA950)
    daemonset = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "containers": [{"name": "c", "image": "i"}],
                    "tolerations": [{"key": "sla", "operator": "Exists"}],
                },
            },
        },
    }
    stock.apply(daemonset)
    stock.advance(10)
    labels = set()
    for tolerations in ([GT], [{**GT, "value": "800"}], [GT]):  # the first edit lowers it while its pods run
        missing = []
        stock.patch("DaemonSet", "d", {"spec": {"template": {"spec": {"tolerations": tolerations}}}})
        for _ in range(60):
            stock.advance(0.5)
            going = [pod for pod in stock.list("Pod", "default") if pod["metadata"].get("deletionTimestamp")]
            missing.append(len(going))
        assert max(missing) == 1, "one at a time, as maxUnavailable says"
        selector = stock.get("DaemonSet", "d")["spec"]["template"]["spec"]["nodeSelector"]
        labels |= {key for key in selector if labelled_hash(key)}
        pods = stock.list("Pod", "default")
        assert {pod["spec"].get("nodeName") for pod in pods} == {"a", "b", "c"}
    assert len(labels) == 1


TIMED_FIRST = [{**GT, "tolerationSeconds": 3}, {"key": "sla", "operator": "Exists"}]
EXPRESSION = [{"operator": "CEL", "value": "taint.key == 'sla'"}]
OUT_OF_SERVICE = ("node.kubernetes.io/out-of-service", "nodeshutdown", "NoExecute")


@pytest.mark.parametrize(
    ("entries", "taint", "stays"),
    [
        (TIMED_FIRST, SLA950, False),
        (TIMED_FIRST, SLA800, True),
        (list(reversed(TIMED_FIRST)), SLA950, True),
        (EXPRESSION, SLA800, True),
        (EXPRESSION, OUT_OF_SERVICE, False),
    ],
)
def test_a_pod_of_a_daemonset_stays_as_long_as_its_first_entry_says(stock, entries, taint, stays):
    stock.node("n")
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": 0,
            "tolerations": entries,
        },
    }
    stock.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "d", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
        }
    )
    stock.advance(5)
    (pod,) = stock.list("Pod", "default")
    stock.set_taints("n", taint)
    stock.advance(5)
    left = [each for each in stock.list("Pod", "default") if not each["metadata"].get("deletionTimestamp")]
    assert (pod["metadata"]["uid"] in {each["metadata"]["uid"] for each in left}) is stays


def test_what_was_there_before_is_taken_over(stock):
    stock.node("n")
    stock.set_taints("n", SLA950)
    stock.run_pod("p", {**GT, "effect": ""})
    stock.stop_operator(0)
    stock.delete("ValidatingWebhookConfiguration", "weir-nodes")
    stock.delete("MutatingWebhookConfiguration", "weir-lowering")
    stock.set_taints("n", ("sla", "970", "NoSchedule"))
    stock.advance(5)
    stock.start_operator("again")
    stock.advance(5)
    assert any(entry.get("value") == "970" for entry in tolerations(stock, "p"))
    assert stock.operators[0].metrics.repairs.child("entries").value == 0, "a taint that evicts nobody"


@pytest.mark.parametrize("seed", range(8))
def test_random_histories_look_the_same_as_natively(seed):
    history = History(seed, 8)  # 8 of those 500 that make test-stock lives through
    assert history.differences() == [], "\n".join(history.told)


def test_without_a_sign_of_the_controller_manager_the_write_is_put_off_and_nobody_leaves():
    with StockCluster(controllers=("*", "-endpointslice")) as stock:
        stock.node("n")
        stock.set_taints("n", SLA950)
        stock.run_pod("p", GT)
        patch = {"spec": {"taints": [{"key": "sla", "value": "960", "effect": "NoExecute"}]}}
        writing = stock._loop.create_task(stock.client.patch(by_kind("v1", "Node"), "n", patch))
        stock.advance(9)
        with pytest.raises(
            errors.TooManyRequests, match="not every pod is ready for sla=960:NoExecute on node n"
        ):
            writing.result()
        assert stock.where("p") == "n" and stock.get("Node", "n")["spec"]["taints"][0]["value"] == "950"
        assert stock.operators[0].metrics.barriers.child("timed_out").value == 1
        stock.advance(1)
        assert any(event["reason"] == "TaintHeldBack" for event in stock.list("Event"))


@pytest.fixture
def graced():
    with StockCluster(grace_seconds=10) as cluster:
        cluster.node("n")
        cluster.set_taints("n", SLA950)
        yield cluster


def grace_of(cluster, pod):
    return split_grace(tolerations(cluster, pod))[1]


def test_a_bound_pod_gets_grace_and_a_pending_one_none(graced):
    graced.run_pod("p", GT)
    graced.run_pod("waits", GT, node="nowhere")
    assert graced.where("p") == "n" and grace_of(graced, "p") == {"sla": 10}
    assert graced.where("waits") == "" and grace_of(graced, "waits") == {}
    assert raised(graced.get("Pod", "p"))["spec"]["tolerations"][0] == GT
    assert GRACE not in str(raised(graced.get("Pod", "p")))


@pytest.mark.parametrize("seconds", [10, 0])
def test_grace_saves_a_pod_whose_newest_entry_was_not_seen_in_time(seconds):
    with StockCluster(grace_seconds=seconds) as stock:
        stock.node("n")
        stock.set_taints("n", SLA950)
        stock.run_pod("p", GT)
        stock.delete("ValidatingWebhookConfiguration", "weir-nodes")  # the taint comes before the entry
        stock.set_taints("n", SLA960)
        stock.advance(30)
        assert stock.where("p") == ("n" if seconds else None)
        if seconds:
            assert stock.operators[0].metrics.repairs.child("entries").value == 1


def test_with_grace_a_pod_that_has_to_leave_leaves_at_once(graced):
    graced.run_pod("p", GT)
    graced.set_taints("n", SLA800)
    graced.advance(0.5)
    assert graced.where("p") is None
    assert graced.operators[0].metrics.grace.child("ended").value == 1


def test_without_the_barrier_grace_makes_a_pod_leave_late(graced):
    graced.run_pod("p", GT)
    graced.delete("ValidatingWebhookConfiguration", "weir-nodes")
    graced.set_taints("n", SLA800)
    graced.advance(9)
    assert graced.where("p") == "n"
    graced.advance(2)
    assert graced.where("p") is None


def test_a_timed_toleration_keeps_its_time_with_grace(graced):
    graced.set_taints("n")
    graced.run_pod("p", {**GT, "tolerationSeconds": 60})
    assert grace_of(graced, "p") == {"sla": 60}
    graced.delete("ValidatingWebhookConfiguration", "weir-nodes")
    graced.set_taints("n", SLA960)
    graced.advance(58)
    assert graced.where("p") == "n"
    graced.advance(3)
    assert graced.where("p") is None


def test_grace_that_was_ended_comes_back_when_the_taint_did_not_come(graced):
    graced.run_pod("p", GT)
    barrier = graced.operators[0].barrier
    graced._do(barrier.hold("n", (Triple(*SLA800),), 8.0))
    assert grace_of(graced, "p") == {"sla": 0}
    graced.advance(30)
    assert grace_of(graced, "p") == {"sla": 0}, "the write may still come"
    graced.advance(60)
    assert grace_of(graced, "p") == {"sla": 10} and graced.where("p") == "n"


def test_a_pod_with_grace_can_be_applied_again(graced):
    kind, pod = (
        by_kind("v1", "Pod"),
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [GT]},
        },
    )
    graced._do(graced.client.apply(kind, pod, field_manager="kubectl"))
    graced.advance(5)
    before = tolerations(graced, "p")
    graced._do(graced.client.apply(kind, pod, field_manager="kubectl"))
    assert tolerations(graced, "p") == before and grace_of(graced, "p") == {"sla": 10}


MANAGER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "kube-controller-manager-a",
        "namespace": "kube-system",
        "labels": {"component": "kube-controller-manager"},
    },
    "spec": {
        "containers": [{"name": "c", "image": "i", "command": ["--controllers=*,-taint-eviction-controller"]}]
    },
}


def apart(grace_seconds):
    cluster = StockCluster(install=False, grace_seconds=grace_seconds)
    cluster.create(MANAGER)
    cluster.install()
    cluster.node("n")
    cluster.set_taints("n", SLA950)
    cluster.run_pod("p", GT)
    return cluster


def test_where_taint_eviction_runs_apart_the_operator_says_so_and_gives_grace():
    with apart(None) as stock:
        operator = stock.operators[0]
        assert operator.metrics.apart.value == 1 and operator.entries.grace_seconds == 10
        event = next(each for each in stock.list("Event") if each["reason"] == "ControllersApart")
        assert "runs without taint-eviction-controller" in event["message"]
        assert grace_of(stock, "p") == {"sla": 10}
        stock.set_taints("n", SLA960)
        assert stock.where("p") == "n"


def test_where_taint_eviction_runs_apart_and_grace_is_off_the_barrier_refuses():
    with apart(0) as stock:
        with pytest.raises(errors.Forbidden, match="runs without taint-eviction-controller"):
            stock.set_taints("n", SLA960)
        assert stock.where("p") == "n"
        stock.delete("Pod", "p")
        stock.advance(40)
        stock.set_taints("n", SLA960)  # concerns nobody


def test_without_rights_the_write_is_put_off_with_the_reason(stock, monkeypatch):
    stock.node("n")
    stock.set_taints("n", SLA950)
    stock.run_pod("p", GT)

    async def forbidden(*given, **more):
        raise errors.Forbidden('pods "p" is forbidden: User "weir" cannot patch resource "pods"')

    monkeypatch.setattr(stock.operators[0].entries._client, "patch", forbidden)
    with pytest.raises(errors.ApiError, match='cannot patch resource "pods"'):
        stock.set_taints("n", SLA960)
    assert stock.where("p") == "n"


def test_a_hook_that_fails_is_counted_as_such(stock, monkeypatch):
    async def fails(path, request):
        raise ValueError("broken")

    operator = stock.operators[0]
    monkeypatch.setattr(operator._hooks, "_answer", fails)
    with pytest.raises(ValueError, match="broken"):
        stock._do(operator.review("/pods", {"request": {}}))
    assert 'weir_operator_hook_duration_seconds_count{path="/pods",result="failed"} 1' in (
        operator.metrics.registry.render().decode()
    )


def test_native_numeric_operators_are_left_alone():
    with StockCluster(gates={"TaintTolerationCEL": False}) as stock:
        stock.node("n")
        stock.set_taints("n", SLA950)
        stock.run_pod("p", GT)
        assert tolerations(stock, "p")[0] == GT and stock.where("p") == "n"
        assert stock.operators[0].entries.native_numeric


def test_an_operator_goes_on_when_the_server_is_away_while_it_takes_over(monkeypatch):
    read, asked = KnownTriples._read, []

    async def reached_but_for_a_moment(known):
        asked.append(known)
        if 2 <= len(asked) <= 4:  # the first is before it is ready
            raise Unreachable("connection refused")
        return await read(known)

    monkeypatch.setattr(KnownTriples, "_read", reached_but_for_a_moment)
    with StockCluster() as stock:
        stock.advance(30)
        assert len(asked) >= 5 and not any(task.done() for task in stock._tasks)
        stock.node("n")
        stock.set_taints("n", SLA950)
        stock.run_pod("p", GT)
        assert stock.where("p") == "n"
