"""CHANGELOG.md is put together from fragments."""

from __future__ import annotations

import pytest
from docs.changelog import main


@pytest.fixture
def root(tmp_path):
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "b.md").write_text("- two\n- three\n")
    (tmp_path / "changelog.d" / "a.md").write_text("One\nand a half.\n")
    return tmp_path


LIST = "- One\n  and a half.\n- two\n- three\n"


def test_the_unreleased_section_is_written_anew_and_keeps_the_fragments(root):
    codes = [main([], root), main([], root)]
    page = (root / "CHANGELOG.md").read_text()
    assert (codes, page.count("## ")) == ([0, 0], 1)
    assert page.endswith(f"## Unreleased\n\n{LIST}") and len(list((root / "changelog.d").iterdir())) == 2


def test_a_release_uses_the_fragments_up_and_stands_above_earlier_ones(root):
    main([], root)
    main(["0.1.0"], root, "2026-01-01")
    (root / "changelog.d" / "c.md").write_text("Four.\n")
    main(["0.2.0"], root, "2026-02-01")
    page = (root / "CHANGELOG.md").read_text()
    assert page.endswith(f"\n## 0.2.0 (2026-02-01)\n\n- Four.\n\n## 0.1.0 (2026-01-01)\n\n{LIST}")
    assert not list((root / "changelog.d").iterdir())


@pytest.mark.parametrize(
    "arguments, code", [(["next"], 2), (["0.1.0", "0.2.0"], 2), (["0.1.0"], 1)], ids=["word", "two", "again"]
)
def test_what_cannot_be_released_changes_nothing(root, capsys, arguments, code):
    main(["0.1.0"], root, "2026-01-01")
    (root / "changelog.d" / "c.md").write_text("Four.\n")
    before = (root / "CHANGELOG.md").read_text()
    assert main(arguments, root) == code
    assert (root / "CHANGELOG.md").read_text() == before and (root / "changelog.d" / "c.md").exists()
