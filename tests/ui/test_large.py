"""5,000 nodes × 2,000 workloads, and 10,000 devices: the page draws what is in sight, and no more, at every step.

How long a browser takes for it is up to the machine; what keeps it short is that few elements are there and few are
made again. Both are counted.
"""

from __future__ import annotations

import json

import pytest

from tests.ui.conftest import go
from tests.ui.large import documents, slices

CELLS = "document.querySelectorAll('[role=gridcell]').length"
ELEMENTS = "document.querySelectorAll('*').length"
MOST_ELEMENTS = 12_000  #: of a screen full of them; there are 10,000,000 cells and 10,000 devices
OBSERVE = """(() => { window.made = 0; new MutationObserver((records) => {
  for (const record of records) window.made += record.addedNodes.length;
}).observe(document.body, {childList: true, subtree: true}); return true; })()"""


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "dump.json"
    found = [*documents(pods=1), *slices(10_000)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}))
    return path


def step(tab, selector, change, event):
    """Change an element, as a reader does by typing or scrolling; return how many nodes the page made for it."""
    tab.js(
        f"(() => {{ window.made = 0; const e = document.querySelector({json.dumps(selector)}); {change};"
        f"e.dispatchEvent(new Event('{event}')); return document.body.offsetHeight; }})()"
    )
    tab.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
    assert tab.js(ELEMENTS) < MOST_ELEMENTS
    return tab.js("window.made")


def typed(tab, word):
    return step(tab, "input[name=q]", f"e.value = {json.dumps(word)}", "input")


def scrolled(tab, selector, to):
    return step(tab, selector, f"e.scrollTop = {to}", "scroll")


def test_the_matrix_and_the_fleet_hold_only_what_is_in_sight(page, dump):
    tab = page(dump)
    tab.until(CELLS, 120)
    tab.js(OBSERVE)
    assert "2,000 of 2,000 workloads, 5,000 nodes" in tab.text(".toolbar")
    assert tab.js(CELLS) < 2000
    made = [typed(tab, word) for word in ("app-01", "team-7", "sla", "x", "")]
    made += [scrolled(tab, ".grid", number * 3000) for number in range(1, 12)]
    go(tab, "#/devices")
    tab.until("document.querySelectorAll('.tile').length", 120)
    assert "10,000 of 10,000 devices" in tab.text(".toolbar")
    made += [typed(tab, word) for word in ("gpu-3", "node-00012", "gpu-1", "x", "")]
    made += [scrolled(tab, ".fleet", number * 2000) for number in range(1, 6)]
    assert max(made) < MOST_ELEMENTS, made
    assert any(made), "steps are seen"
