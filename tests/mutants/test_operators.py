"""One change at a time, each as it is named."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.mutants.operators import Mutations


def changed(source: str, change: str):
    """Return the namespace of a module with one change made."""
    mutations = Mutations("m", source)
    (number,) = [n for n, mutant in enumerate(mutations.mutants) if mutant.change == change]
    namespace: dict = {}
    exec(mutations.compiled(number, "m.py"), namespace)
    return namespace


@pytest.mark.parametrize(
    "body, change, found",
    [
        ("return a < 3", "< → <=", True),
        ("return a < 3", "< → >=", True),
        ("return a < 3", "3 → 4", True),
        ("return a in (1, 2)", "in → not in", True),
        ("return a and False", "and → or", 3),
        ("return not a", "not x → x", 3),
        ("return a + a", "+ → -", 0),
        ("return True", "True → False", False),
        ("return a", "return … → return None", None),
        ("b = [a]\n    b.append(a)\n    return b", "statement dropped", [3]),
        ("if a:\n        return a\n    return a.real", "condition negated", 3),
        ("return [b for b in (a, 0) if b]", "condition negated", [0]),
    ],
)
def test_a_change_does_what_its_name_says(body, change, found):
    assert changed(f"def f(a):\n    {body}\n", change)["f"](3) == found


def test_a_dropped_yield_leaves_a_generator():
    assert list(changed("def f():\n    yield 'x'\n", "statement dropped")["f"]()) == []


def test_declarations_docstrings_and_annotations_stay_as_they_are():
    source = """
        \"\"\"Docs 1.\"\"\"
        from dataclasses import dataclass
        @dataclass(frozen=True)
        class A:
            x: tuple[1] = None
    """
    assert Mutations("m", dedent(source)).mutants == []


def test_lines_that_run_at_import_are_marked():
    mutants = Mutations("m", "LIMIT = 1\n\n\ndef f(a=2):\n    return a > 3\n").mutants
    assert {mutant.text for mutant in mutants if mutant.at_import} == {"LIMIT = 1", "def f(a=2):"}


def test_equal_changes_to_one_line_are_told_apart():
    mutants = Mutations("m", "def f(a):\n    return a == 'x' or a == 'y'\n").mutants
    assert len({mutant.name for mutant in mutants}) == len(mutants)
