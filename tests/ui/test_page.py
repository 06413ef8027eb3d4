"""Each screen in a real browser: what it shows, how it is used without a mouse, and who can read it."""

from __future__ import annotations

import json

import pytest

from tests.ui.conftest import EXAMPLES, go, violations

FLEET = EXAMPLES / "gpu-fleet.yaml"
SHOP = EXAMPLES / "shop-cluster.yaml"
WHAT_IF = "#/what-if?change=taint&nodes=pool%3Dspot&key=failure-probability&value=15&effect=NoExecute"
CELLS = "[...document.querySelectorAll('[role=gridcell]')]"
SCREENS = {
    "fit": ("#/fit", "document.querySelectorAll('[role=gridcell]').length > 20"),
    "fit with details": (
        "#/fit?w=Deployment%2Fshop%2Finference&n=a100-3",
        "document.querySelector('#panel pre')",
    ),
    "what-if": (
        "#/what-if?change=taint&nodes=pool%3Da100&key=sla&value=950&effect=NoExecute",
        "document.querySelector('.lanes')",
    ),
    "plan": (
        "#/plan?change=drain&nodes=a100-3",
        "document.querySelector('#headline')",
    ),
    "devices": ("#/devices", "document.querySelectorAll('.tile').length > 20"),
    "devices chosen": (
        "#/devices?sel=gpu.example.com%2Fa100-2%2Fgpu-3",
        "document.querySelector('#panel form')",
    ),
    "pod": ("#/pod/shop/vector-db-0", "document.querySelector('.verdict')"),
}


def test_the_matrix_shows_every_verdict_by_colour_shape_and_word(page):
    tab = page(FLEET)
    tab.until(f"{CELLS}.length")
    found = tab.js(f"{CELLS}.map((c) => [c.className.match(/v-(\\w+)/)[1], c.innerText, c.textContent])")
    shapes = {verdict: text.split("\n")[0] for verdict, text, _ in found}
    assert {"fits", "change", "taint", "affinity", "room"} <= shapes.keys()
    assert len(set(shapes.values())) == len(shapes), "every verdict has a shape of its own"
    assert any("sla=940, needs > 950" in label for _, _, label in found)
    assert tab.js("[...document.querySelectorAll('.grid-name .name')].map((n) => n.innerText)")[:3] == [
        "pretrain",
        "vector-db",
        "web",
    ]


def test_hovering_says_the_comparison_in_words(page):
    tab = page(FLEET)
    tab.until(f"{CELLS}.length")
    tab.js(
        f"{CELLS}.find((c) => c.classList.contains('v-change')).dispatchEvent(new MouseEvent('mouseenter'))"
    )
    assert "needs > 9" in tab.until("!tip.hidden && tip.innerText")


def test_a_change_is_tried_and_undone(page):
    tab = page(FLEET, SCREENS["fit with details"][0])
    tab.until("document.querySelector('#panel button.primary')")
    diff = tab.text("#panel pre")
    assert "+" in diff and "940" in diff
    tab.click("#panel button.primary")
    cell = f"{CELLS}.find((c) => c.textContent.includes('inference on a100-3'))"
    tab.until(f"{cell}.classList.contains('v-fits')")
    assert "also tolerate sla = 940" in tab.text(".hypothesis")
    assert "try=" in tab.js("location.hash")
    tab.click(".hypothesis button")
    tab.until(f"{cell}.classList.contains('v-change')")
    assert tab.js("document.querySelector('.hypothesis').hidden") is True


def test_filters_are_kept_in_the_address_and_come_back(page):
    tab = page(FLEET)
    tab.until(f"{CELLS}.length")
    tab.fill("input[name=q]", "research")
    tab.until("document.querySelectorAll('.grid-row').length === 2")
    tab.fill("select[name=kind]", "Job")
    tab.until("document.querySelectorAll('.grid-row').length === 1")
    address = tab.js("location.hash")
    assert "q=research" in address and "kind=Job" in address
    tab.js("(() => { window.before = true; location.reload(); })()")
    tab.until("!window.before && document.querySelectorAll('.grid-row').length === 1")
    assert tab.text(".grid-name .name") == "finetune"


