"""A browser for all tests of the page, and pages of dumps and live clusters in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.ui.browser import Browser, Tab, chromium, find_chromium
from tests.ui.npm_packages import fetched
from weir.inputs.live import ClusterSource
from weir.ui.screens import Screens
from weir.ui.server import Server
from weir.ui.source import open_source

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    binary = find_chromium()
    if binary is None:
        pytest.skip("there is no chromium: `make test-ui` installs it where it can")
    with chromium(binary) as found:
        yield found


@pytest.fixture(scope="session")
def screens_of_dump() -> Iterator[Callable[[Path], Screens]]:
    """Return what gives the screens of a dump: it never changes, so what was worked out for one test serves all."""
    with ExitStack() as stack:

        @cache
        def give(dump: Path) -> Screens:
            return _screens(ClusterSource((str(dump),)), stack)

        yield give


@pytest.fixture
def serve(screens_of_dump) -> Iterator[Callable[..., Server]]:
    """Return what serves the page of a cluster; all are stopped at the end."""
    with ExitStack() as stack:

        def give(where: ClusterSource | Path, *, read_only: bool = False) -> Server:
            shared = isinstance(where, Path)
            screens = screens_of_dump(where) if shared else _screens(where, stack, read_only=read_only)
            server = Server(screens)
            server.start()
            stack.callback(server.stop)
            return server

        yield give


def _screens(where: ClusterSource, stack: ExitStack, *, read_only: bool = False) -> Screens:
    source = open_source(where, {})
    source.start()
    stack.callback(source.stop)
    return Screens(source, read_only=read_only)


@pytest.fixture
def page(browser, serve) -> Iterator[Callable[..., Tab]]:
    """Return what opens the page of a cluster in the browser, at an address of the page.

    At the end no script of any page may have failed, and nobody else may have been asked for anything.
    """
    tabs: list[tuple[Tab, str]] = []

    def give(where: ClusterSource | Path, at: str = "", **options: Any) -> Tab:
        server = serve(where, **options)
        tab = browser.tab()
        tabs.append((tab, f"http://127.0.0.1:{server.server_port}/"))
        tab.open(server.door.url)
        tab.until("document.querySelector('nav')")
        if at:
            go(tab, at)
        return tab

    yield give
    for tab, origin in tabs:
        tab.js("1")  # what it still has to say is heard before
        tab.close()
        assert tab.errors == []
        assert [url for url in tab.requests if not url.startswith((origin, "data:"))] == []


def go(tab: Tab, at: str) -> None:
    """Go to an address of the page."""
    tab.js(f"location.hash = {json.dumps(at)}")


@pytest.fixture(scope="session")
def axe() -> str:
    """The script that looks for what keeps people out."""
    return (fetched("axe-core") / "axe.min.js").read_text()


def violations(tab: Tab) -> list[str]:
    """Return what axe, which the tab has run, finds wrong with the page as it is: WCAG 2.2, levels A and AA."""
    options = {
        "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
        "resultTypes": ["violations"],  # of what is right, one example each is described instead of all
    }
    found = tab.js(
        f"axe.run(document, {json.dumps(options)}).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => "
        "`${v.id}: ${n.html.slice(0, 120)} ${n.failureSummary.slice(0, 300)}`)))"
    )
    return list(found)
