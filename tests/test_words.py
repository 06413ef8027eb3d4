"""Plain words: module docstrings state, and no definition is named by a word that CONTRIBUTING replaces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "weir"
LABELS = ("What surprises:", "Not here:")
#: Names that say nothing of a value, and the packages whose variables and parameters do without them.
VAGUE = frozenset({"asked", "found", "given", "said", "told"})
PRECISE = ("conformance/", "explain/", "lint/")
COMPONENT = re.compile(r"`component: what changed`")

_TABLE = re.compile(r"^\| not in names \|.*?\n\|[-|]+\n(.*?)\n\n", re.MULTILINE | re.DOTALL)
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def rule_text() -> str:
    return (ROOT / "CONTRIBUTING.md").read_text()


def banned_words() -> frozenset[str]:
    """Return the first column of CONTRIBUTING's word list."""
    table = _TABLE.search(rule_text())
    assert table is not None, "CONTRIBUTING.md has no word list"
    return frozenset(
        word for row in table[1].splitlines() for word in re.findall(r"`(\w+)`", row.split("|")[1])
    )


def words_of(name: str) -> list[str]:
    """Return the words of a name.

    >>> words_of("_TokenKeeper"), words_of("was_told")
    (['token', 'keeper'], ['was', 'told'])
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")


def opens_with_a_question(docstring: str) -> bool:
    """Return whether the first paragraph asks; code in backticks does not.

    >>> opens_with_a_question("Who is next? The queue."), opens_with_a_question("The path `.a[?(@.b)]`.")
    (True, False)
    """
    return "?" in re.sub(r"`[^`]*`", "", docstring.split("\n\n")[0])


@cache
def modules() -> dict[str, ast.Module]:
    """Return every module of weir by its path without the suffix."""
    return {
        path.relative_to(SOURCE).with_suffix("").as_posix(): ast.parse(path.read_text())
        for path in sorted(SOURCE.rglob("*.py"))
    }


def offences(banned: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the path of a module and what is wrong with its docstring or names."""
    for path, tree in modules().items():
        docstring = ast.get_docstring(tree) or ""
        if opens_with_a_question(docstring):
            yield path, f"opens with a question: {docstring.splitlines()[0]}"
        for label in LABELS:
            if label in docstring:
                yield path, f"has a paragraph {label!r}: state it, or leave it out"
        names = [
            path.rpartition("/")[2],
            *(one.name for one in ast.walk(tree) if isinstance(one, _DEFINITIONS)),
        ]
        for name in names:
            for word in banned.intersection(words_of(name)):
                yield path, f"{name} is named {word!r}"


def variables(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the variables and parameters of a module.

    >>> sorted(variables(ast.parse("def f(a):\\n  match a:\\n    case [b]:\\n      c = b")))
    ['a', 'b', 'c']
    """
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.MatchAs(name=str(name)) | ast.Name(id=name, ctx=ast.Store()):
                yield name


def test_variables_say_what_they_hold():
    clean = {path: tree for path, tree in modules().items() if path.startswith(PRECISE)}
    vague = [f"{path}: {name}" for path, tree in clean.items() for name in variables(tree) if name in VAGUE]
    assert len(clean) > 40 and vague == []


def test_modules_state_and_definitions_have_plain_names():
    wrong = [f"{path}: {what}" for path, what in offences(banned_words())]
    assert not wrong, "\n".join(wrong)


def test_modules_of_tests_benchmarks_and_tools_state():
    folders = ("tests", "bench", "docs", "tools", "examples")
    texts = {path: path.read_text() for name in folders for path in (ROOT / name).rglob("*.py")}
    heads = {path: re.match(r'(?:#.*\n)*"""(.*?)"""', text, re.DOTALL) for path, text in texts.items()}
    asking = [path for path, head in heads.items() if head and opens_with_a_question(head[1])]
    assert sum(map(bool, heads.values())) > 500 and asking == []


def test_the_rules_are_written_down():
    text = rule_text()
    assert "A module docstring states" in text
    assert "opens with the question" not in text
    assert COMPONENT.search(text), "CONTRIBUTING says no longer what the subject of a commit looks like"


def test_a_question_and_a_banned_name_are_found():
    assert opens_with_a_question("Which pods go?\n\nThose that must.")
    assert not opens_with_a_question("Pods to delete.\n\nWhy? Because.")
    assert {"nobody", "keeper", "told"} <= banned_words()
    assert banned_words().intersection(words_of("nobody_may")) == {"nobody"}