def test_the_whole_way_without_a_mouse(page):
    """From the search to a cell, to its reasons, to a change that is tried, and back: keys only."""
    tab = page(FLEET)
    tab.until(f"{CELLS}.length")
    tab.press("/")
    assert tab.js("document.activeElement.name") == "q"
    tab.press(*"inference")
    tab.until("document.querySelectorAll('.grid-row').length === 1")
    for _ in range(12):
        if tab.js("document.activeElement.getAttribute('role')") == "gridcell":
            break
        tab.press("Tab")
    assert tab.js("document.activeElement.getAttribute('role')") == "gridcell"
    columns = tab.js(f"{CELLS}.findIndex((c) => c.classList.contains('v-change'))")
    tab.press(*["ArrowRight"] * columns)
    tab.until("document.activeElement.classList.contains('v-change')")
    tab.press("Enter")
    tab.until("document.querySelector('#panel h2') === document.activeElement")
    for _ in range(20):
        if tab.js("document.activeElement.innerText") == "Try it":
            break
        tab.press("Tab")
    tab.press("Enter")
    tab.until("!document.querySelector('.hypothesis').hidden")
    tab.press("Escape")
    tab.until("document.getElementById('panel').hidden")
    assert tab.js("document.activeElement.getAttribute('role')") == "gridcell"
    tab.press("3")
    tab.until("location.hash.startsWith('#/devices') && document.querySelector('.tile')")
    tab.js("document.querySelector('.tile[tabindex=\"0\"]').focus()")
    tab.press("ArrowDown", "ArrowRight", " ")
    assert tab.until(
        "document.querySelector('.tile[aria-pressed=true]').getAttribute('aria-label')"
    ).startswith("gpu.example.com/a100-1/gpu-1")  # below the three nodes with faults


def test_the_slider_has_a_stop_for_every_threshold_and_the_counts_follow_it(page):
    tab = page(SHOP, WHAT_IF)
    tab.until("document.querySelector('.lanes')", 60)
    assert tab.js("document.querySelectorAll('.lanes tbody tr').length") == 3
    assert "failure-probability=15" in tab.text("#live-counts")
    tab.js(
        "(() => { const e = document.querySelector('input[type=range]'); e.value = e.max;"
        "e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change')); })()"
    )
    tab.until("document.getElementById('live-counts').innerText.includes('failure-probability=20')")
    assert "4\n✕ evicted at once" in tab.text("#live-counts")
    tab.until(
        "document.querySelectorAll('.lanes tbody tr').length === 3 && !document.querySelector('[aria-busy]')",
        60,
    )
    assert "value=20" in tab.js("location.hash")
    assert "kubectl taint nodes -l pool=spot failure-probability=20:NoExecute" in tab.text("main")
    assert "Make this change" not in tab.text("main"), "a dump cannot be changed"


def test_time_is_played_and_scrubbed(page):
    tab = page(SHOP, WHAT_IF)
    tab.until("document.querySelector('#scrub')", 60)
    assert "0 of 1 evicted" in tab.text(".lanes")
    tab.js("(() => { scrub.value = scrub.max; scrub.dispatchEvent(new Event('input')); })()")
    tab.until("document.querySelector('.lanes').innerText.includes('1 of 1 evicted')")
    assert "0 of" not in tab.text(".lanes")
    tab.js("(() => { scrub.value = 0; scrub.dispatchEvent(new Event('input')); })()")
    tab.click("#play")
    tab.until("Number(scrub.value) > 1")
    assert "Pause" in tab.text("#play")


