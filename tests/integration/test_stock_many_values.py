"""Keys with many values on a stock cluster: pods say the key as a whole, and come out as with an entry for each."""

from __future__ import annotations

import pytest

from tests.stock.histories import History
from tests.stock.virtual import StockCluster
from weir.lowering import key_rules
from weir.lowering.names import KEY_ENTRIES, is_rule_label
from weir.objects.kinds import by_kind

NODE = by_kind("v1", "Node")
GT = {"key": "sla", "operator": "Gt", "value": "900"}
CEL = {"operator": "CEL", "value": "taint.key == 'sla' && int(taint.value) > 900"}
SPREAD = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}]


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr(key_rules, "MOST_VALUES", 4)


@pytest.fixture
def stock():
    """Give a cluster with ten values that GT tolerates, of either effect, and two that it does not."""
    with StockCluster() as cluster:
        for number in range(10):
            cluster.node(f"n{number}")
            effect = "NoExecute" if number % 2 else "NoSchedule"
            cluster.set_taints(f"n{number}", ("sla", str(901 + number), effect))
        for number, effect in ((10, "NoSchedule"), (11, "NoExecute")):
            cluster.node(f"n{number}")
            cluster.set_taints(f"n{number}", ("sla", "800", effect))
        yield cluster


def tolerations(stock, name):
    return stock.get("Pod", name)["spec"]["tolerations"]


def key_entries(stock, name):
    entries = tolerations(stock, name)
    places = [number for number, entry in enumerate(entries) if entry["key"] == KEY_ENTRIES]
    return [entry for entry in entries[places[0] + 1 :] if entry["key"] == "sla"] if places else []


def labelled(stock):
    return {
        node["metadata"]["name"]
        for node in stock.list("Node")
        if any(map(is_rule_label, node["metadata"]["labels"]))
    }


@pytest.mark.parametrize("toleration", [GT, CEL], ids=["Gt", "CEL"])
def test_a_pod_goes_where_it_tolerates_the_value_without_an_entry_for_it(stock, toleration):
    stock.run_pod("p0", toleration)
    assert labelled(stock) == {f"n{number}" for number in range(10)}
    assert key_entries(stock, "p0") == [
        {"key": "sla", "operator": "Exists", "effect": effect} for effect in ("NoSchedule", "NoExecute")
    ]
    assert [entry for entry in tolerations(stock, "p0") if entry.get("value")] == []
    for number in range(1, 12):
        own = {"matchLabels": {"app": "p"}}
        spread = [{**SPREAD[0], "labelSelector": own}]
        stock.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{number}", "namespace": "default", "labels": {"app": "p"}},
                "spec": {
                    "tolerations": [toleration],
                    "topologySpreadConstraints": spread,
                    "containers": [{"name": "c", "image": "i"}],
                },
            }
        )
        stock.advance(3)
    places = {stock.where(f"p{number}") for number in range(1, 12)}
    assert {f"n{number}" for number in range(10)} <= places | {""} and not places & {"n10", "n11"}


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_value_that_is_new_needs_no_patch_and_keeps_the_label(stock, effect):
    stock.run_pod("p", GT, node="n1")
    before = stock.get("Pod", "p")["metadata"]["resourceVersion"]
    stock.set_taints("n1", ("sla", "1500", effect))
    stock.advance(5)
    assert stock.where("p") == "n1" and stock.get("Pod", "p")["metadata"]["resourceVersion"] == before
    assert "n1" in labelled(stock)


def test_a_value_that_is_not_tolerated_evicts_or_only_keeps_away(stock):
    stock.run_pod("p", GT, node="n1")
    stock.set_taints("n1", ("sla", "905", "NoExecute"), ("sla", "10", "NoSchedule"))
    stock.advance(60)
    assert stock.where("p") == "n1" and "n1" not in labelled(stock)
    stock.run_pod("later", GT, node="n1")
    assert stock.where("later") == ""
    stock.set_taints("n1", ("sla", "11", "NoExecute"))
    stock.advance(2)
    assert stock.where("p") is None
    stock.set_taints("n1", ("sla", "2000", "NoExecute"))
    stock.advance(70)
    assert stock.where("later") == "n1"


