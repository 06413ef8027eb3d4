"""Every `$ weir …` in the pages about questions prints what the page shows. WEIR_UPDATE=1 writes it anew."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from weir.cli.main import run

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "docs" / "tutorial" / "explain.md",
    ROOT / "docs" / "howto" / "why-is-my-pod-pending.md",
    ROOT / "docs" / "howto" / "explain-in-a-pipeline.md",
    ROOT / "docs" / "howto" / "before-you-taint.md",
]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def produced(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    words, _, wanted = command.removeprefix("$ weir ").partition("; echo $?")
    code = run(shlex.split(words))
    captured = capsys.readouterr()
    return captured.out + captured.err + (f"{code}\n" if wanted or command.endswith("; echo $?") else "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_is_printed(page: Path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    text = page.read_text()
    blocks = BLOCK.findall(text)
    assert blocks, f"{page.name} shows no command"
    for block in blocks:
        command, _, shown = block.partition("\n")
        found = produced(command, capsys)
        if os.environ.get("WEIR_UPDATE"):
            text = text.replace(f"```console\n{block}```", f"```console\n{command}\n{found}```")
            page.write_text(text)
        else:
            assert shown == found, command