def test_the_lane_marks_when_and_where_others_are_placed(page):
    """Each mark stands where the forecast's time is, and the counts follow the time that is scrubbed."""
    tab = page(SHOP, WHAT_IF)
    tab.until("document.querySelector('.landing')", 60)
    marks = tab.js(
        "[...document.querySelectorAll('.landing')].map((m) => [m.dataset.node, Number(m.dataset.after),"
        " Number(m.getAttribute('x')), m.textContent])"
    )
    horizon = float(tab.js("scrub.max"))
    nodes = set(tab.js("fetch('api/v1/state').then((r) => r.json()).then((s) => s.nodes.map((n) => n.name))"))
    for node, after, x, words in marks:
        assert node in nodes and f"taken on {node}" in words
        assert x == pytest.approx(min(596, after / horizon * 600), abs=0.01)
    late = max(after for _, after, _, _ in marks)
    heads = "[...document.querySelectorAll('.lanes tbody th')]"
    lane = f"{heads}.map((h) => Number(h.innerText.match(/(\\d+) rescheduled/)[1]))"
    tab.js(f"(() => {{ scrub.value = {late} - 1; scrub.dispatchEvent(new Event('input')); }})()")
    before = sum(tab.js(lane))
    tab.js("(() => { scrub.value = scrub.max; scrub.dispatchEvent(new Event('input')); })()")
    assert sum(tab.js(lane)) == len(marks) > before


def test_the_timeline_without_a_mouse(page):
    """Tab to the slider, arrows for the value; Tab to Play, Enter; Tab to the time, arrows: keys only."""
    tab = page(SHOP, WHAT_IF)
    tab.until("document.querySelector('#scrub')", 60)
    tab.js("document.querySelector('[name=effect]').focus()")
    tab_to(tab, "document.activeElement.getAttribute('aria-label') === 'Value of failure-probability'")
    assert "3\n✕ evicted at once" in tab.text("#live-counts")
    tab.press("ArrowRight", "ArrowRight")
    tab.until("document.getElementById('live-counts').innerText.includes('failure-probability=20')")
    assert "4\n✕ evicted at once" in tab.text("#live-counts")
    assert "20: 0 stay, 4 evicted at once" in tab.js("document.activeElement.getAttribute('aria-valuetext')")
    tab.until("document.querySelector('main').innerText.includes('failure-probability=20:NoExecute')", 60)
    tab.until("!document.querySelector('[aria-busy]')")
    assert "value=20" in tab.js("location.hash")
    assert tab.js("document.activeElement.type") == "range", "the answer does not take the focus away"
    tab.press("ArrowLeft")
    tab.until("document.querySelector('main').innerText.includes('failure-probability=19:NoExecute')", 60)
    tab.until("!document.querySelector('[aria-busy]')")
    tab_to(tab, "document.activeElement.id === 'play'")
    tab.press("Enter")
    tab.until("Number(scrub.value) > 1 && document.getElementById('play').innerText.includes('Pause')")
    tab.press("Enter")
    tab.until("document.getElementById('play').innerText.includes('Play')")
    tab_to(tab, "document.activeElement.id === 'scrub'")
    tab.press("Home")
    tab.until("document.getElementById('clock').innerText === 'now'")
    assert "0 of 1 evicted" in tab.text(".lanes")
    tab.press("ArrowRight")
    tab.until("Number(scrub.value) > 0")
    tab.press("End")
    tab.until("!document.querySelector('.lanes').innerText.includes('0 of 1 evicted')")
    assert tab.js("document.activeElement.id") == "scrub"


def tab_to(tab, there):
    """Press Tab until the focus is *there*."""
    for _ in range(20):
        if tab.js(there):
            return
        tab.press("Tab")
    raise AssertionError(
        f"not reached by Tab: {there}; at {tab.js('document.activeElement.outerHTML')[:200]}"
    )


@pytest.mark.parametrize(
    "at, words",
    [
        ("change=drain&nodes=a100-3", "kubectl drain a100-3"),
        ("change=cordon&nodes=a100-3", "kubectl cordon a100-3"),
        ("change=delete-node&nodes=a100-3", "kubectl delete node a100-3"),
        ("change=gates&gates=TaintTolerationComparisonOperators%3Dfalse", "--feature-gates="),
        (
            "change=apply&selector=gpu.example.com%2Fa100-3%2F*&key=recall&deviceEffect=NoExecute",
            "kubectl apply -f rule.yaml",
        ),
    ],
)
def test_other_changes_are_foreseen_too(page, at, words):
    tab = page(FLEET, f"#/what-if?{at}")
    tab.until(f"document.querySelector('main').innerText.includes({json.dumps(words)})", 60)
    assert "pods evicted" in tab.text("main")


