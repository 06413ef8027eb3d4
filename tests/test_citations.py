"""Every citation resolves: `Spec:` of docstrings, numbered decisions, module names in prose, links between pages."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.statements import statements

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "docs" / "spec"
DECISIONS = {int(path.name[:4]) for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md")}
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]
    if ".venv" not in path.parts
)
SOURCES = sorted((ROOT / "src").rglob("*.py"))

_SECTION = re.compile(r"^#{2,5} (\d+(?:\.\d+)*)\.?\s+(.*)$", re.MULTILINE)
_CITED = re.compile(
    r"\b(core|apiserver|cel|dra|stock)\.md((?: (?:and |, )?\d+(?:\.\d+)*(?:[–-]\d+(?:\.\d+)*)?(?: \"[^\"]+\")?,?)*)"
)
_NUMBER = re.compile(r"(\d+(?:\.\d+)*)(?: \"([^\"]+)\")?")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_MODULE = re.compile(r"(?<![\w./])weir(?!\.(?:dev|example)\b)(?:\.[a-z_0-9]+)+\b(?!\.json)")
_DECISION = re.compile(r"\bdecision (\d+)\b|docs/decisions/(\d{4})")


def sections(page: str) -> dict[str, str]:
    """Return the text of every numbered section, its title first, with the sections inside it."""
    text = (SPECS / page).read_text()
    heads = list(_SECTION.finditer(text))
    found = {}
    for index, head in enumerate(heads):
        inside = f"{head[1]}."
        end = next(
            (later.start() for later in heads[index + 1 :] if not later[1].startswith(inside)), len(text)
        )
        found[head[1]] = text[head.start(2) : end]
    return found


SECTIONS = {path.name: sections(path.name) for path in SPECS.glob("*.md")}


def docstrings(path: Path) -> Iterator[str]:
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def wrong_sections(text: str) -> Iterator[str]:
    """Yield every cited section of a specification that is not there, or is about something else."""
    for page, numbers in _CITED.findall(re.sub(r"\s+", " ", text)):
        known = SECTIONS[f"{page}.md"]
        for number, title in _NUMBER.findall(numbers):
            if number not in known:
                yield f"{page}.md has no section {number}"
            elif title and plain(title) not in plain(known[number]):
                yield f"{page}.md {number} ({known[number].splitlines()[0]!r}) says nothing of {title!r}"


def plain(text: str) -> str:
    return re.sub(r"[`*]", "", text).casefold()


def anchor(heading: str) -> str:
    """Return the anchor a heading gets in rendered Markdown."""
    return re.sub(r"[^\w\- ]", "", heading.strip().casefold().replace("`", "")).replace(" ", "-")


def test_source_files_cite_what_exists():
    wrong = [f"{path.relative_to(ROOT)}: {fault}" for path in SOURCES for fault in wrongly_cited(path)]
    assert not wrong


def wrongly_cited(path: Path) -> Iterator[str]:
    """Yield every section, decision and module that a source file's docstrings name and that is not there."""
    text = "\n".join(docstrings(path))
    yield from wrong_sections(text)
    for pair in _DECISION.findall(text):
        if (number := int(pair[0] or pair[1])) not in DECISIONS:
            yield f"no decision {number}"
    yield from (f"no module {name}" for name in set(_MODULE.findall(text)) if not exists(name))


@cache
def exists(name: str) -> bool:
    """Whether *name* is a module of weir's, or a name inside one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.util.find_spec(".".join(parts[:length]))
        except ModuleNotFoundError:
            found = None
        if found is not None and found.origin is not None:
            rest = parts[length:]
            return not rest or re.search(rf"\b{rest[0]}\b", Path(found.origin).read_text()) is not None
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_links_to_what_exists(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    wrong = list(wrong_sections(text))
    for target in ("".join(pair) for pair in _LINK.findall(text)):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, fragment = target.partition("#")
        file = page if not place else (page.parent / place).resolve()
        if not file.exists():
            wrong.append(f"{target}: not there")
        elif fragment and file.suffix == ".md":
            headings = re.findall(r"^#{1,6} (.*)$", file.read_text(), re.MULTILINE)
            if fragment not in map(anchor, headings):
                wrong.append(f"{target}: no such heading")
    assert not wrong


_PATH = re.compile(r"`((?:src/weir/)?[a-z_]+(?:/[a-z_]+)*(?:\.py|/))`")


@pytest.mark.parametrize(
    "page", ["docs/design/architecture.md", "docs/design/glossary.md", "CONTRIBUTING.md"]
)
def test_a_design_page_names_files_that_exist(page):
    """A path is meant from `src/weir` or from the root; a bare file name after a path, from that path's folder."""
    wrong = []
    for line in (ROOT / page).read_text().splitlines():
        folder = ROOT / "src" / "weir"
        for named in _PATH.findall(line):
            places = [ROOT / "src" / "weir" / named, ROOT / named, folder / named]
            places += [ROOT / "src" / "weir" / room / named for room in _ROOMS]
            found = next((place for place in places if place.exists()), None)
            if found is None:
                wrong.append(named)
            else:
                folder = found if found.is_dir() else found.parent
    assert not wrong


#: The glossary's tables are each about one of these.
_ROOMS = ("scheduler", "controllers", "apiserver", "client")
