"""The screens in one file: opened from disk, it shows the same and asks nobody for anything."""

from __future__ import annotations

import json

from click.testing import CliRunner

from tests.ui.conftest import EXAMPLES, violations
from weir.cli.main import weir

CELLS = "[...document.querySelectorAll('[role=gridcell]')]"


def written(folder, dump, *more):
    path = folder / "report.html"
    result = CliRunner().invoke(weir, ["ui", "--cluster", str(EXAMPLES / dump), "-o", str(path), *more])
    assert result.exit_code == 0, result.output
    return path


def test_the_file_shows_all_screens_and_makes_no_request(browser, tmp_path, axe):
    path = written(
        tmp_path, "shop-cluster.yaml", "--what-if", "taint -l pool=spot failure-probability=15:NoExecute"
    )
    tab = browser.tab(path.as_uri())
    tab.until(f"{CELLS}.length === 8")
    tab.js(f"{CELLS}[0].click()")
    tab.until("document.querySelector('#panel .verdict')")
    tab.js(axe)
    assert violations(tab) == []
    tab.js("location.hash = '#/what-if'")
    tab.until("document.querySelector('.lanes')")
    tab.js(
        "(() => { const e = document.querySelector('input[type=range]'); e.value = e.max;"
        "e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change')); })()"
    )
    tab.until("document.querySelector('main').innerText.includes('failure-probability=20:NoExecute')")
    tab.js("location.hash = '#/devices'")
    tab.until("document.querySelector('main').innerText.includes('publishes no devices')")
    assert "frozen at" in tab.text("#top")
    own = path.as_uri()
    assert {url.partition("#")[0] for url in tab.requests} <= {own, "data:,"}
    assert tab.errors == []
    tab.close()


def test_a_file_without_a_change_says_how_to_get_one(browser, tmp_path):
    tab = browser.tab(written(tmp_path, "gpu-fleet.yaml").as_uri() + "#/what-if")
    tab.until("document.querySelector('main').innerText.includes('--what-if')")
    tab.js("location.hash = '#/devices'")
    tab.until("document.querySelectorAll('.tile').length === 64")
    assert tab.errors == []
    tab.close()


def test_names_cannot_leave_the_data(tmp_path, browser):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "</script><script>document.title='owned'</script>"},
           "spec": {"containers": [{"name": "c"}]}}  # fmt: skip
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]}))
    path = tmp_path / "report.html"
    result = CliRunner().invoke(weir, ["ui", "--cluster", str(dump), "-o", str(path)])
    assert result.exit_code == 0, result.output
    tab = browser.tab(path.as_uri())
    tab.until("document.querySelector('.grid')")
    assert tab.js("document.title") == "Fit · weir" and tab.errors == []
    tab.close()