def test_devices_are_grouped_chosen_and_previewed(page):
    tab = page(FLEET, "#/devices")
    tab.until("document.querySelectorAll('.tile').length === 64")
    assert "64 of 64 devices, 3 with faults, 8 marked" in tab.text(".toolbar")
    tab.fill("select[name=group]", "a:model")
    tab.until("document.querySelectorAll('.fleet-name b').length === 2")
    tab.fill("select[name=show]", "noexecute")
    tab.until("document.querySelectorAll('.tile').length === 1")
    tab.click(".tile")
    tab.until("document.querySelector('#panel dl')")
    assert "shop/inference-2" in tab.text(
        "#panel"
    ) and "by the driver, since 2026-11-16T09:12:40Z" in tab.text("#panel")
    tab.fill("#panel select[name=taint-effect]", "NoExecute")
    tab.click("#panel form button")
    tab.until("document.querySelector('#panel').innerText.includes('kind: DeviceTaintRule')")
    assert "1 pod must leave" in tab.text("#panel")


def test_the_summary_counts_and_the_strip_says_why_workloads_wait(page):
    tab = page(FLEET)
    tab.until("document.querySelector('.summary').innerText.includes('devices')")
    assert tab.text(".summary").split("\n") == [
        "6 of 7 workloads fit",
        "3 wait",
        "3 of 64 devices with faults",
    ]
    assert tab.text(".waits summary") == "3 workloads wait: why"
    lines = tab.js(
        "[...document.querySelectorAll('.waits li')].map((e) => e.innerText.replaceAll('\\n', ' '))"
    )
    assert lines[0] == "pretrain 3 nodes would take one more pod now; not created or not scheduled yet"
    assert lines[1].startswith("vector-db sla=990 (NoExecute), no toleration for this key: refused")
    assert "of 13 nodes; 10 other reasons" in lines[1]
    tab.click(".waits li:nth-child(2) button")
    tab.until("document.querySelector('#panel h2').innerText.includes('vector-db')")


def test_the_summary_counts_workloads_that_one_value_keeps_from_nowhere(page, tmp_path):
    """A pod for one group of nodes only, and ten that wait for the same reason: one line for all."""
    documents = list(many(10, 2))
    tolerated = [{"key": "sla", "operator": "Equal", "value": "900"}]
    spec = {"containers": [{"name": "c", "image": "c"}], "tolerations": tolerated}
    metadata = {"name": "near", "namespace": "default"}
    documents.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    for node in documents[:2]:
        node["status"] = {"allocatable": {"cpu": "8", "pods": "110"}}
    tab = page(written(tmp_path, documents))
    tab.until("document.querySelector('.summary li')")
    numbers = ["1 of 11 workloads fit", "11 wait", "1 fits one group of nodes only"]
    assert tab.text(".summary").split("\n") == numbers
    lines = tab.js(
        "[...document.querySelectorAll('.waits li')].map((e) => e.innerText.replaceAll('\\n', ' '))"
    )
    assert any("and 7 more workloads: sla=90" in line for line in lines), lines


def test_columns_use_the_width(page):
    tab = page(SHOP)
    for width in (1440, 1024, 390):
        tab.size(width, 844)
        tab.until(f"{CELLS}.length === 8 && innerWidth === {width}")
        used = f"Math.max(...{CELLS}.map((c) => c.getBoundingClientRect().right))"
        tab.until(f"{used} > Math.min({width} - 24, 268 + 2 * 480) && {used} <= {width}")
        heads = "[...document.querySelectorAll('.grid-head .lines span')]"
        cut = f"{heads}.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.innerText)"
        assert width == 390 or tab.js(cut) == []


def test_many_columns_show_usual_taints_and_sizes_whole(page):
    tab = page(FLEET)
    tab.size(1440, 900)
    tab.until("document.querySelector('.grid-head .lines span')")
    heads = "[...document.querySelectorAll('.grid-head .lines > span')]"
    cut = "[e, ...e.children].some((one) => one.scrollWidth > one.clientWidth && one.tagName !== 'BDI')"
    shown = tab.js(f"{heads}.map((e) => [e.innerText.replace('\\n', ''), {cut}])")
    assert {cut for text, cut in shown if len(text) <= len("⊘ sla=990:NoSchedule")} == {False}
    assert any(text == "96 cpu 768Gi memory" for text, _ in shown)


