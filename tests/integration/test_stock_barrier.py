"""What a node write waits for on a stock cluster with many pending pods, and what it goes ahead of."""

from __future__ import annotations

import asyncio

import pytest

from tests.stock.virtual import StockCluster
from weir import errors
from weir.client.cache import ObjectKey
from weir.lowering.names import KNOWN_TRIPLES, NAMESPACE, OPERATOR, SENTINEL
from weir.objects.kinds import by_kind
from weir.operator import entries
from weir.operator.barrier import COURTESY_SECONDS
from weir.operator.controller import OTHERS, WORKERS
from weir.operator.pending import BESIDE
from weir.operator.views import version_of

NODE, POD = by_kind("v1", "Node"), by_kind("v1", "Pod")
GT = {"key": "sla", "operator": "Gt", "value": "900"}
MANY = 12


@pytest.fixture
def stock():
    """Give a cluster with a node that many pods wait for: none of them tolerates what it has."""
    with StockCluster() as cluster:
        for number in range(MANY):
            cluster.node(f"n{number}")
            cluster.set_taints(f"n{number}", ("sla", "1", "NoSchedule"))
        for number in range(MANY):
            cluster.run_pod(f"p{number}", GT)
        assert {cluster.where(f"p{number}") for number in range(MANY)} == {""}
        yield cluster


def slow(stock, monkeypatch, seconds):
    """Make the server take so long for each patch of a pod; return the names of those patched."""
    entries, seen = stock.operators[0].entries, []
    patch = entries._client.patch

    async def later(kind, name, *given, **more):
        if kind == POD and not more.get("subresource"):
            seen.append(name)
            await stock.clock.sleep(seconds)
        return await patch(kind, name, *given, **more)

    monkeypatch.setattr(entries._client, "patch", later)
    return seen


def write(stock, *taints):
    """Begin to give each node, by number, its taint; return the writes."""
    return [
        stock._loop.create_task(stock.client.patch(NODE, f"n{number}", {"spec": {"taints": [taint]}}))
        for number, taint in enumerate(taints)
    ]


def taint(value, effect):
    return {"key": "sla", "value": value, "effect": effect}


def test_a_taint_that_evicts_nobody_goes_ahead_of_pods_that_only_wait(stock, monkeypatch):
    slow(stock, monkeypatch, 20.0)
    (writing,) = write(stock, taint("950", "NoSchedule"))
    stock.advance(COURTESY_SECONDS / 2)
    assert not writing.done()
    stock.advance(COURTESY_SECONDS)
    assert writing.result()["spec"]["taints"][0]["value"] == "950"
    assert stock.operators[0].metrics.barriers_ahead.child().value == 1
    stock.advance(60)  # and none is forgotten
    assert {stock.where(f"p{number}") for number in range(MANY)} == {"n0"}


def test_one_that_evicts_waits_for_every_pod_that_may_be_bound_there_meanwhile(stock, monkeypatch):
    slow(stock, monkeypatch, 20.0)
    (writing,) = write(stock, taint("950", "NoExecute"))
    stock.advance(9)
    with pytest.raises(errors.TooManyRequests, match="not every pod is ready"):
        writing.result()
    stock.advance(15)
    stock.set_taints("n0", ("sla", "950", "NoExecute"))
    stock.advance(10)
    assert {stock.where(f"p{number}") for number in range(MANY)} == {"n0"}


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_barriers_that_come_together_share_the_patches_of_pending_pods(stock, monkeypatch, effect):
    seen = slow(stock, monkeypatch, 0.05)
    writes = write(stock, *(taint(str(1_000 + number), effect) for number in range(MANY)))
    stock.advance(5)
    assert all(writing.result() for writing in writes)
    assert MANY <= len(seen) <= 3 * MANY, "each write patches each pod"
    values = {entry.get("value") for entry in stock.get("Pod", "p0")["spec"]["tolerations"]}
    assert {str(1_000 + number) for number in range(MANY)} <= values


