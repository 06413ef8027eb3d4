"""Claims about docs/coverage: every section of the five documents is accounted for, with things that exist.

Rows and the tests that prove them agree: tests/prove/test_prove.py.
"""

import re

import pytest
from docs import coverage

EVERY = [(document, row) for document in coverage.DOCUMENTS for row in coverage.rows(document)]


@pytest.mark.parametrize("document", coverage.DOCUMENTS)
def test_every_section_has_a_row_and_every_row_a_section_in_the_documents_order(document):
    seen = list(dict.fromkeys(row.section for row in coverage.rows(document)))
    assert seen == list(coverage.sections()[document])


def test_everything_that_is_named_exists():
    missing = [f"{document}: {row.says}: {each}" for document, row in EVERY for each in row.missing()]
    assert missing == []


def test_every_statement_of_behaviour_names_what_shows_it():
    bare = [
        row.says
        for _, row in EVERY
        if row.outcome in ("done", "decided")
        and not row.modules
        and not any(":" in e for e in row.evidence)
        and row.id not in coverage.proofs()
    ]
    assert bare == []


def test_no_statement_is_counted_twice_in_a_section():
    told = [(document, row.section, row.says) for document, row in EVERY if row.outcome != "process"]
    assert len(told) == len(set(told))


def test_the_documents_are_read_whole():
    assert len(EVERY) >= 320


def test_the_page_is_what_the_command_writes():
    written = (coverage.ROOT / "docs" / "reference" / "kep-coverage.md").read_text()
    assert written == coverage.page()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("taints/nothing.py",), "no module taints/nothing.py"),
        ((), "there is no story:nothing"),
    ],
)
def test_what_does_not_exist_is_found(row, said):
    made = coverage.Row("1-1", "s", "x", row, ("story:nothing", "core:D-999", "lint:W999", "hope"))
    found = list(made.missing())
    assert said in found and "hope is no evidence" in found and "there is no core:D-999" in found


def test_a_test_is_looked_for_by_its_name():
    path = "test_kep_coverage.py"
    assert coverage.has_test(f"{path}::test_a_test_is_looked_for_by_its_name")
    assert not coverage.has_test(f"{path}::test_of_nothing")


def test_data_files_stay_short():
    for path in coverage.HERE.glob("*.txt"):
        assert len(path.read_text().splitlines()) <= 500, path.name


def test_paraphrases_are_short():
    assert max(len(row.says) for _, row in EVERY) <= 120
    assert not [row.says for _, row in EVERY if re.search(r"\s{2}", row.says)]
