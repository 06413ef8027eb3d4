"""What became of each statement of the KEPs? Rows of `docs/coverage/*.txt`, checked, and written as one page.

A row is `- statement | modules | evidence` below `## section of the document`. Modules are paths below src/weir.
Evidence is one or more of `story:NAME`, `test:PATH[::NAME]` (below tests/), `core:D-NN` and `dra:D-NN` (decisions of
the specification), `decision:N` (docs/decisions), `lint:WNNN`, `page:PATH` (below docs/), `bench:NAME`, `process` (a
statement about the project's process, which asks nothing of a program) and `open` (asked for and not there yet).
`sections.txt` lists the sections of the documents that say anything; each must have a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
#: The documents, by the name under which sections.txt lists them: file and what they are about.
DOCUMENTS: Final[Mapping[str, tuple[str, str]]] = {
    "KEP-5471": ("kep-5471.txt", "numeric comparison operators"),
    "KEP-5721": ("kep-5721.txt", "semantic version operators"),
    "KEP-5500": ("kep-5500.txt", "CEL expressions"),
    "KEP-5055": ("kep-5055.txt", "device taints"),
    "Announcement": ("announcement.txt", "the announcement of v1.35"),
}
_DECISIONS: Final = {"core": "core.md", "dra": "dra.md"}
_INTRODUCTION: Final = """# What became of each statement of the KEPs

Every statement of the five documents that asks something of a program or tells a user something, in the order of the
documents and in our words: the module where it is decided (below `src/weir`), and the story, test, bench or page that
shows it. A decision (`core D-nn` and `dra D-nn` in the [specification](../spec/core.md), others in
[decisions](../decisions/README.md)) says where the sources contradict each other or weir does something else, and why.
Written by `make docs` from `docs/coverage/`; a test fails when something named here does not exist or a section has no
row.
"""


class RowError(ValueError):
    """A line that is no row."""


@dataclass(frozen=True)
class Row:
    """One statement."""

    section: str
    says: str
    modules: tuple[str, ...]
    evidence: tuple[str, ...]

    @property
    def outcome(self) -> str:
        """Return in a word what became of it."""
        if "process" in self.evidence:
            return "process"
        if "open" in self.evidence:
            return "open"
        decided = any(re.match(r"(core|dra|decision):", each) for each in self.evidence)
        return "decided" if decided else "done"

    def missing(self) -> Iterator[str]:
        """Yield what is named and does not exist."""
        if not self.evidence:
            yield "nothing shows it"
        for module in self.modules:
            if not (ROOT / "src" / "weir" / module).is_file():
                yield f"no module {module}"
        for each in self.evidence:
            kind, _, name = each.partition(":")
            check = _CHECKS.get(kind)
            if check is None:
                yield f"{each} is no evidence"
            elif not check(name):
                yield f"there is no {each}"


def rows(document: str) -> list[Row]:
    """Return the rows of a document; raises RowError with the line."""
    found: list[Row] = []
    section = ""
    name = DOCUMENTS[document][0]
    for number, line in enumerate((HERE / name).read_text().splitlines(), 1):
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("- "):
            parts = [part.strip() for part in line[2:].split(" |")]
            if len(parts) != 3 or not parts[0] or not section:
                raise RowError(f"{name}:{number}: write '- statement | modules | evidence' below a section")
            found.append(Row(section, parts[0], tuple(parts[1].split()), tuple(parts[2].split())))
        elif line and not line.startswith("# "):
            raise RowError(f"{name}:{number}: neither a section nor a row: {line}")
    return found


@cache
def sections() -> Mapping[str, tuple[str, ...]]:
    """Return the sections of every document that say anything, in its order."""
    found: dict[str, list[str]] = {}
    for line in (HERE / "sections.txt").read_text().splitlines():
        if line.startswith("# "):
            found[line[2:]] = []
        else:
            found[list(found)[-1]].append(line)
    return {document: tuple(lines) for document, lines in found.items()}


def page() -> str:
    """Return the page."""
    parts = [
        _INTRODUCTION,
        "\n| document | statements | shown | by a decision | process | open |\n|---|---|---|---|---|---|\n",
    ]
    for document, (_, about) in DOCUMENTS.items():
        outcomes = [row.outcome for row in rows(document)]
        counts = " | ".join(str(outcomes.count(each)) for each in ("done", "decided", "process", "open"))
        parts.append(f"| {document}: {about} | {len(outcomes)} | {counts} |\n")
    for document, (_, about) in DOCUMENTS.items():
        parts.append(
            f"\n## {document}: {about}\n\n| section | statement | decided in | shown by |\n|---|---|---|---|\n"
        )
        before = ""
        for row in rows(document):
            section = "" if row.section == before else row.section
            before = row.section
            modules = ", ".join(f"`{module}`" for module in row.modules)
            shown = ", ".join(map(_shown, row.evidence))
            parts.append(f"| {section} | {row.says} | {modules} | {shown} |\n")
    return "".join(parts)


def _shown(evidence: str) -> str:
    kind, _, name = evidence.partition(":")
    match kind:
        case "core" | "dra":
            return f"{kind} {name}"
        case "decision":
            path = _decision(name)
            return f"[decision {name}](../decisions/{path.name})" if path else evidence
        case "page":
            return f"[{Path(name).stem}](../{name})"
        case "lint":
            return f"[{name}](lint/{name}.md)"
        case "story":
            return f"story `{name}`"
        case "bench":
            return f"`bench {name}`"
        case "test":
            return f"`tests/{name}`"
    return "*open*" if kind == "open" else "–"


def _decision(number: str) -> Path | None:
    return next((ROOT / "docs" / "decisions").glob(f"{number:0>4}-*.md"), None)


@cache
def _decided(spec: str) -> frozenset[str]:
    text = (ROOT / "docs" / "spec" / _DECISIONS[spec]).read_text()
    return frozenset(re.findall(r"^\| (D-\d+) \|", text, re.M))


def _has_test(name: str) -> bool:
    path, _, function = name.partition("::")
    file = ROOT / "tests" / path
    return file.is_file() and (not function or f"def {function}(" in file.read_text())


_CHECKS: Final = {
    "story": lambda name: (ROOT / "src/weir/simulation/demo/stories" / f"{name}.yaml").is_file(),
    "test": _has_test,
    "core": lambda name: name in _decided("core"),
    "dra": lambda name: name in _decided("dra"),
    "decision": lambda name: _decision(name) is not None,
    "lint": lambda name: (ROOT / "docs" / "reference" / "lint" / f"{name}.md").is_file(),
    "page": lambda name: (ROOT / "docs" / name).is_file(),
    "bench": lambda name: (ROOT / "bench" / f"{name}.py").is_file(),
    "process": lambda name: not name,
    "open": lambda name: not name,
}
