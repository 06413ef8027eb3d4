"""The statements of the KEPs: rows of `docs/coverage/*.txt`, written as one page with the tests that prove them.

A row is `- id: statement | modules | evidence` below `## section of the document`; ids are never used again. Modules
are paths below src/weir. Evidence is any of `story:NAME`, `core:D-NN` and `dra:D-NN` (decisions of the specification),
`decision:N` (docs/decisions), `lint:WNNN`, `page:PATH` (below docs/), `bench:NAME`, `process` (a statement about the
project's process, which asks nothing of a program) and `open` (asked for and not there yet). Tests are not listed: they
carry the ids of the rows they prove, as `@pytest.mark.proves("5471-12")`, as `pytestmark` of a whole module, or as
a table `PROVES = {"case": ("5471-12",)}` of a module with parametrised tests.
`sections.txt` lists the sections of the documents that say anything; each must have a row.
"""

from __future__ import annotations

import ast
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
_ID: Final = re.compile(r"[\d.]+-\d+")
_DECISIONS: Final = {"core": "core.md", "dra": "dra.md"}
_INTRODUCTION: Final = """# What became of each statement of the KEPs

Every statement of the five documents that asks something of a program or tells a user something, in the order of the
documents and in our words: the module where it is decided (below `src/weir`), and the story, test, bench or page that
shows it. A decision (`core D-nn` and `dra D-nn` in the [specification](../spec/core.md), others in
[decisions](../decisions/README.md)) says where the sources contradict each other or weir does something else, and why.
Written by `make docs` from `docs/coverage/` and the markers of the tests. `make check` fails when a statement has no
test, or neither a change that breaks it nor a reason why none does (`tests/prove`), and when a test names a statement
that is not there; `make prove` makes the statements false one by one and runs their tests
([decision 134](../decisions/0134-a-statement-is-proven-by-breaking-it.md)).
"""


class RowError(ValueError):
    """A line that is no row."""


@dataclass(frozen=True)
class Row:
    """One statement."""

    id: str
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
            row_id, _, says = parts[0].partition(": ")
            if len(parts) != 3 or not _ID.fullmatch(row_id) or not says or not section:
                raise RowError(
                    f"{name}:{number}: write '- id: statement | modules | evidence' below a section"
                )
            found.append(Row(row_id, section, says, tuple(parts[1].split()), tuple(parts[2].split())))
        elif line and not line.startswith("# "):
            raise RowError(f"{name}:{number}: neither a section nor a row: {line}")
    return found


@cache
def proofs() -> Mapping[str, tuple[str, ...]]:
    """Return the tests that carry the id of each row, as PATH[::NAME] or PATH[CASE] below tests/; reads syntax only."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text()
        if "mark.proves(" in text or "PROVES" in text:
            name = path.relative_to(ROOT / "tests").as_posix()
            for test, row_id in _marked(ast.parse(text)):
                found.setdefault(row_id, []).append(f"{name}{test}")
    return {row_id: tuple(tests) for row_id, tests in found.items()}


def _marked(tree: ast.Module | ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield what a module's markers and its table say: the test, from `::` or `[` on, and the row's id."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield from ((f"::{name}", row_id) for each in node.decorator_list for row_id in _ids(each))
            case ast.ClassDef(name=name):
                yield from ((f"::{name}{test}", row_id) for test, row_id in _marked(node))
            case ast.Assign(targets=[ast.Name("pytestmark")], value=value):
                yield from (("", row_id) for row_id in _ids(value))
            case ast.Assign(targets=[ast.Name("PROVES")], value=value):
                table = ast.literal_eval(value)
                yield from ((f"[{case}]", row_id) for case, row_ids in table.items() for row_id in row_ids)


def _ids(node: ast.AST) -> Iterator[str]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "proves":
            yield from (ast.literal_eval(argument) for argument in call.args)


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
            f"\n## {document}: {about}\n\n"
            "| section | id | statement | decided in | shown by |\n|---|---|---|---|---|\n"
        )
        before = ""
        for row in rows(document):
            section = "" if row.section == before else row.section
            before = row.section
            modules = ", ".join(f"`{module}`" for module in row.modules)
            tests = (f"test:{test}" for test in proofs().get(row.id, ()))
            shown = ", ".join(map(_shown, (*row.evidence, *tests)))
            parts.append(f"| {section} | {row.id} | {row.says} | {modules} | {shown} |\n")
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


def has_test(name: str) -> bool:
    """Whether tests/ has a file, or a function of it, called PATH[::NAME]."""
    path, _, function = name.partition("::")
    file = ROOT / "tests" / path
    return file.is_file() and (not function or f"def {function}(" in file.read_text())


_CHECKS: Final = {
    "story": lambda name: (ROOT / "src/weir/simulation/demo/stories" / f"{name}.yaml").is_file(),
    "core": lambda name: name in _decided("core"),
    "dra": lambda name: name in _decided("dra"),
    "decision": lambda name: _decision(name) is not None,
    "lint": lambda name: (ROOT / "docs" / "reference" / "lint" / f"{name}.md").is_file(),
    "page": lambda name: (ROOT / "docs" / name).is_file(),
    "bench": lambda name: (ROOT / "bench" / f"{name}.py").is_file(),
    "process": lambda name: not name,
    "open": lambda name: not name,
}