CUT = """[...document.querySelectorAll('main *, #top *')].filter((e) => getComputedStyle(e).textOverflow === 'ellipsis'
  && e.checkVisibility() && (e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight + 4)).map((e) => {
  const at = e.closest('.column, [title]');
  if (at && !at.title) at.dispatchEvent(new MouseEvent('mouseenter'));
  return [e.textContent, at ? at.title || tip.textContent : ''];
})"""


def test_a_label_that_is_cut_has_its_full_text_at_hand(page, tmp_path):
    long = "a-rather-long-name-of-something-that-nobody-wants-to-read-twice"
    dump = tmp_path / f"{long * 3}.yaml"
    dump.write_text(FLEET.read_text().replace("a100-0", long).replace("inference", f"{long}-inference"))
    tab = page(dump)
    cut = []
    for width in (1024, 390):
        tab.size(width, 844)
        for screen in ("fit", "devices"):
            go(tab, SCREENS[screen][0])
            tab.until(SCREENS[screen][1])
            for text, full in tab.js(CUT):
                cut.append(text)
                assert text in full, (width, screen)
    assert {long, f"{long}-inference", str(dump)} <= set(cut), "something is cut"


BOUNDS = "['.grid', '{}'].map((each) => document.querySelector(each).getBoundingClientRect().toJSON())"


@pytest.mark.parametrize("width", [1440, 390])
def test_a_cell_that_an_address_names_is_marked_and_in_sight(page, width):
    tab = page(FLEET)
    tab.size(width, 844)
    go(tab, "#/fit?w=Deployment%2Fshop%2Finference&n=spot-1")
    tab.until("document.querySelector('#panel .verdict')")
    marked = "[...document.querySelectorAll('[aria-selected=true] .unseen')].map((e) => e.textContent)"
    if width > 900:  # on a phone the panel covers the matrix
        tab.until(f"{marked}.some((text) => text.includes('inference on'))")
        grid, cell = tab.js(BOUNDS.format("[aria-selected=true]"))
        assert grid["left"] <= cell["left"] and cell["right"] <= grid["right"] + 1, "beside the panel"
    tab.press("Escape")
    tab.until("!document.querySelector('#panel:not([hidden])')")
    assert tab.js(marked) == []
    tab.until("document.activeElement.textContent.includes('inference on')")
    grid, cell = tab.js(BOUNDS.format("[role=gridcell]:focus"))
    assert grid["left"] <= cell["left"] and cell["right"] <= grid["right"] + 1


def test_on_a_phone_the_value_of_a_taint_is_read_before_its_effect(page):
    tab = page(FLEET)
    tab.size(390, 844)
    tab.until("document.querySelector('.grid-head .taint')")
    shown = tab.js(
        "[...document.querySelectorAll('.grid-head .taint')].map((e) => [e.firstChild.textContent,"
        " e.firstChild.scrollWidth > e.firstChild.clientWidth, e.lastChild.textContent])"
    )
    assert ["⊘ sla=990", False, ":NoExecute"] in shown


def test_the_legend_explains_the_numbers_in_cells(page):
    tab = page(FLEET)
    tab.until("document.querySelector('.grid-cell .here')")
    assert "2\nhow many of its pods are there" in tab.text(".legend")


def test_a_reason_is_said_once_and_a_diff_marks_only_what_changes(page):
    tab = page(FLEET, SCREENS["fit with details"][0])
    tab.until("document.querySelector('#panel pre')")
    texts = tab.js("[...document.querySelectorAll('#panel details.group')].map((e) => e.textContent)")
    assert texts and not [text for text in texts if text.count("tolerated only that long") > 1]
    assert not [text for text in texts if text.count("sla=940, needs > 950: refused") > 1]
    marked = tab.js(
        "[...document.querySelectorAll('#panel pre .add, #panel pre .del')].map((e) => e.textContent)"
    )
    assert marked and not [line for line in marked if line.startswith(("+++", "---"))]