def test_a_pod_that_fails_holds_back_who_needs_it_and_nobody_else(stock, monkeypatch):
    client = stock.operators[0].entries._client
    patch = client.patch

    async def forbidden(kind, *given, **more):
        if kind == POD and not more.get("subresource"):
            raise errors.Forbidden("no")
        return await patch(kind, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(client, "patch", forbidden)
        evicts, waits = write(stock, taint("950", "NoExecute"), taint("960", "NoSchedule"))
        stock.advance(1)
        with pytest.raises(errors.TooManyRequests):
            evicts.result()
        assert waits.result()
    stock.advance(30)
    assert {stock.where(f"p{number}") for number in range(MANY)} == {"n1"}


def test_a_pod_of_a_daemonset_for_another_node_is_not_waited_for(stock):
    pods = stock.operators[0].barrier._pending
    field = {"key": "metadata.name", "operator": "In", "values": ["n3"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "containers": [{"name": "c", "image": "i"}],
                    "tolerations": [{"operator": "CEL", "value": "taint.value == '950'"}],
                },
            },
        },
    }
    template = stock.create(daemon)["spec"]["template"]
    spec = {
        **template["spec"],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "schedulingGates": [{"name": "example.com/later"}],
    }
    metadata = {**template["metadata"], "name": "d-n3", "namespace": "default", "labels": {}}
    stock.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    stock.advance(2)

    def concerned(node):
        triples = stock.operators[0].known.known[-1]._replace(value="950", effect="NoExecute")
        found = stock._do(pods.lacking((triples,), node))
        return {pod.metadata.name for pod in found if pod.label}

    assert concerned("n3") == {"d-n3"} and concerned("n4") == set()


def test_a_write_that_evicts_does_not_queue_behind_those_that_evict_nobody(stock, monkeypatch):
    """All pods are in the queue for NoSchedule; the one pod that NoExecute concerns is served before the rest."""
    stock.run_pod("last", {"key": "zone", "operator": "Gt", "value": "1"}, node="n0")
    seen = slow(stock, monkeypatch, 2.0)
    write(stock, taint("950", "NoSchedule"))
    stock.advance(1)
    assert len(seen) == BESIDE, "what nobody waits for leaves room on the server"
    patch = {"spec": {"taints": [{"key": "zone", "value": "2", "effect": "NoExecute"}]}}
    evicts = stock._loop.create_task(stock.client.patch(NODE, "n1", patch))
    stock.advance(4)
    assert evicts.done() and "last" in seen[: 2 * BESIDE + 1]
    stock.advance(30)
    assert {f"p{number}" for number in range(MANY)} <= set(seen), "and the rest follows"


def test_what_another_replica_leaves_undone_is_found_by_the_leader(monkeypatch, caplog):
    """A replica that admits a write and then patches nobody: the leader learns of the taint by the node."""
    with StockCluster(replicas=2) as stock:
        stock.node("n")
        stock.set_taints("n", ("sla", "1", "NoSchedule"))
        stock.run_pod("p", GT)
        helper = next(each for each in stock.operators if not each.metrics.leader.value)

        async def never(*given, **more):
            await stock.clock.sleep(1_000)

        monkeypatch.setattr(helper.entries, "add", never)
        stock._turn = stock.operators.index(helper)  # the first of a write's two calls is the other's
        patch = {"spec": {"taints": [taint("950", "NoSchedule")]}}
        writing = stock._loop.create_task(stock.client.patch(NODE, "n", patch))
        stock.advance(5)
        assert writing.done() and helper.metrics.barriers_ahead.child().value == 1
        assert stock.where("p") == "n"
        assert "past the hook" not in caplog.text


def test_a_taint_that_evicts_nobody_is_no_repair(stock, caplog):
    stock.set_taints("n0", ("sla", "950", "NoSchedule"))
    stock.advance(5)
    assert {stock.where(f"p{number}") for number in range(MANY)} == {"n0"}
    stock.set_taints("n0", ("sla", "960", "NoSchedule"))
    stock.advance(5)
    values = {entry.get("value") for entry in stock.get("Pod", "p0")["spec"]["tolerations"]}
    assert "960" in values and "lacked entries" not in caplog.text
    assert stock.operators[0].metrics.repairs.child("entries").value == 0


def test_pods_that_run_on_the_node_are_patched_while_the_table_is_written(monkeypatch):
    with StockCluster() as stock:
        stock.node("n0", "sla=950:NoExecute")
        stock.run_pod("runs", GT)
        assert stock.where("runs") == "n0"
        operator, order = stock.operators[0], []
        add, patch = operator.known.add, operator.entries._client.patch

        async def slow_table(triples):
            await stock.clock.sleep(2)
            await add(triples)
            order.append("table")

        async def counted(kind, name, *given, **more):
            if kind == POD and not more.get("subresource"):
                order.append(name)
            return await patch(kind, name, *given, **more)

        monkeypatch.setattr(operator.known, "add", slow_table)
        monkeypatch.setattr(operator.entries._client, "patch", counted)
        (writing,) = write(stock, taint("970", "NoExecute"))
        stock.advance(5)
        assert writing.result() and stock.where("runs") == "n0"
        assert order == ["runs", "table"], "and it is patched once"


