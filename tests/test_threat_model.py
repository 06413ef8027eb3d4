"""Every attack of the threat model names tests that exist, or says that it is open; no attack is left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.statements import statements

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs" / "design" / "threat-model.md", ROOT / "SECURITY.md")
NAMED = re.compile(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`")
ROWS = [
    line for line in PAGES[0].read_text().splitlines() if re.match(r"\| (F\d+|[a-z])", line) and "::" in line
]


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {
        node.name for node in statements(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_is_there(page: Path):
    found = NAMED.findall(page.read_text())
    missing = [
        f"{path}::{name}"
        for path, name in found
        if not (ROOT / path).is_file() or (name and name not in functions(ROOT / path))
    ]
    assert missing == []
    assert len(found) >= 1


def test_every_attack_has_a_row_with_a_test():
    numbers = [row.split("|")[1].strip() for row in ROWS]
    assert [number for number in numbers if number.startswith("F")] == [f"F{n}" for n in range(1, 20)]
    assert all(NAMED.search(row) for row in ROWS)


def test_every_promise_names_a_test():
    """SECURITY.md states only what a test holds: each item of "What is promised" names one."""
    section = PAGES[1].read_text().partition("## What is promised")[2].partition("\n## ")[0]
    promises = re.split(r"^- ", section, flags=re.MULTILINE)[1:]
    assert len(promises) >= 8
    assert [promise for promise in promises if not NAMED.search(promise)] == []
