"""Code, commands and links of the documentation's pages."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCED = re.compile(r"^ *```(\w*)([^\n]*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?:^(?: {4,})\S.*\n)+", re.MULTILINE)
_INLINE = re.compile(r"`(weir [^`]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Shown:
    """A command a page shows, and what it says is printed."""

    page: Path
    command: str
    output: str
    note: str = ""
    """What the fence says behind its language, for example "run-by: tests/…"."""

    def __str__(self) -> str:
        return f"{self.page.stem}: {self.command[:60]}"


def shown(page: Path, section: str = "") -> Iterator[Shown]:
    """Yield the commands of the console blocks of *page*, continued lines joined, remarks taken off.

    With *section* only those between that heading of the second level and the next one.
    """
    return (one for kind, one in _commands(page, section) if kind == "console")


def typed(page: Path) -> Iterator[Shown]:
    """Yield the commands of all blocks of *page* that a reader types into a shell, in their order."""
    return (one for _, one in _commands(page))


def _commands(page: Path, section: str = "") -> Iterator[tuple[str, Shown]]:
    text = page.read_text()
    if section:
        text = text.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    for kind, note, block in _FENCED.findall(text):
        if kind not in ("console", "sh"):
            continue
        block = textwrap.dedent(block)
        if kind == "sh":  # every line is a command
            block = re.sub(r"^(?=\S)(?<!\\\n)", "$ ", block, flags=re.MULTILINE)
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.split("\n")
            command = lines.pop(0)
            while command.endswith("\\"):
                command = command[:-1] + lines.pop(0).strip()
            yield kind, Shown(page, re.sub(r"\s+# .*$", "", command), "\n".join(lines), note.strip())


def files(page: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of every file that *page* shows: a block whose first line is a remark with the name."""
    for _, _, block in _FENCED.findall(page.read_text()):
        if named := re.match(r"# ([\w./-]+\.(?:yaml|yml|toml))\n", block):
            yield named[1], block


def has_indented_commands(page: Path) -> bool:
    """Whether *page* has code that stands in no fence, where no test finds its commands."""
    return bool(_INDENTED.search(_FENCED.sub("", page.read_text())))


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of every command of weir that *page* writes down, wherever it stands."""
    text = page.read_text()
    for one in shown(page):
        yield from weir_words(one.command)
    for kind, _, block in _FENCED.findall(text):
        if kind in ("sh", ""):
            for line in block.splitlines():
                yield from weir_words(line.removeprefix("$ "))
    plain = _FENCED.sub("", text)
    for block in _INDENTED.findall(plain):
        for line in block.splitlines():
            yield from weir_words(line.strip())
    for code in _INLINE.findall(plain.replace("\n", " ")):
        yield from weir_words(code)


def weir_words(line: str) -> Iterator[list[str]]:
    """Yield what stands after `weir` in every command of a shell's line.

    >>> list(weir_words("helm template . | weir lint - -o json > found.json  # a pipe"))
    [['lint', '-', '-o', 'json']]
    """
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    try:
        words = list(reader)
    except ValueError:  # no line of a shell: a quote that never ends
        return
    command: list[str] | None = None
    for word in [*words, ";"]:
        if set(word) <= set("|&;<>()"):
            if command is not None:
                yield command
            command = None
        elif command is not None:
            command.append(word)
        elif word in ("weir", ".venv/bin/weir"):
            command = []


def links(page: Path) -> Iterator[str]:
    """Yield where the links of *page* point, those to other sites left out."""
    for target in _LINK.findall(_FENCED.sub("", page.read_text())):
        if "://" not in target:
            yield target
