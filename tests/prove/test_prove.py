"""Claims about the proofs of docs/coverage: rows and tests agree, and a change that no test notices is reported."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from docs import coverage

import weir
from tests.prove.__main__ import Change, all_rows, changes, problems, security_problems, stale


def row(row_id: str, *evidence: str) -> coverage.Row:
    return coverage.Row(row_id, "Goals", "it works", (), evidence)


def test_every_row_has_a_test_and_every_marker_a_row() -> None:
    assert list(problems(all_rows(), coverage.proofs(), changes())) == []


def test_every_test_of_security_has_failed_once() -> None:
    assert list(security_problems((coverage.ROOT / "SECURITY.md").read_text(), changes())) == []


def test_a_test_without_a_change_and_a_change_without_a_promise_are_named() -> None:
    promised = "- a (`tests/a.py::test_a`, `tests/e2e/b.py::test_b`)"
    page = f"## What is promised\n{promised}\n\n## What is not\n`tests/c.py::test_c`"
    assert list(security_problems(page, [Change(tests=("d.py::test_d",), file="a.py")])) == [
        "SECURITY.md: a.py::test_a never failed: add a change to tests/prove",
        "tests/prove: d.py::test_d is not named by SECURITY.md",
    ]


def test_every_change_fits_the_code() -> None:
    assert list(stale(changes(), Path(weir.__file__).parent)) == []


def test_a_change_whose_old_text_is_gone_or_there_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one two two")
    tried = [Change(("1-1",), "a.py", old, "x") for old in ("one", "two", "three")] + [
        Change(("1-2",), "b.py", "x")
    ]
    assert list(stale([*tried, Change(("1-3",), unbreakable="why")], tmp_path)) == [
        "tests/prove: 1-1: a.py does not have the old text once",
        "tests/prove: 1-1: a.py does not have the old text once",
        "tests/prove: 1-2: b.py does not have the old text once",
    ]


@pytest.mark.parametrize(
    "rows, proofs, tried, said",
    [
        ([row("1-1")], {}, [], ["1-1 (it works) has no test: mark one with @pytest.mark.proves('1-1')"]),
        (
            [row("1-1"), row("1-1")],
            {"1-1": ["a.py"]},
            [Change(("1-1",), "a.py", "a", "b")],
            ["1-1 is the id of 2 rows"],
        ),
        (
            [row("1-1")],
            {"1-1": ["kubernetes/test_a.py"]},
            [Change(("1-1",), "a.py", "a", "b")],
            ["1-1 (it works) has no test: mark one with @pytest.mark.proves('1-1')"],
        ),
        ([], {"1-1": ["a.py::test_a"]}, [], ["a.py::test_a proves 1-1, which is no row"]),
        ([], {}, [Change(("1-1",), "a.py", "a", "b")], ["tests/prove: 1-1 is no row"]),
        (
            [row("1-1", "story:s")],
            {},
            [Change(("1-1",), "a.py", "a", "b"), Change(("1-1",), unbreakable="so")],
            ["tests/prove: 1-1 is both changed and unbreakable"],
        ),
        ([row("1-1", "bench:x")], {}, [Change(("1-1",), unbreakable="a cost")], []),
        (
            [row("1-1", "process"), row("1-2", "story:s"), row("1-3")],
            {"1-3": ["a.py"]},
            [Change(("1-2", "1-3"), "a.py", "a", "b")],
            [],
        ),
        (
            [row("1-1", "story:s")],
            {},
            [],
            ["1-1 (it works) was never broken: add a change to tests/prove, or why there is none"],
        ),
    ],
)
def test_what_does_not_agree_is_named(rows, proofs, tried, said) -> None:
    assert list(problems(rows, proofs, tried)) == said


MODULE = """
import pytest
pytestmark = [pytest.mark.proves("1-1")]
PROVES = {"a case": ("1-2", "1-3")}

@pytest.mark.proves("1-4", "1-5")
@pytest.mark.parametrize("n", [0, pytest.param(1, marks=pytest.mark.proves("1-6"))])
async def test_it(n): ...

class Tests:
    @pytest.mark.proves("1-7")
    def test_in_it(self): ...
"""


def test_markers_are_read_wherever_they_stand() -> None:
    assert list(coverage._marked(ast.parse(MODULE))) == [
        ("", "1-1"),
        ("[a case]", "1-2"),
        ("[a case]", "1-3"),
        ("::test_it", "1-4"),
        ("::test_it", "1-5"),
        ("::test_it", "1-6"),
        ("::Tests::test_in_it", "1-7"),
    ]


TESTS = """
import os
import pytest
PROVES = {"one": ("1-2",)}

@pytest.mark.proves("1-1")
def test_a(): assert 0

@pytest.mark.parametrize("n", ["one", "two"])
def test_b(n): assert n == "two"

@pytest.mark.proves("1-3")
def test_c(): pass

@pytest.mark.proves("1-1")
def test_d(): pass

@pytest.mark.proves("1-4")
def test_e(): os._exit(1)
"""


@pytest.mark.parametrize(
    "rows, broken, every, found",
    [
        (["1-1"], [], False, {"1-1": {"failed": ["test_a"]}}),
        (["1-1"], [], True, {"1-1": {"failed": ["test_a"], "passed": ["test_d"]}}),
        (["1-1"], ["test_a"], False, {"1-1": {"passed": ["test_d"]}}),
        (["1-2", "1-3"], [], False, {"1-2": {"failed": ["test_b[one]"]}, "1-3": {"passed": ["test_c"]}}),
        (["1-3", "1-4"], [], False, {"1-3": {"passed": ["test_c"]}, "1-4": {"failed": ["test_e"]}}),
    ],
)
def test_the_tests_of_a_row_run_until_one_fails(tmp_path: Path, rows, broken, every, found) -> None:
    (tmp_path / "test_x.py").write_text(TESTS)
    code = (
        "import json, pytest; from pathlib import Path; from tests.prove.__main__ import Selected;"
        f"answer = Path({str(tmp_path / 'answer.json')!r});"
        f"plugin = Selected(set({rows}), set({[f'test_x.py::{name}' for name in broken]}), {every}, answer);"
        f"pytest.main(['-qq', '-p', 'no:xdist', '--rootdir', {str(tmp_path)!r}, {str(tmp_path)!r}], plugins=[plugin]);"
        "answer.write_text(json.dumps(plugin.result()))"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=coverage.ROOT)
    answer = json.loads((tmp_path / "answer.json").read_text())
    named = {
        row_id: {outcome: [node.partition("::")[2] for node in nodes] for outcome, nodes in outcomes.items()}
        for row_id, outcomes in answer.items()
    }
    assert named == found
