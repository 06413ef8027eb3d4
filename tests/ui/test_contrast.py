"""WCAG 2.2 AA contrast, measured in Chromium on every screen, light and dark, wide and narrow.

axe reports text over gradients and in drawings as undecided; here every text is held against every colour that can lie
behind it (1.4.3), and the edge of every control against what it stands on (1.4.11).
"""

from __future__ import annotations

import pytest

from tests.ui.conftest import go
from tests.ui.test_page import FLEET, SCREENS, SHOP, WHAT_IF

MEASURE = r"""(() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = (top, under, alpha) => [...[0, 1, 2].map((i) => under[i] + (top[i] - under[i]) * top[3] * alpha), 1];
  const linear = (v) => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ratio = (one, other) => {
    const [dark, bright] = [light(one), light(other)].sort((p, q) => p - q);
    return (bright + 0.05) / (dark + 0.05);
  };
  const opacity = (e) => e ? Number(getComputedStyle(e).opacity) * opacity(e.parentElement) : 1;
  // every colour that can lie behind an element: a gradient gives each of its stops
  const behind = (e) => {
    if (!e) return [[255, 255, 255, 1]];
    const style = getComputedStyle(e), stops = style.backgroundImage.match(/rgba?\([^)]*\)/g);
    const own = (stops || [style.backgroundColor]).map(parse);
    if (own.every((colour) => colour[3] === 1)) return own;
    return behind(e.parentElement).flatMap((under) => own.map((colour) => over(colour, under, 1)));
  };
  // in a drawing: the shapes below the middle of the text
  const drawn = (text) => {
    const box = text.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
    const below = [...text.ownerSVGElement.querySelectorAll("rect")].filter((e) => {
      const r = e.getBoundingClientRect();
      return r.left <= x && x <= r.right && r.top <= y && y <= r.bottom;
    }).map((e) => getComputedStyle(e));
    const paint = (grounds, style) => grounds.map((g) => over(parse(style.fill), g, Number(style.opacity)));
    return below.reduce(paint, behind(text.ownerSVGElement));
  };
  const seen = (e) => e.checkVisibility({visibilityProperty: true})
    && !e.closest(".unseen, .skip, :disabled, option, title, datalist");
  const wrong = new Set(), measured = {text: 0, edges: 0};
  const check = (what, e, colour, grounds, wanted) => {
    const found = Math.min(...grounds.map((ground) => ratio(over(colour, ground, opacity(e)), ground)));
    const words = `${what} ${e.tagName}.${e.getAttribute("class")} ${e.textContent.trim().slice(0, 30)}`;
    if (found < wanted - 0.005) wrong.add(`${words}: ${found.toFixed(2)} < ${wanted}`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !seen(e)) continue;
    const style = getComputedStyle(e), size = parseFloat(style.fontSize), inDrawing = Boolean(e.ownerSVGElement);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    measured.text += 1;
    check("text", e, parse(inDrawing ? style.fill : style.color), inDrawing ? drawn(e) : behind(e), large ? 3 : 4.5);
  }
  for (const e of document.querySelectorAll("button, select, input:not([type=range], [type=checkbox])")) {
    const style = getComputedStyle(e);
    if (!seen(e) || parseFloat(style.borderTopWidth) === 0) continue;
    measured.edges += 1;
    check("edge", e, parse(style.borderTopColor), behind(e.parentElement), 3);
    if (e.placeholder) check("placeholder", e, parse(getComputedStyle(e, "::placeholder").color), behind(e), 4.5);
  }
  return {wrong: [...wrong], ...measured};
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_and_every_edge_of_a_control_can_be_seen(page, dark):
    small, fleet, texts, edges = page(SHOP), page(FLEET), 0, 0
    for width in (1440, 390):
        for screen, (at, ready) in SCREENS.items():
            tab = small if screen == "what-if" else fleet  # the small cluster's simulation is short
            tab.size(width, 844, dark=dark)
            go(tab, WHAT_IF if screen == "what-if" else at)
            tab.until(ready)
            found = tab.js(MEASURE)
            assert (width, screen, found["wrong"]) == (width, screen, [])
            texts, edges = texts + found["text"], edges + found["edges"]
    assert texts > 1000 and edges > 100, "the screens are there to be measured"


def test_a_theme_that_was_chosen_is_measured_too(page):
    """The button sets the theme against the system's: its colours are written down a second time."""
    tab = page(FLEET)
    tab.until(SCREENS["fit"][1])
    for system_is_dark, theme in ((True, "light"), (False, "dark")):
        tab.size(1440, 800, dark=system_is_dark)
        tab.js(f"document.documentElement.dataset.theme = '{theme}'")
        assert (theme, tab.js(MEASURE)["wrong"]) == (theme, [])


def test_the_measure_notices_what_cannot_be_read(page):
    tab = page(FLEET)
    tab.until(SCREENS["fit"][1])
    tab.js("document.documentElement.style.setProperty('--soft', '#a0a0a0')")
    assert any(each.startswith("text") for each in tab.js(MEASURE)["wrong"])
    tab.js("document.documentElement.style.setProperty('--edge', '#dddddd')")
    assert any(each.startswith("edge") for each in tab.js(MEASURE)["wrong"])
