"""The pages tell the truth: what they show is printed, what they name is there, what they link to exists.

WEIR_UPDATE=1 writes what is printed into the pages. Commands that need a running cluster are run by
tests/e2e/test_tutorial.py, stories by tests/integration/test_demo.py.
"""

from __future__ import annotations

import fnmatch
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from docs.generate import commands as every_command

from tests.documented import PAGES, ROOT, Shown, commands, links, shown, weir_words
from weir.cli.main import run, weir

#: Questions about files: they can be asked anywhere.
QUESTIONS = ("explain", "lint", "cel", "what-if", "plan", "advise")


def is_question(one: Shown) -> bool:
    """Whether a command shows an answer that it finds in files."""
    words = next(weir_words(one.command), [""])
    return (
        words[0] in QUESTIONS
        and ("--cluster" in words[:-1] or words[0] == "cel")
        and bool(one.output.strip())
    )


ANSWERED = [one for page in PAGES for one in shown(page) if is_question(one)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("one", ANSWERED, ids=str)
def test_a_page_shows_what_is_printed(one: Shown, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(
        ROOT / "examples" if one.page.parent.name == "tutorial" else ROOT
    )  # as they say themselves
    words, _, _ = one.command.partition("; echo $?")
    code = run(shlex.split(words.removeprefix("weir ")))
    captured = capsys.readouterr()
    found = captured.out + captured.err + (f"{code}\n" if one.command.endswith("; echo $?") else "")
    if os.environ.get("WEIR_UPDATE") and "…" not in one.output:
        one.page.write_text(one.page.read_text().replace(one.output, found))
    else:
        pattern = one.output.replace("[", "[[]").replace("…", "*")
        assert fnmatch.fnmatchcase(found.strip(), pattern.strip()), f"{one.command}\n{found}"


def test_the_answers_of_the_pages_are_found():
    assert {one.page.stem for one in ANSWERED} >= {
        "README",
        "explain",
        "why-is-my-pod-pending",
        "before-you-taint",
    }


#: The specification also names commands that are still to come.
@pytest.mark.parametrize("page", [page for page in PAGES if "spec" not in page.parts], ids=name)
def test_every_command_a_page_names_is_there_with_its_options(page: Path):
    assert [wrong for words in commands(page) if (wrong := unknown(words))] == []


def test_every_command_in_a_help_text_is_there_with_its_options():
    lines = [line for _, command in every_command(weir, "weir") for line in (command.help or "").splitlines()]
    found = [words for line in lines for words in weir_words(line.strip())]
    assert len(found) > 30 and [wrong for words in found if (wrong := unknown(words))] == []


def test_every_page_is_reached_from_the_table_of_contents():
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        left += [(page.parent / target.partition("#")[0]).resolve() for target in links(page)]
    assert set(PAGES) - reached == set()


def test_the_page_of_commands_says_what_their_help_says():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    # In a process of its own: click keeps the help option that a command was first called with.
    code = "from docs.generate import cli_page; print(cli_page(), end='')"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert page == said.stdout, "run: make docs"


def test_the_page_about_pipelines_names_every_kind_of_reason():
    schema = json.loads((ROOT / "docs" / "reference" / "explain.schema.json").read_text())
    page = (ROOT / "docs" / "howto" / "explain-in-a-pipeline.md").read_text()
    kinds = schema["$defs"]["reason"]["properties"]["kind"]["enum"]
    assert [kind for kind in kinds if f"`{kind}`" not in page] == []


# ── what there is ────────────────────────────────────────────────────────────────────────────────


def unknown(words: list[str]) -> str:
    """Return what of a command is not there, or ""."""
    command: click.Command = weir
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        child = command.get_command(click.Context(command), rest[0])
        if child is None:
            return "" if rest[0] in ("…", "--help") else f"{' '.join(words)}: no command {rest[0]}"
        command = child
        rest.pop(0)
    known = {opt for parameter in command.params for opt in (*parameter.opts, *parameter.secondary_opts)}
    for word in rest:
        if word == "--":  # the rest is for another program
            break
        option = word.partition("=")[0] if word.startswith("--") else word[:2]
        named = word.startswith("-") and not word[1:2].isdigit() and word != "-"
        if named and option not in known | {"--help", "-h", "--debug"}:
            return f"{' '.join(words)}: no option {option}"
    return ""