def test_the_slider_reaches_from_the_first_value_to_the_last_and_stands_at_the_one_asked_about(
    page, tmp_path
):
    dump = tmp_path / "many.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": many_values(90)}))
    tab = page(dump, "#/what-if?change=taint&nodes=n0&key=sla&value=655&effect=NoExecute&draft=1")
    tab.until("document.querySelector('#live-counts')", 60)
    assert "sla=655" in tab.text("#live-counts") and "nearest" not in tab.text("#live-counts")
    assert "60 values of" in tab.text("main")
    for width in (1440, 390):
        tab.size(width, 844)
        right = "document.querySelector('.stops').getBoundingClientRect().right"
        tab.until(f"innerWidth === {width} && {right} <= innerWidth - 10")
        shown = tab.js(
            "[...document.querySelectorAll('.stops text')].filter((e) => Number(e.textContent)).map((e) =>"
            " [e.textContent, e.getBBox().x, e.getBBox().x + e.getBBox().width])"
        )
        assert shown[0][0] == "500" and int(shown[-1][0]) > 800
        wide = tab.js("document.querySelector('.stops').viewBox.baseVal.width")
        assert all(left >= 0 and right <= wide for _, left, right in shown)


def many_values(count: int) -> list[dict[str, object]]:
    """Return one node with a pod, and workloads that each name another value of one key."""
    found: list[dict[str, object]] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0", "labels": {"kubernetes.io/hostname": "n0"}},
         "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}}}
    ]  # fmt: skip
    for number in range(count):
        toleration = {"key": "sla", "operator": "Gt", "value": str(500 + 5 * number)}
        template = {"spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [toleration]}}
        found.append(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"w{number}", "namespace": "default"},
             "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}}
        )  # fmt: skip
    return found


def test_the_words_of_the_slider_keep_their_size_on_a_phone(page):
    tab = page(SHOP, WHAT_IF)
    tab.until("document.querySelector('.lanes')", 60)
    for width in (390, 1440, 390):
        tab.size(width, 844)
        tab.until(f"innerWidth === {width}")
        tab.until("document.querySelector('.stops').getBoundingClientRect().right <= innerWidth - 10")
        high = "[...document.querySelectorAll('.stops text')].map((e) => e.getBoundingClientRect().height)"
        tab.until(f"Math.min(...{high}) >= 11")
        right, slide = tab.js("['.stops', 'input[type=range]'].map((e) => document.querySelector(e).offsetWidth"
                              " || document.querySelector(e).getBoundingClientRect().width)")  # fmt: skip
        assert right == pytest.approx(slide, abs=1)
    bars = "[...document.querySelectorAll('#lanes .legend li')].map((e) => e.innerText)"
    assert tab.js(bars) == [
        "still tolerated",
        "terminating",
        "its replacement runs",
        "replacement scheduled",
    ]


def test_nodes_with_faults_come_first_each_with_a_bar_of_its_devices(page):
    tab = page(FLEET, "#/devices")
    for width, columns in ((1440, 4), (1024, 2), (390, 1)):
        tab.size(width, 844)
        tab.until("document.querySelectorAll('.tile').length === 64")
        tab.until(f"document.querySelector('.fleet-line').childElementCount === {columns}")
        heads = tab.js("[...document.querySelectorAll('.fleet-words')].map((e) => e.innerText.split('\\n'))")
        assert heads[:4] == [
            ["a100-2", "2 of 8 used", "1 fault"],
            ["a100-0", "2 of 8 used", "1 fault"],
            ["h100-1", "4 of 8 used", "1 fault"],
            ["a100-1", "2 of 8 used"],
        ]
        shares = tab.js(
            "[...document.querySelectorAll('.fleet-bar')].slice(0, 4).map((bar) => [...bar.children].map((part) =>"
            " [part.className, Math.round(8 * part.offsetWidth / bar.offsetWidth)]))"
        )
        assert shares[0] == [["t-noexecute", 1], ["t-used", 1], ["t-free", 6]]
        assert shares[2] == [["t-noschedule", 1], ["t-used", 4], ["t-free", 3]]
        bounds = "[e.getBoundingClientRect().right, e.closest('.fleet-block').getBoundingClientRect().right]"
        for right, most in tab.js(f"[...document.querySelectorAll('.tile')].map((e) => {bounds})"):
            assert right <= most, "no tile lies over the next node"


