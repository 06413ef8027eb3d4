"""The What if screen on 500 nodes and 3,000 pods: nothing unasked, progress, cancel, and figures that agree."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from tests.ui.conftest import EXAMPLES, go
from tests.ui.large import documents
from weir.ui import screens
from weir.ui.timeline import foresee

CELLS = "document.querySelectorAll('[role=gridcell]').length"
MAIN = "document.querySelector('main').innerText"
CIRCLING = {
    "tolerations": [{"key": "hot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
    "containers": [{"name": "c", "image": "i"}],
}


def written(path, items):
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))
    return path


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    return written(tmp_path_factory.mktemp("large") / "dump.json", documents(500, 300, 10))


class Held:
    """Simulations that go no further until they are let go; each tells how far it is meanwhile."""

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()
        self.cancelled = threading.Event()

    def foresee(self, seen, question, tick=None):
        self.begun.set()
        try:
            while not self.let_go.wait(0.02):
                tick(900, 3600)
        except screens.Cancelled:
            self.cancelled.set()
            raise
        return foresee(seen, question, tick)


@pytest.fixture
def held(monkeypatch) -> Iterator[Held]:
    held = Held()
    monkeypatch.setattr(screens, "foresee", held.foresee)
    yield held
    held.let_go.set()


def asked(tab) -> list[str]:
    return [url for url in tab.requests if url.endswith("/api/v1/what-if")]


def test_nothing_is_simulated_unasked(page, dump):
    tab = page(dump, "#/what-if")
    tab.until("document.querySelector('#live-counts')", 60)
    tab.fill("input[name=nodes]", "node-00001")
    tab.fill("select[name=effect]", "NoSchedule")
    tab.js(
        "(() => { const e = document.querySelector('input[type=range]'); e.value = 0;"
        "e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change')); })()"
    )
    tab.until(f"{MAIN}.includes('press Simulate')")
    go(tab, "#/fit")
    tab.until(CELLS, 60)
    assert asked(tab) == []


def test_a_simulation_runs_beside_the_other_screens_with_progress(page, dump, held):
    tab = page(dump, "#/what-if")
    tab.until("document.querySelector('#live-counts')", 60)
    tab.fill("input[name=nodes]", "node-00001")
    tab.click("form button[type=submit]")
    tab.until("document.querySelector('#simulating progress[value]')", 60)
    assert "25 %" in tab.text("#simulating")
    go(tab, "#/fit")
    tab.until(CELLS, 60)
    go(tab, "#/devices")
    tab.until(f"{MAIN}.includes('publishes no devices')", 60)
    assert held.begun.is_set() and not held.let_go.is_set()
    tab.js("document.querySelectorAll('nav a')[1].click()")
    tab.until("document.querySelector('#simulating')", 60)
    assert tab.js("document.querySelector('input[name=nodes]').value") == "node-00001"
    held.let_go.set()
    tab.until("document.querySelector('#headline')", 240)
    assert len(asked(tab)) == 1


def test_a_simulation_can_be_cancelled(page, dump, held):
    tab = page(dump, "#/what-if?change=drain&nodes=node-00002")
    tab.until("document.querySelector('#simulating')", 60)
    assert held.begun.wait(60)
    tab.click("#cancel")
    assert held.cancelled.wait(60)
    tab.until(f"{MAIN}.includes('Cancelled')")


def test_figures_agree_with_the_answer_and_say_what_they_count(page, dump, screens_of_dump):
    tab = page(dump, "#/what-if?change=taint&nodes=pool%3Dspot&key=sla&value=910&effect=NoExecute")
    tab.until("document.querySelector('#headline')", 240)
    kept = screens_of_dump(dump)._kept
    (answer,) = [
        found["whatIf"] for (_, key), found in kept.items() if key.startswith("what-if ") and "910" in key
    ]
    shown = dict(
        tab.js("[...document.querySelectorAll('#headline ~ .numbers .number')].map((n) =>"
               " [n.querySelector('span').textContent, Number(n.querySelector('b').textContent)])")
    )  # fmt: skip
    leaving = len(answer["leaving"])
    assert leaving and tab.text("#headline") == answer["headline"]
    assert answer["headline"].startswith(f"{leaving:,} pod")
    assert shown["pods evicted because of it"] == leaving == answer["numbers"]["leaving"]
    assert shown["not rescheduled or pending"] == answer["numbers"]["lost"] + answer["numbers"]["othersLost"]
    assert sum(each["pods"] - each["anyway"] for each in answer["workloads"]) == leaving
    assert "by this taint alone" in tab.text("main")


def test_loops_are_folded_as_in_the_command(page, tmp_path):
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{number}", "labels": {"kubernetes.io/hostname": f"n{number}"}},
            "status": {"allocatable": {"cpu": "99", "memory": "99Gi", "pods": "110"}},
        }
        for number in range(8)
    ]
    sets = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": f"web-{number}", "namespace": "default", "uid": f"u{number}"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": f"web-{number}"}},
                "template": {"metadata": {"labels": {"app": f"web-{number}"}}, "spec": CIRCLING},
            },
        }
        for number in range(9)
    ]
    tab = page(
        written(tmp_path / "loops.json", [*nodes, *sets]),
        "#/what-if?change=taint&nodes=*&key=hot&effect=NoExecute&value=1",
    )
    tab.until("document.querySelector('#headline')", 240)
    assert tab.js("document.querySelectorAll('main p.bad').length") == 9
    assert "… and 4 more workloads are evicted and rescheduled in a loop" in tab.text("main details summary")
    assert all(
        text.count(",") <= 6
        for text in tab.js("[...document.querySelectorAll('main p.bad')].map((p) => p.textContent)")
    )


def test_an_empty_cluster_says_what_to_do(page, tmp_path):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    tab = page(written(tmp_path / "empty.json", [namespace]), "#/what-if")
    tab.until(f"{MAIN}.includes('This cluster has no nodes')")
    assert "weir snapshot" in tab.text("main")
    controls = "[...document.querySelectorAll('main input, main select, main .legend')]"
    shown = f"{controls}.filter((e) => e.checkVisibility()).length"
    for screen, words in (("#/fit", "no workloads"), ("#/devices", "publishes no devices")):
        go(tab, screen)
        tab.until(f"{MAIN}.includes('{words}')")
        assert "weir snapshot && weir ui --cluster snapshot.json.gz" in tab.text(".empty")
        assert tab.js(shown) == 0, "there is nothing to search, to filter or to explain"


def test_a_question_that_fails_says_why_and_leaves_the_form(page):
    tab = page(EXAMPLES / "gpu-fleet.yaml", "#/what-if?change=cordon&nodes=nowhere")
    tab.until("document.querySelector('main [role=alert]')", 60)
    assert "no node nowhere in the cluster" in tab.text("main [role=alert]")
    assert tab.js("Boolean(document.querySelector('form button[type=submit]'))")
    assert all("422" in error for error in tab.errors)
    tab.errors.clear()  # the browser notes every refused request


def test_gates_show_who_is_helped(page, tmp_path):
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "spec": {"taints": [{"key": "sla", "value": "950", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }
    runs = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "nodeName": "a",
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": [{"key": "sla", "operator": "Gt", "value": "900"}],
        },
        "status": {"phase": "Running"},
    }
    tab = page(
        written(tmp_path / "gates.json", [node, runs]),
        "#/what-if?change=gates&gates=TaintTolerationComparisonOperators%3Dfalse",
    )
    tab.until("document.querySelector('#headline')", 240)
    assert "would not be scheduled there again: 1" in tab.text("main")
    assert "nothing tolerates sla=950:NoSchedule" in tab.text("main")
    assert "copy of the whole control plane" in tab.text("main")
