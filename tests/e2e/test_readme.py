"""README's nine things, from top to bottom in one terminal: every command as written, with the output that is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documented import ROOT, shown
from tests.e2e.kubectl import newest_kubectl
from tests.e2e.shell import Shell

README = ROOT / "README.md"


def test_readme_can_be_done_from_top_to_bottom(tmp_path: Path) -> None:
    kubectl = newest_kubectl()
    things = list(shown(README, "Nine things to try"))
    assert len(things) > 20
    if lacking := [reason for one in things if (reason := kubectl.lacks(one.command))]:
        pytest.skip(f"{lacking[0]}: README is not done")
    with Shell(tmp_path) as shell:
        shell.look_like_checkout()
        for one in things:
            assert shell.do(one) == ""