@pytest.mark.parametrize("screen", SCREENS)
def test_everybody_can_read_it(page, axe, screen):
    at, ready = SCREENS[screen]
    elsewhere, left = SCREENS["pod" if screen != "pod" else "devices"]
    tab = page(FLEET)
    tab.js(axe)
    for width, dark in ((1280, False), (1280, True), (390, False)):
        tab.size(width, 800, dark=dark)
        go(tab, at)  # drawn for this size: from elsewhere each time
        tab.until(ready, 60)
        wide = tab.js("document.documentElement.scrollWidth")
        assert (width, dark, wide <= width, violations(tab)) == (width, dark, True, []), f"{wide} pixels wide"
        go(tab, elsewhere)
        tab.until(left)


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>document.title='owned'</script>",
    "\u202eevil\u2066",
    "a" * 253,
    "{{7*7}}${7*7}",
    "' onmouseover='alert(1)",
]


def test_hostile_names_are_text(page, tmp_path):
    """Names that no API server would take: a dump can hold anything."""
    items = []
    for number, name in enumerate(HOSTILE):
        metadata = {"name": f"{name}{number}", "labels": {"pool": name}}
        taints = [{"key": name, "value": name[:60], "effect": "NoExecute"}]
        items.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": taints}})
        spec = {
            "containers": [{"name": name, "image": name}],
            "tolerations": [{"key": name, "operator": "Exists"}],
        }
        metadata = {"name": name, "namespace": name}
        items.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    tab = page(path)
    tab.until(f"{CELLS}.length")
    shown = tab.js("[...document.querySelectorAll('.grid-name .name')].map((n) => n.textContent)")
    assert sorted(shown) == sorted(HOSTILE)
    assert tab.js("document.querySelectorAll('main img, main script').length") == 0
    for row in range(len(HOSTILE)):
        tab.js(f"document.querySelectorAll('.grid-row')[{row}].querySelector('[role=gridcell]').click()")
        tab.until("document.querySelector('#panel h2')")
    go(tab, "#/what-if")
    tab.until("document.querySelector('main form')")
    assert tab.js("document.title") == "What if · weir"
    assert tab.js("document.documentElement.scrollWidth <= innerWidth")


def many(rows, groups):
    """A cluster with so many workloads, and so many groups of nodes."""
    for number in range(groups):
        taint = {"key": "sla", "value": str(900 + number), "effect": "NoSchedule"}
        metadata = {"name": f"node-{number}"}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [taint]}}
    for number in range(rows):
        container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": f"{number + 1}m"}}}
        metadata = {"name": f"pod-{number}", "namespace": "default"}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def written(tmp_path, documents):
    path = tmp_path / "many.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}))
    return path


ROWS = "document.querySelectorAll('.grid-row').length"


def test_print_shows_every_row_and_every_column(page, tmp_path):
    """On the screen only what is in sight is there; on paper nothing can be scrolled to."""
    tab = page(written(tmp_path, many(120, 24)))
    tab.until(f"{CELLS}.length")
    assert tab.js(ROWS) < 120
    tab.send("Emulation.setEmulatedMedia", media="print")
    tab.until(f"{ROWS} === 120")
    assert tab.js(f"{CELLS}.length") == 120 * 24
    bottoms = (
        "[...document.querySelectorAll('.grid-row')].map((r) => Math.round(r.getBoundingClientRect().top))"
    )
    assert len(set(tab.js(bottoms))) == 120, "no row lies over another"
    assert tab.js("getComputedStyle(document.querySelector('.grid')).overflow") == "visible"
    assert tab.js("document.querySelector('.print-note') === null")
    tab.send("Emulation.setEmulatedMedia", media="")
    tab.until(f"{ROWS} < 120")


def test_print_says_what_it_leaves_out(page, tmp_path):
    tab = page(written(tmp_path, many(900, 30)))
    tab.until(f"{CELLS}.length")
    tab.send("Emulation.setEmulatedMedia", media="print")
    tab.until("document.querySelector('.print-note')", 60)
    shown = tab.js(ROWS)
    assert shown < 900 and f"{shown} of 900 rows are printed" in tab.text(".print-note")
