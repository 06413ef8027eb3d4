"""The pictures of the documentation are what the page looks like; `make test-ui PICTURES=1` takes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.ui.conftest import go
from tests.ui.pictures import compact, difference

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SCREENS = {
    "ui-fit": (
        "#/fit?w=Deployment%2Fshop%2Finference&n=a100-3",
        "document.querySelector('#panel pre')",
    ),
    "ui-what-if": (
        "#/what-if?change=taint&nodes=pool%3Da100&key=sla&value=950&effect=NoExecute&t=20",
        "document.querySelector('.lanes')",
    ),
    "ui-devices": ("#/devices?sel=gpu.example.com%2Fa100-2%2Fgpu-3", "document.querySelector('#panel form')"),
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_picture_is_what_the_page_looks_like(page, name, monkeypatch):
    monkeypatch.chdir(ROOT)
    at, ready = SCREENS[name]
    tab = page(Path("examples/gpu-fleet.yaml"))
    tab.size(1280, 760)
    go(tab, at)
    tab.until(ready, 60)
    tab.until("document.fonts.status === 'loaded' && !document.querySelector('[aria-busy]')")
    tab.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    taken, path = tab.picture(), PICTURES / f"{name}.png"
    if os.environ.get("WEIR_PICTURES"):
        path.write_bytes(compact(taken))
    assert path.exists(), "make test-ui PICTURES=1 takes it"
    assert difference(taken, path.read_bytes()) < 0.05
    assert path.stat().st_size < 150_000
