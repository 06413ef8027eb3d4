"""Every import points down, or stays in its row: the picture of docs/design/architecture.md, held against the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.statements import statements

SOURCE = Path(__file__).parents[1] / "src" / "weir"

#: From the bottom up; a package may import from its own row and from the rows before it.
ROWS: list[set[str]] = [
    {"values", "gates", "errors", "objects", "clock", "callable_package", "caches"},
    {"cel"},
    {"taints", "selectors"},
    {"devices"},
    {"validate", "customresources", "policies", "lint", "world", "lowering"},
    {"store", "client", "observe", "certificates"},
    {"apiserver", "scheduler", "controllers", "operator", "simulation.kubelet", "simulation.drivers"},
    {"simulation", "explain", "forecast", "whatif", "advise", "install", "conformance"},
    {"__main__", "cli", "ui", "library", "pytest_plugin"},
]
LEVEL = {package: level for level, row in enumerate(ROWS) for package in row}
COMPONENTS = ROWS[6]
#: A simulated node is one component with two parts: its kubelet and the drivers of its devices.
NODE_PARTS = {"simulation.kubelet", "simulation.drivers"}
#: Packages that could be published by themselves, with all they may import of weir's.
ALONE = {"store": {"store"}, "cel": {"cel", "values"}}
#: Nothing below the edges does I/O.
PURE = set().union(*ROWS[:5])
EFFECTS = {
    "socket",
    "sqlite3",
    "subprocess",
    "aiohttp",
    "uvicorn",
    "requests",
    "http",
    "logging",
    "threading",
}


def package_of(parts: list[str]) -> str:
    """Return the room of the picture that a module is in: its package, or a wing that has a row of its own."""
    wing = ".".join(parts[:2])
    return wing if wing in LEVEL else parts[0]


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        package = package_of(list(path.relative_to(SOURCE).with_suffix("").parts))
        if package != "__init__":
            yield package, path


@cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Return what a file imports and where; it is read once for all that is asked about it."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "weir":
                yield from ((f"weir.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module, node.lineno


def weir_imports(path: Path) -> Iterator[tuple[str, int]]:
    for name, line in imports(path):
        if name.startswith("weir."):
            yield package_of(name.split(".")[1:]), line


def test_every_package_has_a_row_in_the_picture():
    assert {package for package, _ in modules()} - LEVEL.keys() == set()


def test_imports_point_down():
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {target}"
        for package, path in modules()
        for target, line in weir_imports(path)
        if LEVEL.get(target, 99) > LEVEL[package]
    ]
    assert not wrong


@pytest.mark.parametrize("component", sorted(COMPONENTS))
def test_components_are_strangers_to_each_other(component):
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {target}"
        for package, path in modules()
        if package == component
        for target, line in weir_imports(path)
        if target in COMPONENTS and target != component and {target, component} != NODE_PARTS
    ]
    assert not wrong


@pytest.mark.parametrize("alone", sorted(ALONE))
def test_a_publishable_package_imports_only_what_it_may(alone):
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {target}"
        for package, path in modules()
        if package == alone
        for target, line in weir_imports(path)
        if target not in ALONE[alone]
    ]
    assert not wrong


def test_nothing_below_the_edges_does_io():
    allowed = {("cel", "threading")}  # a cache used from several threads needs a lock
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {name}"
        for package, path in modules()
        if package in PURE
        for name, line in imports(path)
        if name.split(".")[0] in EFFECTS and (package, name.split(".")[0]) not in allowed
    ]
    assert not wrong


def test_no_module_has_a_name_that_explains_nothing():
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager"}
    assert not [path for _, path in modules() if path.stem in vague]