def test_pods_of_one_workload_are_not_an_event_each(monkeypatch):
    monkeypatch.setattr(entries, "MANY_ENTRIES", 3)
    with StockCluster() as stock:
        stock.node("n0", "sla=950:NoExecute")
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [GT]},
        }
        spec = {"replicas": 40, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        stock.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": spec})
        stock.advance(30)
        assert sum(stock.where(pod["metadata"]["name"]) == "n0" for pod in stock.list("Pod")) == 40
        stock.set_taints("n0", ("sla", "970", "NoExecute"))
        stock.advance(30)
        found = [each for each in stock.list("Event") if each["source"].get("component") == OPERATOR]
        about = {(each["reason"], each["involvedObject"]["kind"]) for each in found}
        assert about == {("ManyTolerations", "ReplicaSet"), ("Lowered", "Node")}
        assert sum(each["count"] for each in found) < 40 and len(found) < 5


def running(stock, number=3):
    """Let pods run on a node of their own; return their names."""
    stock.node("home")
    stock.set_taints("home", ("sla", "950", "NoExecute"))
    names = [f"r{each}" for each in range(number)]
    for name in names:
        stock.run_pod(name, GT, node="home")
    assert {stock.where(name) for name in names} == {"home"}
    return names


def requests_of(stock, monkeypatch):
    """Return the writes that the operator makes from now on, as kind and name, but for events."""
    made = []
    client = stock.operators[0]._client
    exchange = client.exchange

    async def counted(method, path, *given, **more):
        if method not in ("GET", "WATCH") and not path.partition("?")[0].endswith("events"):
            made.append(path.partition("?")[0].rpartition("/v1/")[2])
        return await exchange(method, path, *given, **more)

    monkeypatch.setattr(client, "exchange", counted)
    return made


def test_a_node_write_costs_a_patch_for_each_pod_the_table_and_one_change_of_the_sentinel(monkeypatch):
    """Everything the writer waits for: each of these takes an API server milliseconds."""
    with StockCluster() as stock:
        names = running(stock)
        made = requests_of(stock, monkeypatch)
        stock.set_taints("home", ("sla", "960", "NoExecute"))
        pods = [f"namespaces/default/pods/{name}" for name in names]
        own = [f"namespaces/{NAMESPACE}/configmaps/{KNOWN_TRIPLES}"]
        own.append(f"namespaces/{NAMESPACE}/pods/{SENTINEL}/status")
        assert sorted(made) == sorted(pods + own)
        assert made[-1] == own[-1], "the sentinel proves what was written before it"


def test_a_pod_that_is_bound_after_the_sentinel_was_changed_needs_another_sign(monkeypatch):
    with StockCluster() as stock:
        running(stock)
        operator = stock.operators[0]
        catch_up = operator.sentinel.catch_up

        async def and_then_a_label():
            mark = await catch_up()
            patch = {"metadata": {"labels": {"new": "version"}}}
            written = await stock.client.patch(POD, "r0", patch, "default")
            while operator._pods.cache.get(ObjectKey("default", "r0")).version < version_of(
                written["metadata"]["resourceVersion"]
            ):
                await asyncio.sleep(0)
            return mark

        confirms = operator.metrics.confirms.child()
        before = confirms.value
        stock.set_taints("home", ("sla", "960", "NoExecute"))
        assert confirms.value == before + 1
        monkeypatch.setattr(operator.sentinel, "catch_up", and_then_a_label)
        stock.set_taints("home", ("sla", "970", "NoExecute"))
        assert confirms.value == before + 3


def test_work_on_nodes_does_not_delay_the_release_of_a_pod(monkeypatch):
    """A rule that is new, and every start, is a look at each node; each may be a write."""
    with StockCluster() as stock:
        nodes = OTHERS + WORKERS + 1
        for number in range(nodes):
            stock.node(f"n{number}", v="1.3.0")
        client = stock.operators[0]._client
        patch, slow = client.patch, []

        async def later(kind, name, *given, **more):
            if kind == NODE:
                slow.append(name)
                await stock.clock.sleep(60.0)
            return await patch(kind, name, *given, **more)

        monkeypatch.setattr(client, "patch", later)
        newer = {"key": "v", "operator": "SemverGt", "values": ["1.2.3"]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [newer]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        stock.run_pod("waits-for-labels", affinity=affinity)
        assert len(slow) >= OTHERS and stock.where("waits-for-labels") == ""
        stock.run_pod("p", GT)
        assert stock.where("p")
