"""The Plan screen: waves found, split, merged and forecast again; no plan; files; progress and cancel."""

from __future__ import annotations

import json
import threading

import pytest
import yaml

from tests.ui.conftest import EXAMPLES, go, violations
from tests.ui.test_contrast import MEASURE
from weir.plan.document import read
from weir.ui import plans, screens

SPOT = EXAMPLES / "spot-pool.yaml"
TAINT = "#/plan?change=taint&nodes=pool%3Dspot&key=sla&value=650&effect=NoExecute&maxUnavailable=2"
NONE = "#/plan?change=taint&nodes=pool%3Dspot&key=sla&value=550&effect=NoExecute&maxUnavailable=1"
READY = "document.querySelector('#headline')"


@pytest.fixture
def plan(page):
    """Return the screen with the plan of a taint of three nodes: two waves."""
    tab = page(SPOT, TAINT)
    tab.until(READY)
    return tab


def rows(tab) -> list[str]:
    return tab.js("[...document.querySelectorAll('#waves tbody th')].map((e) => e.innerText)")


def merge(tab) -> None:
    tab.click("[data-merge='0']")
    tab.until("document.querySelectorAll('#waves tbody tr').length === 1")


def test_the_plan_is_found_with_its_waves_over_time(plan):
    assert plan.text("#headline").startswith("2 waves over 3 nodes: 4 pods moved")
    assert "Every goal is kept" in plan.text("#goals")
    assert [row.split("\n")[:1] + row.split("\n")[2:] for row in rows(plan)] == [
        ["Wave 1", "3 pods moved"],
        ["Wave 2", "1 pod moved"],
    ]
    bars = plan.js("[...document.querySelectorAll('#waves svg rect')].map((e) => [e.x, e.width, e.height]"
                   ".map((each) => Math.round(each.baseVal.value)))")  # fmt: skip
    assert [each[:2] for each in bars] == [[0, 300], [300, 300]], "one after the other"
    assert bars[0][2] > bars[1][2], "the more pods, the higher"
    for words in ("room left: 7 CPUs", "shop/web allows 2", "shop/ReplicaSet/web: at least 2 of 4 run"):
        assert words in plan.text("#waves")
    assert "no plan moves fewer than 4 pods" in plan.text("main")
    assert "--max-unavailable 2 -o yaml > plan.yaml" in plan.text("main")


def test_merged_waves_are_forecast_again_and_name_the_goal_they_break(plan):
    merge(plan)
    assert "1 wave would break a goal" in plan.text("#goals")
    assert "shop/web's budget wants 2 healthy pods, 1 would be" in plan.text("#waves .bad")
    plan.click("#back")
    plan.until("document.querySelectorAll('#waves tbody tr').length === 2")
    assert "Every goal is kept" in plan.text("#goals")


def test_a_wave_is_split_without_a_mouse(plan):
    plan.js("document.querySelector('[data-split]').focus()")
    plan.press("Enter")
    plan.until("document.querySelector('dialog[open]')")
    assert plan.js("[...document.querySelectorAll('dialog input')].map((e) => e.checked)") == [False, True]
    plan.js("document.querySelectorAll('dialog input')[1].focus()")
    plan.press(" ")
    assert plan.js("document.querySelector('dialog button.primary').disabled"), "nothing would be split off"
    plan.press(" ")
    plan.js("document.querySelector('dialog button.primary').focus()")
    plan.press("Enter")
    plan.until("document.querySelectorAll('#waves tbody tr').length === 3")
    assert [row.split("\n")[1] for row in rows(plan)] == ["spot-3", "spot-1", "spot-2"]
    assert "Every goal is kept" in plan.text("#goals")