def test_a_write_that_is_refused_after_the_barrier_evicts_nobody(stock):
    stock.run_pod("p", GT, node="n1")
    before = stock.get("Node", "n1")
    taints = before["spec"]["taints"]
    wrong = [*taints, {"key": "sla", "value": "1", "effect": "NoExecute"}]
    request = {"object": {**before, "spec": {**before["spec"], "taints": wrong}}, "oldObject": before}
    answer = stock._do(stock.operators[0].review("/node-barrier", {"request": {"uid": "u", **request}}))
    assert answer["response"]["allowed"]
    stock.advance(30)
    assert stock.where("p") == "n1", "it says the value that its node has"
    assert [entry["value"] for entry in tolerations(stock, "p") if entry.get("value")] == ["902"]
    assert key_entries(stock, "p")[1]["tolerationSeconds"] == 0
    stock.set_taints("n1", ("sla", "2000", "NoExecute"))
    stock.advance(30)
    assert stock.where("p") == "n1"


def test_a_pod_that_a_late_scheduler_put_on_the_wrong_node_leaves_it(stock):
    stock.run_pod("p", GT, node="n10", schedulingGates=[{"name": "mine"}])
    stock.set_taints("n10", ("sla", "800", "NoExecute"))
    stock.patch("Pod", "p", {"spec": {"schedulingGates": None}})
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "namespace": "default"}}
    stock._do(
        stock.client.call(
            "POST",
            "/api/v1/namespaces/default/pods/p/binding",
            body={**binding, "target": {"kind": "Node", "name": "n10"}},
        )
    )
    stock.advance(3)
    assert stock.where("p") is None


def test_a_timed_toleration_keeps_its_time(stock):
    timed = {**GT, "effect": "NoExecute", "tolerationSeconds": 20}
    stock.run_pod("p", timed, node="n1")
    assert key_entries(stock, "p") == [
        {"key": "sla", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}
    ]
    stock.advance(5)
    stock.set_taints("n1", ("sla", "5000", "NoExecute"))
    stock.advance(5)
    assert stock.where("p") == "n1"
    stock.advance(10)
    assert stock.where("p") is None, "a second value does not begin the time anew"


def test_a_pod_can_be_applied_again_and_a_copy_is_judged_by_its_own_tolerations(stock):
    stock.run_pod("p", GT, node="n1")
    stored = stock.get("Pod", "p")
    again = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
    stock.patch("Pod", "p", {**again, "spec": {"tolerations": [GT]}})
    after = stock.get("Pod", "p")
    assert after["spec"]["tolerations"] == stored["spec"]["tolerations"]
    assert after["spec"]["nodeSelector"] == stored["spec"]["nodeSelector"]
    copied = {key: value for key, value in stored["spec"].items() if key not in ("nodeName",)}
    metadata = {
        "name": "copy",
        "namespace": "default",
        "annotations": dict(stored["metadata"]["annotations"]),
    }
    metadata["annotations"][KEY_ENTRIES] = key_rules.write_rule(["sla"], [{**GT, "value": "0"}])
    rule = key_rules.read_rule(metadata["annotations"][KEY_ENTRIES])
    selector = {rule.label: "true"}
    stock.create({**again, "metadata": metadata, "spec": {**copied, "nodeSelector": selector}})
    stock.advance(3)
    assert rule.label not in stock.get("Pod", "copy")["spec"]["nodeSelector"]
    assert stock.where("copy") in {f"n{number}" for number in range(10)}


def test_a_running_pod_with_a_full_list_takes_new_values_by_key(stock, monkeypatch):
    monkeypatch.setattr(key_rules, "MOST_VALUES", 1_000)
    stock.run_pod("p", GT, node="n1")
    monkeypatch.setattr("weir.lowering.tolerations.MOST_ENTRIES", len(tolerations(stock, "p")))
    stock.set_taints("n1", ("sla", "7000", "NoExecute"))
    stock.advance(5)
    assert stock.where("p") == "n1" and key_entries(stock, "p")
    stock.set_taints("n1", ("sla", "7", "NoExecute"))
    stock.advance(2)
    assert stock.where("p") is None


@pytest.mark.parametrize("seed", range(8))
def test_random_histories_look_the_same_as_natively(seed, monkeypatch):
    monkeypatch.setattr(key_rules, "MOST_VALUES", 0)
    monkeypatch.setattr(key_rules, "FEWEST_VALUES", 1)
    history = History(seed, 8)
    assert history.differences() == [], "\n".join(history.told)
