"""What a test reaches is known by statement, measured again only where something changed, and written on a page."""

from __future__ import annotations

import ast
import json
from textwrap import dedent

import pytest

from tests.mutants import page, reached
from tests.mutants.__main__ import KILLED_PERCENT
from tests.mutants.modules import MODULES, source_of
from tests.mutants.operators import Mutations
from tests.mutants.page import Score, read_page, write_page
from tests.mutants.reached import IMPORT, Reached, files_of_tests
from tests.mutants.run import Result, Suite, digest
from tests.mutants.statement_marks import MARK, lines_by_statement, with_marks

SOURCE = dedent(
    '''
    LIMIT = 1

    def f(a):
        """Docs."""
        if (a and
                a > 1):
            return a
        elif a is None:
            raise ValueError
        def inner():
            return LIMIT
        return inner()
    '''
)


def begun(source, call):
    """Return the first lines of the statements that a call begins."""
    found = set()
    namespace = {MARK: found.add}
    exec(compile(with_marks(source), "m.py", "exec"), namespace)
    assert not found  # nothing of a function runs at import
    call(namespace["f"])
    return found


def test_a_statement_is_marked_when_it_is_begun():
    assert begun(SOURCE, lambda f: f(2)) == {6, 8}
    assert begun(SOURCE, lambda f: f(0)) == {6, 9, 11, 12, 13}


def test_what_is_marked_does_what_it_did():
    namespace = {MARK: lambda line: None}
    exec(compile(with_marks(SOURCE), "m.py", "exec"), namespace)
    assert (namespace["f"](2), namespace["f"](0), namespace["f"].__doc__) == (2, 1, "Docs.")
    with pytest.raises(ValueError):
        namespace["f"](None)


def test_every_line_belongs_to_the_innermost_statement_that_holds_it():
    owned = lines_by_statement(ast.parse(SOURCE))
    assert owned[6] == [6, 7] and owned[8] == [8] and owned[9] == [9] and owned[12] == [12]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(reached, "FOLDER", tmp_path)

    def measured(name, lines):
        (tmp_path / "reach-gw0.json").write_text(
            json.dumps(
                {name: {"seconds": 0.1, "lines": {MODULES[0]: lines}}, IMPORT: {"seconds": 0, "lines": {}}}
            )
        )

    return measured


def test_only_what_changed_is_measured_again(kept, monkeypatch):
    (judge, other) = files_of_tests(["tests/unit/taints/test_judge.py", "tests/unit/taints/test_notation.py"])
    found = Reached.read()
    assert found.stale([judge, other]) == [judge, other]
    kept(f"{judge}::test_it", [3])
    found.take([judge])
    assert Reached.read().stale([judge, other]) == [other]
    assert list(Reached.read().within([judge])) == [f"{judge}::test_it", IMPORT]
    monkeypatch.setattr(reached, "source_of", lambda module: source_of(MODULES[1]))
    assert Reached.read().stale([judge]) == [judge]  # a module that it reaches is another now


def suite_of(mutants, **lines):
    reach = {
        f"t.py::{name}": {"seconds": 0.1, "lines": {"m": at} if at else {}} for name, at in lines.items()
    }
    return Suite(reach, {"t.py": "state"}), {mutant.line: mutant for mutant in mutants}


def test_a_line_is_tried_with_the_tests_that_reach_it_and_one_of_the_import_with_all_of_their_file():
    tests, by_line = suite_of(Mutations("m", SOURCE).mutants, a=[6, 7, 8], b=[6, 7, 9], c=[])
    assert tests.reaching(by_line[8]) == ["t.py::a"]
    assert tests.reaching(by_line[12]) == []
    assert tests.reaching(by_line[2]) == ["t.py::a", "t.py::b", "t.py::c"]


def test_a_survivor_is_tried_again_when_its_tests_changed_and_a_dead_one_when_its_module_did():
    survivor = Result("n", "m", 1, "survived", 1, "", digest("source"), "tests")
    assert survivor.still_holds("tests", "source") and not survivor.still_holds("others", "source")
    dead = Result("n", "m", 1, "killed", 1, "t", digest("source"), "tests")
    assert dead.still_holds("others", "source") and not dead.still_holds("tests", "another")


def test_the_page_keeps_the_modules_that_were_not_tried_now(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "FILE", tmp_path / "README.md")
    page.FILE.write_text("# Mutants\n\n")
    write_page([Score(MODULES[1], 20, 19, 2), Score("weir.gone", 1, 1, 0)])
    write_page([Score(MODULES[0], 10, 10, 0)])
    assert list(read_page().values()) == [Score(MODULES[0], 10, 10, 0), Score(MODULES[1], 20, 19, 2)]
    assert page.FILE.read_text().startswith("# Mutants\n\n|") and "| 95.0 |" in page.FILE.read_text()


def test_the_page_has_a_row_for_every_module_and_none_below_the_bound():
    rows = [line.split("`")[1] for line in page.FILE.read_text().splitlines() if line.startswith("| `weir")]
    assert rows == list(MODULES)
    weak = {score.module: score.percent for score in read_page().values() if score.percent < KILLED_PERCENT}
    assert not weak
