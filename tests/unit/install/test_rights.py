"""The table of rights names each right once, with its reason."""

from pathlib import Path

from weir.install.rights import RIGHTS, table


def test_the_table_has_a_row_for_each_right():
    rows = table().splitlines()[2:]
    assert len(rows) == len(RIGHTS)
    assert all(
        right.why in row and ", ".join(right.verbs) in row for right, row in zip(RIGHTS, rows, strict=True)
    )


def test_no_right_is_given_twice():
    given = [
        (right.group, resource, verb, right.own, right.names)
        for right in RIGHTS
        for resource in right.resources
        for verb in right.verbs
    ]
    assert len(given) == len(set(given))


def test_the_page_shows_the_table():
    page = Path(__file__).parents[3] / "docs" / "howto" / "extend-your-cluster.md"
    assert table() in page.read_text()
