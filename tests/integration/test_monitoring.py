"""Claims about deploy/: every query of the dashboard and of the alerts names a metric that is there, and moves."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.promql import History, Vector, scrape
from weir.simulation.cluster import Cluster

DEPLOY = Path(__file__).parents[2] / "deploy"
WORDS = {"sum", "rate", "increase", "histogram_quantile", "max", "by", "and", "or", "unless", "on", "le"}


def queries():
    """Yield every query of the files, with where it stands."""
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield f"alert {rule['alert']}", rule["expr"]
    board = json.loads((DEPLOY / "grafana" / "extended-tolerations.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"]
    page = (DEPLOY.parent / "docs" / "howto" / "watch-a-cluster.md").read_text()
    for question, cell in re.findall(r"^\| ([^|]*\?) \| (.*) \|$", page, re.M):
        for number, query in enumerate(re.findall(r"`([^`]*)`", cell)):
            yield f"page {question} {number}", query


def selectors(query):
    """Yield the metric names of a query with the labels each is selected by, and the labels it is summed by."""
    for name, labels in re.findall(r"\b([a-z_]+[a-z])(?:\{([^}]*)\})?(?=\[|\)|\s|$)", query):
        if name not in WORDS and "_" in name:
            yield name, re.findall(r'(\w+)(=~|=)"([^"]*)"', labels)


POD = {"containers": [{"name": "c", "image": "i"}]}


def pod(name, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**POD, **spec}}


def deployment(name, **spec):
    template = {"metadata": {"labels": {"app": name}}, "spec": {**POD, **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }


@pytest.fixture(scope="module")
def pages():
    """The metrics of a cluster at its beginning, after everything the queries ask about, and after a gate went off."""
    with Cluster(nodes=2) as cluster:
        cluster.add_node("spot", taints=["sla=800:NoExecute"])
        cluster.add_node("odd", taints=["sla=high:NoSchedule"])
        cluster.add_node("gpu", devices=1)
        before = scrape(cluster.metrics())
        reliable = {"key": "sla", "operator": "Gt", "value": "700"}
        cluster.apply(pod("numeric", tolerations=[reliable], nodeSelector={"kubernetes.io/hostname": "spot"}))
        cel = {"expression": "int(taint.value) > 700"}
        cluster.apply(pod("cel", tolerations=[cel], nodeSelector={"kubernetes.io/hostname": "spot"}))
        cluster.apply(pod("cel-2", tolerations=[{**cel, "tolerationSeconds": 900}]))
        cluster.apply(pod("waits", nodeSelector={"kubernetes.io/hostname": "odd"}))
        cluster.apply(pod("rejected", nodeName="spot"))
        cluster.apply(deployment("refused", tolerations=[reliable]))
        for number in range(10):  # plugins are timed in every tenth attempt
            cluster.apply(pod(f"plain-{number}"))
        cluster.apply(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "gpu"},
                "spec": {
                    "devices": {
                        "requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.example.com"}}]
                    }
                },
            },
            pod("with-gpu", resourceClaims=[{"name": "g", "resourceClaimName": "gpu"}]),
        )
        cluster.advance(30)
        cluster.taint("spot", "sla=600:NoExecute")
        rule = {"taint": {"key": "hot", "effect": "NoExecute"}, "deviceSelector": {}}
        cluster.apply(
            {
                "apiVersion": "resource.k8s.io/v1beta2",
                "kind": "DeviceTaintRule",
                "metadata": {"name": "hot"},
                "spec": rule,
            }
        )
        cluster.advance(60)
        after = scrape(cluster.metrics())
        cluster.set_gates({"apiserver": {"TaintTolerationComparisonOperators": False}})
        cluster.patch("Deployment", "refused", {"spec": {"replicas": 3}})
        cluster.apply(pod("last"))
        cluster.advance(60)
        later = scrape(cluster.metrics())
    return before, after, later


@pytest.mark.proves(
    "5471-63",
    "5471-105",
    "5471-108",
    "5471-109",
    "5471-113",
    "5721-50",
    "5721-115",
    "5721-116",
    "5721-118",
    "5721-119",
    "5500-96",
    "5500-97",
    "5500-104",
    "5500-123",
    "5500-125",
    "5055-100",
)
@pytest.mark.parametrize(("where", "query"), [pytest.param(*each, id=each[0]) for each in queries()])
def test_every_query_names_a_metric_that_is_there_and_moves(pages, where, query):
    before, *later = pages
    named = list(selectors(query))
    assert named, query
    for name, labels in named:
        found = [each for page in later for each in page.get(name, ())]
        assert found, f"there is no {name}"
        for label, how, value in labels:
            matches = re.compile(value if how == "=~" else re.escape(value)).fullmatch
            assert any(matches(dict(each).get(label, "")) for each in found), (name, label, value)
        for label in [w for part in re.findall(r"by \(([^)]*)\)", query) for w in part.split(", ")]:
            assert all(label in dict(each) for each in found), (name, label)
        still = name == "process_resident_memory_bytes"  # a process need not grow
        assert still or any(page.get(name) != before.get(name) for page in later), f"{name} does not move"


@pytest.mark.parametrize(
    ("where", "query"),
    [pytest.param(*each, id=each[0]) for each in queries() if not each[0].startswith("alert")],
)
def test_every_query_of_page_and_dashboard_gives_an_answer(pages, where, query):
    before, after, later = pages  # between the last two every component restarts, and counters begin anew
    histories = ((before, after, after), (before, after, later, later))
    scraped = [[(60.0 * minute, page) for minute, page in enumerate(history)] for history in histories]
    assert any(History(each).ask(query) for each in scraped), query


def alerts() -> dict[str, str]:
    (group,) = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def test_the_alert_about_unreadable_taints_fires_while_a_node_carries_one_and_not_after():
    def lives(seconds: int) -> Vector:
        """Let some time pass between two scrapes, and return what the alert then says."""
        for moment in (0, seconds):
            cluster.advance(moment)
            page = cluster.metrics("scheduler")
            now = history[-1][0] + moment if history else 0.0
            history.append((now, scrape(page, "scheduler_numeric_taint_evaluations_total")))
        return History(history).ask(alerts()["TaintValuesCannotBeRead"])

    def ask(name: str) -> None:
        cluster.apply(pod(name, tolerations=[{"key": "sla", "operator": "Gt", "value": "1"}]))

    history: list[tuple[float, dict[str, Vector]]] = []
    with Cluster() as cluster:
        cluster.add_node("odd", taints=["sla=950:NoSchedule"])
        ask("good")
        assert lives(60) == {}
        cluster.taint("odd", "sla=high:NoSchedule")
        ask("unreadable")
        assert list(lives(60)) == [(("operator", "Gt"), ("profile", "default-scheduler"))]
        cluster.taint("odd", "sla=950:NoSchedule")
        lives(3600)
        ask("later")
        assert lives(60) == {} and cluster.get("Pod", "later")["spec"]["nodeName"] == "odd"


def test_every_alert_says_what_is_wrong():
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"][0]["rules"]
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)
    assert len({rule["alert"] for rule in rules}) == len(rules)


def test_the_dashboard_has_no_two_panels_in_one_place():
    board = json.loads((DEPLOY / "grafana" / "extended-tolerations.json").read_text())
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places) and len({panel["id"] for panel in board["panels"]}) == len(places)


def test_one_port_serves_every_component_and_all_of_them():
    with Cluster(nodes=1) as cluster:
        pages = cluster.plane.pages()
        together = pages["/metrics"]().body.decode()
        assert scrape(together).keys() == scrape(cluster.metrics()).keys()
        for component, family in (
            ("apiserver", "apiserver_request_total"),
            ("scheduler", "scheduler_pending_pods"),
            ("controllers", "workqueue_adds_total"),
            ("kubelet", "kubelet_running_pods"),
        ):
            alone = pages[f"/metrics/{component}"]().body.decode()
            assert family in scrape(alone) and family in scrape(together)
            assert scrape(alone).keys() == scrape(cluster.metrics(component)).keys()
        assert pages["/healthz"]().status == 200
        with pytest.raises(ValueError, match="no component is called 'etcd'"):
            cluster.metrics("etcd")


def test_every_gate_of_every_component_is_on_the_page():
    with Cluster(gates={"scheduler": {"TaintTolerationCEL": False}}) as cluster:
        shown = scrape(cluster.metrics())["kubernetes_feature_enabled"]
    cel = {
        dict(labels)["component"]: value
        for labels, value in shown.items()
        if ("name", "TaintTolerationCEL") in labels
    }
    assert cel == {"apiserver": 1, "scheduler": 0, "controllers": 1, "kubelet": 1}