@pytest.mark.parametrize("edited", [False, True])
def test_the_document_is_downloaded_and_says_what_is_shown(plan, tmp_path, edited):
    if edited:
        merge(plan)
    plan.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    plan.js(
        "(() => { const make = URL.createObjectURL; URL.createObjectURL = (blob) => { window.saved = blob.text();"
        "addEventListener('click', (e) => { window.named ??= e.target.download; }); return make(blob); };"
        "[...document.querySelectorAll('button')].find((e) => e.innerText.includes('plan.yaml')).click(); })()"
    )
    assert plan.js("window.named") == "plan.yaml"
    found = read(yaml.safe_load(plan.js("window.saved")))
    assert [sorted(wave.nodes) for wave in found.waves] == (
        [["spot-1", "spot-2", "spot-3"]] if edited else [["spot-1", "spot-3"], ["spot-2"]]
    )
    assert any("breaks a goal" in note for wave in found.waves for note in wave.notes) is edited
    assert ("changed by hand" in found.made.command) is edited


def test_where_there_is_no_plan_the_page_says_why_and_what_would_help(page):
    tab = page(SPOT, NONE)
    tab.until(READY)
    assert tab.text("#headline") == "There is no plan that keeps all goals."
    assert "a node loses all its pods at once" in tab.text("main")
    assert "--max-unavailable 2" in tab.text("#relaxations")


def test_waves_of_device_rules_keep_their_order(page):
    tab = page(
        EXAMPLES / "gpu-fleet.yaml",
        "#/plan?change=apply&selector=driver%3Dgpu.example.com&key=recall&deviceEffect=None",
    )
    tab.until(READY)
    assert "weir plan device-taint driver=gpu.example.com recall:None" in tab.text("main")
    tab.click("[data-split]")
    tab.click("dialog label:has([value$='6920d240']) input")
    tab.click("dialog button.primary")
    tab.until("document.querySelectorAll('#waves tbody tr').length === 2")
    assert [row.split("\n")[1].count("recall-") for row in rows(tab)] == [1, 2]
    assert "and 5 more" in rows(tab)[1]


def test_a_question_that_fails_says_why_and_leaves_the_form(page):
    tab = page(SPOT, f"{TAINT}0")
    tab.fill("input[name=maxUnavailable]", "some")
    tab.click("form button[type=submit]")
    tab.until("document.querySelector('main [role=alert]')")
    assert "--max-unavailable: 'some'" in tab.text("main [role=alert]")
    assert tab.js("Boolean(document.querySelector('form button[type=submit]'))")
    tab.errors.clear()  # the browser notes every refused request


def test_nothing_is_planned_unasked_and_an_empty_cluster_says_what_to_do(page, tmp_path):
    tab = page(SPOT, "#/plan")
    tab.until("document.querySelector('main').innerText.includes('press Find a plan')")
    assert not [url for url in tab.requests if url.endswith("/api/v1/plan")]
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}))
    tab = page(empty, "#/plan")
    tab.until("document.querySelector('.empty')")
    assert "weir snapshot" in tab.text(".empty")


def test_a_search_shows_how_far_it_is_and_can_be_cancelled(page, monkeypatch):
    cancelled, waiting = threading.Event(), threading.Event()

    def held(changes, state, goals, tick):
        try:
            while not waiting.wait(0.02):
                tick("by shared workloads, nodes:", 3, 12)
        except screens.Cancelled:
            cancelled.set()
            raise

    monkeypatch.setattr(plans, "find", held)
    tab = page(SPOT, "#/plan?change=drain&nodes=spot-1")
    tab.until("document.querySelector('#simulating progress[value]')")
    assert "by shared workloads, nodes: 3 of 12" in tab.text("#simulating")
    go(tab, "#/fit")
    tab.until("document.querySelector('[role=gridcell]')")
    go(tab, "#/plan")
    tab.click("#cancel")
    assert cancelled.wait(60)
    tab.until("document.querySelector('main').innerText.includes('Cancelled')")
    tab.errors.clear()  # the browser notes the request that was ended


def test_the_dialog_can_be_read_and_its_targets_are_large_enough(plan, axe):
    plan.js(axe)
    plan.click("[data-split]")
    plan.until("document.querySelector('dialog[open]')")
    for width, dark in ((1280, False), (390, True)):
        plan.size(width, 800, dark=dark)
        assert (width, violations(plan), plan.js(MEASURE)["wrong"]) == (width, [], [])
        small = plan.js(
            "[...document.querySelectorAll('dialog button, dialog input')].map((e) => e.getBoundingClientRect())"
            ".filter((box) => box.width < 24 || box.height < 24).length"
        )
        assert small == 0
