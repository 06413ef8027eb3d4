"""What `weir explain` prints, held against recorded text. WEIR_UPDATE=1 records it anew."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from weir.cli.main import run

FOLDER = Path(__file__).parent / "explain"
INPUTS = sorted(FOLDER.glob("*.input.yaml"))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name.removesuffix(".input.yaml"))
def test_explain_prints_what_was_recorded(path: Path, capsys: pytest.CaptureFixture[str]):
    command = path.read_text().splitlines()[0].removeprefix("# weir ").format(shlex.quote(str(path)))
    code = run(shlex.split(command))
    captured = capsys.readouterr()
    found = f"{captured.out}{captured.err}(exit code {code})\n".replace(f"{FOLDER}/", "")
    recorded = path.with_name(path.name.replace(".input.yaml", ".output.txt"))
    if os.environ.get("WEIR_UPDATE"):
        recorded.write_text(found)
    assert found == recorded.read_text()


def test_every_record_has_its_input():
    outputs = {path.name.removesuffix(".output.txt") for path in FOLDER.glob("*.output.txt")}
    assert outputs == {path.name.removesuffix(".input.yaml") for path in INPUTS}
