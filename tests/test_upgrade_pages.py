"""Claims about docs/howto/upgrade-kep-*.md: each paragraph, item and row names steps of stories, or tests, that exist.

`kep-5471-upgrade-order:3` is the third step of a story; tests/integration/test_demo.py plays every story.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from docs import coverage

from tests.stories import STORIES

BY_NAME = {story.name: story for story in STORIES}
PAGES = {path.stem: path.read_text() for path in (coverage.ROOT / "docs" / "howto").glob("upgrade-kep-*.md")}
KEPS = ("5055", "5471", "5500", "5721")

_STEP = re.compile(r"`(kep-\d+-[a-z0-9-]+):(\d+)`")
_TEST = re.compile(r"`tests/([\w/]+\.py(?:::\w+)?)`")
_BEGINS = re.compile(r"\n\s*\n|\n(?=\d+\. |\| )")


def statements(text: str) -> list[str]:
    """Return the paragraphs, items and rows of a page."""
    return [block.strip() for block in _BEGINS.split(_without_code(text)) if block.strip()]


def _without_code(text: str) -> str:
    """Leave out what states nothing: code, headings, heads of tables, and the lines that say how to read the page."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"^#.*$|^\| step .*\n\|---.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"^Gates?: (?:.+\n)+", "", text, flags=re.MULTILINE)


def wrong(text: str) -> Iterator[str]:
    """Yield every statement that names nothing, and everything named that is not there."""
    for statement in statements(text):
        steps, tests = _STEP.findall(statement), _TEST.findall(statement)
        if not steps and not tests:
            yield f"nothing shows: {statement}"
        for name, number in steps:
            story = BY_NAME.get(name)
            if story is None:
                yield f"no story {name}"
            elif not 1 <= int(number) <= len(story.steps):
                yield f"{name} has no step {number}"
            elif not story.steps[int(number) - 1].outcomes:
                yield f"step {number} of {name} expects nothing"
        yield from (f"there is no test:{each}" for each in tests if not coverage.has_test(each))


@pytest.mark.parametrize("kep", KEPS)
def test_every_statement_of_an_upgrade_page_names_what_shows_it(kep):
    page = PAGES[f"upgrade-kep-{kep}"]
    assert list(wrong(page)) == []
    assert len(statements(page)) >= 6, "the page was read"
    assert f"kep-{kep}-upgrade-order" in page


@pytest.mark.parametrize(
    "text, said",
    [
        ("It works.\n", ["nothing shows: It works."]),
        ("1. One (`kep-5471-upgrade-order:1`).\n2. Two.\n", ["nothing shows: 2. Two."]),
        ("| 1 | kubelets |\n", ["nothing shows: | 1 | kubelets |"]),
        ("So (`kep-5471-nothing:1`).", ["no story kep-5471-nothing"]),
        ("So (`kep-5471-upgrade-order:99`).", ["kep-5471-upgrade-order has no step 99"]),
        (
            "So (`tests/test_upgrade_pages.py::nothing`).",
            ["there is no test:test_upgrade_pages.py::nothing"],
        ),
        ("# Head\n\n| step | why |\n|---|---|\n\n```sh\nweir up\n```\n", []),
    ],
)
def test_what_is_not_shown_is_found(text, said):
    assert list(wrong(text)) == said
