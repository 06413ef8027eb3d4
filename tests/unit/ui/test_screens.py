"""Every answer of the API: its schema is that of the command, and a wrong question is one line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
from click.testing import CliRunner

from tests.unit.ui.conftest import EXAMPLES
from weir.cli.main import weir

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
TAINT = {
    "change": "taint",
    "nodes": {"selector": "pool=spot"},
    "key": "failure-probability",
    "value": "15",
    "effect": "NoExecute",
}
PLAN = {
    "change": "taint",
    "nodes": {"selector": "pool=spot"},
    "key": "sla",
    "value": "650",
    "effect": "NoExecute",
    "goals": {"maxUnavailable": "2"},
}


def schema(name):
    return jsonschema_rs.validator_for(json.loads((REFERENCE / f"{name}.schema.json").read_text()))


def command(*words):
    return json.loads(CliRunner().invoke(weir, [*words, "-o", "json"]).stdout)


def test_explain_is_the_document_of_the_command(fleet_screens):
    code, found = fleet_screens.get("explain", {"workload": "Deployment/shop/web"})
    fleet = str(EXAMPLES / "gpu-fleet.yaml")
    assert code == 200
    schema("explain").validate(found["explain"])
    assert found["explain"] == command("explain", "deployment/web", "-n", "shop", "-c", fleet)


def test_the_forecast_is_the_document_of_the_command(screens_of):
    shop = EXAMPLES / "shop-cluster.yaml"
    code, found = screens_of(shop).post("what-if", TAINT)
    assert code == 200
    schema("what-if").validate(found["whatIf"])
    said = command("what-if", "taint", "-l", "pool=spot", "failure-probability=15:NoExecute", "-c", str(shop))
    assert found["whatIf"] == said
    assert found["commands"][0] == "kubectl taint nodes -l pool=spot failure-probability=15:NoExecute"


def test_the_plan_is_the_document_of_the_command(screens_of):
    pool = EXAMPLES / "spot-pool.yaml"
    code, found = screens_of(pool).post("plan", PLAN)
    assert code == 200
    said = command(
        "plan", "taint", "-l", "pool=spot", "sla=650:NoExecute", "--max-unavailable", "2", "-c", str(pool)
    )
    shown = json.loads(json.dumps(found["plan"]))
    assert {**shown, "made": None} == {**said, "made": None}
    assert found["command"] == "weir plan taint -l pool=spot sla=650:NoExecute --max-unavailable 2"
    assert found["items"] == [["spot-3", "spot-1"], ["spot-2"]] and found["broken"] == [[], []]


def test_waves_that_are_given_are_forecast_and_what_they_break_is_named(screens_of):
    screens = screens_of(EXAMPLES / "spot-pool.yaml")
    _, found = screens.post("plan", {**PLAN, "waves": [["spot-2"], ["spot-1", "spot-3"]]})
    assert found["broken"] == [[], []] and found["plan"]["totals"]["movedPods"] == 4
    _, found = screens.post("plan", {**PLAN, "waves": [["spot-1", "spot-2", "spot-3"]]})
    (broken,) = found["broken"]
    assert "shop/web's budget wants 2 healthy pods, 1 would be" in broken
    assert found["plan"]["waves"][0]["notes"] == tuple(f"breaks a goal: {each}" for each in broken)
    assert "searched" not in found["plan"], "nothing was searched for"
    _, found = screens.post(
        "plan",
        {
            **PLAN,
            "goals": {"within": "1s", "maxUnavailable": "2"},
            "waves": [["spot-2"], ["spot-1"], ["spot-3"]],
        },
    )
    assert found["broken"][-1] == ["3 waves take 3 s"]


@pytest.mark.parametrize(
    "more, words",
    [
        ({"change": "cordon"}, "a plan is made of one of taint, untaint, drain, apply"),
        ({"goals": {"within": "soon"}}, "--within: 'soon': write a time like 90s, 10m or 2h"),
        ({"goals": {"within": "0s"}}, "--within: '0s': write a time above 0"),
        ({"goals": {"maxUnavailable": 2}}, "goals.maxUnavailable: expected a text"),
        ({"goals": []}, None),
        ({"goals": "all"}, "goals: expected an object"),
        ({"nodes": {"names": ["nowhere"]}}, "no node nowhere in the cluster"),
        ({"waves": "all"}, "waves: expected a list of lists of names"),
        ({"waves": [["spot-1"]]}, "waves: expected each of spot-1, spot-2, spot-3"),
        ({"waves": [["spot-1", "spot-2", "spot-3"], []]}, "no empty wave"),
    ],
)
def test_a_plan_that_cannot_be_asked_for_is_one_line(screens_of, more, words):
    code, found = screens_of(EXAMPLES / "spot-pool.yaml").post("plan", {**PLAN, **more})
    assert code == (200 if words is None else 422)
    assert words is None or words in found["error"]


def test_the_rules_of_a_plan_are_one_for_each_pool_and_keep_their_order(fleet_screens):
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "recall"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com"},
            "taint": {"key": "recall", "effect": "None"},
        },
    }
    asked = {"change": "apply", "rule": rule}
    code, found = fleet_screens.post("plan", asked)
    assert code == 200 and found["ordered"]
    assert found["command"] == "weir plan device-taint driver=gpu.example.com recall:None"
    (items,) = found["items"]
    assert len(items) == 8 and found["plan"]["waves"][0]["changes"] == ("apply",)
    code, found = fleet_screens.post("plan", {**asked, "waves": [items[::-1]]})
    assert code == 422 and "keep the order" in found["error"]
    code, found = fleet_screens.post("plan", {**asked, "waves": [items[:3], items[3:]]})
    assert [len(each) for each in found["items"]] == [3, 5]


def test_the_devices_are_the_document_of_the_command(fleet_screens):
    code, found = fleet_screens.get("fleet", {})
    assert code == 200
    schema("devices").validate(found["devices"])
    assert found["devices"] == command("device", "list", "-c", str(EXAMPLES / "gpu-fleet.yaml"))
    assert found["rules"][0]["name"] == "recall-h100-3"


def test_a_change_that_is_tried_recolours_the_matrix(fleet_screens):
    asked = {"workload": "Deployment/shop/inference", "node": "a100-3"}
    _, detail = fleet_screens.get("explain", asked)
    assert detail["changes"][0]["edits"] == [
        "also tolerate sla = 940 (NoExecute), for 30 s as the others have it"
    ]
    assert any(line.startswith("+") and "940" in line for line in detail["changes"][0]["diff"])
    code, tried = fleet_screens.post("try", {"tries": [{**asked, "choice": 0}]})
    before, after = (
        {each["id"]: each for each in document["workloads"]} for document in (fleet_screens.matrix(), tried)
    )
    assert code == 200 and tried["hypothesis"]
    groups = [group["nodes"] for group in tried["groups"]]
    at = groups.index(["a100-3"])
    verdicts = tried["verdicts"]
    assert verdicts[before["Deployment/shop/inference"]["cells"][at][0]] == "change"
    assert verdicts[after["Deployment/shop/inference"]["cells"][at][0]] == "fits"
    assert after["Deployment/shop/inference"]["tried"] and not after["Deployment/shop/web"]["tried"]
    assert after["Deployment/shop/web"]["cells"] == before["Deployment/shop/web"]["cells"]


def test_a_change_of_a_node_recolours_every_workload(screens_of):
    screens = screens_of(EXAMPLES / "rated-cluster.yaml")
    _, detail = screens.get("explain", {"workload": "Deployment/shop/web", "node": "lab-1"})
    choice = next(each["choice"] for each in detail["changes"] if "remove the taint" in each["edits"][0])
    tries = [{"workload": "Deployment/shop/web", "node": "lab-1", "choice": choice}]
    code, tried = screens.post("try", {"tries": tries})
    assert code == 200
    at = [group["nodes"] for group in tried["groups"]].index(["lab-1"])
    assert {tried["verdicts"][row["cells"][at][0]] for row in tried["workloads"]} == {"fits"}


def test_every_threshold_is_a_stop_of_the_slider_and_so_is_the_value_beyond_it(fleet_screens):
    question = {**TAINT, "nodes": {"all": True}, "key": "sla", "value": "975"}
    code, found = fleet_screens.post("ticks", question)
    values = [each["value"] for each in found["ticks"]]
    assert code == 200 and values == sorted(values, key=int)
    assert {"950", "951", "970", "971", "930", "931", "890", "891", "975"} <= set(values)
    at = {each["value"]: each for each in found["ticks"]}
    assert at["971"]["stay"] > at["970"]["stay"] and at["950"]["thresholds"]
    for each in found["ticks"]:
        assert each["stay"] + each["leave"] + each["later"] == found["pods"]


def test_the_counts_of_a_stop_are_those_of_the_forecast(screens_of):
    screens = screens_of(EXAMPLES / "shop-cluster.yaml")
    _, stops = screens.post("ticks", TAINT)
    for tick in stops["ticks"]:
        _, found = screens.post("what-if", {**TAINT, "value": tick["value"]})
        leaving = found["whatIf"]["leaving"]
        assert len(leaving) == tick["leave"] + tick["later"], tick["value"]
        assert sum(one["afterSeconds"] == 0 for one in leaving) == tick["leave"], tick["value"]


def test_devices_that_are_chosen_are_named_by_as_few_rules_as_there_can_be(fleet_screens):
    pool = [f"gpu.example.com/h100-0/gpu-{each}" for each in range(8)]
    body = {"devices": [*pool, "gpu.example.com/a100-0/gpu-3"], "taint": "weir.dev/drain:NoExecute"}
    code, found = fleet_screens.post("rules", body)
    assert code == 200
    selectors = [rule["rule"]["spec"]["deviceSelector"] for rule in found["rules"]]
    one = {"driver": "gpu.example.com", "pool": "a100-0", "device": "gpu-3"}
    assert selectors == [{"driver": "gpu.example.com", "pool": "h100-0"}, one]
    assert [each["pod"] for each in found["rules"][0]["pods"]] == ["research/pretrain-0"]
    assert "effect: NoExecute" in found["rules"][0]["yaml"]


def test_a_pod_has_a_page(fleet_screens):
    code, found = fleet_screens.get("pod", {"name": "shop/vector-db-0"})
    assert code == 200 and found["phase"] == "Pending" and not found["explain"]["fits"]
    assert fleet_screens.get("pod", {"name": "shop/none"})[0] == 404


@pytest.mark.parametrize(
    "name, body",
    [
        ("what-if", {}),
        ("what-if", {"change": "rm -rf"}),
        ("what-if", {**TAINT, "nodes": {}}),
        ("what-if", {**TAINT, "nodes": {"names": ["none"]}}),
        ("what-if", {**TAINT, "nodes": {"selector": "!!"}}),
        ("what-if", {**TAINT, "key": "a b"}),
        ("what-if", {**TAINT, "effect": "Sometimes"}),
        ("what-if", {**TAINT, "until": -1}),
        ("what-if", {**TAINT, "until": True}),
        ("what-if", {"change": "gates", "gates": "Nope=false"}),
        ("what-if", {"change": "apply", "rule": {"kind": "Pod"}}),
        ("try", {"tries": []}),
        ("try", {"tries": [{"workload": 3}]}),
        ("try", {"tries": [{"workload": "a", "choice": True}]}),
        ("rules", {"devices": ["none"], "taint": "a:NoExecute"}),
        ("rules", {"devices": ["gpu.example.com/a100-0/gpu-3"], "taint": "what"}),
        ("rule", {"selector": "", "taint": "a:None"}),
        ("rule", {"selector": {}, "taint": "a:None"}),
        ("apply", {"question": TAINT, "confirm": "yes"}),
        ("unrule", {"name": "recall-h100-3"}),
    ],
)
def test_a_question_that_cannot_be_asked_is_answered_with_one_line(fleet_screens, name, body):
    code, found = fleet_screens.post(name, body)
    assert code == 422 and "\n" not in found["error"] and found["error"]


def test_what_is_not_there_is_not_found(fleet_screens):
    assert fleet_screens.get("explain", {"workload": "Deployment/shop/none"})[0] == 404
    assert fleet_screens.get("nothing", {})[0] == 404 and fleet_screens.post("nothing", {})[0] == 404
    tries = [{"workload": "Deployment/shop/web", "choice": 99}]
    assert fleet_screens.post("try", {"tries": tries})[0] == 404
    assert fleet_screens.post("try", [])[0] == 400


def test_a_dump_without_nodes_has_rows_and_says_so(dump):
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}]},
    }
    found = dump(pod).matrix()
    assert found["groups"] == [] and found["workloads"][0]["text"] == "the cluster has no nodes"
