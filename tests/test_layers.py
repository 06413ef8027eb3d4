"""Every import points down, or stays in its row: the picture of docs/design/architecture.md, held against the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.statements import statements

SOURCE = Path(__file__).parents[1] / "src" / "weir"

#: From the bottom up; a package may import from its own row and from the rows before it.
ROWS: list[set[str]] = [
    {"values", "gates", "errors", "objects", "clock", "caches", "exit_codes"},
    {"cel"},
    {"taints", "selectors"},
    {"devices"},
    {"fields", "compat", "validate", "lowering", "lint", "world"},
    {"store", "client", "observe", "output", "certificates"},
    {"apiserver", "scheduler", "controllers", "operator", "simulation.kubelet", "simulation.drivers"},
    {"simulation", "explain", "forecast", "whatif", "plan", "advise", "install", "conformance"},
    {"inputs", "device_rules", "library", "pytest_plugin"},
    {"ui"},
    {"__main__", "cli"},
]
LEVEL = {package: level for level, row in enumerate(ROWS) for package in row}
COMPONENTS = ROWS[LEVEL["apiserver"]]
#: A simulated node is one component with two parts: its kubelet and the drivers of its devices.
NODE_PARTS = {"simulation.kubelet", "simulation.drivers"}
#: Packages that could be published by themselves, with all they may import of weir's.
ALONE = {"store": {"store"}, "cel": {"cel", "values"}}
#: Nothing below the edges does I/O.
PURE = set().union(*ROWS[: LEVEL["store"]])
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


@cache
def graph() -> dict[str, set[str]]:
    """Return what each module imports of weir's, in functions and for type checking too."""
    paths = {name_of(path): path for path in SOURCE.rglob("*.py")}
    arrows: dict[str, set[str]] = {}
    for name, path in paths.items():
        targets = arrows.setdefault(name, set())
        for node in statements(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in paths:
                inside = (f"{node.module}.{alias.name}" for alias in node.names)
                targets.update(each if each in paths else node.module for each in inside)
        targets -= {name, "weir"}
    return arrows


def name_of(path: Path) -> str:
    return ".".join(["weir", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """Return the names of one circle, in its order; none without any."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_way_of_others():
    assert circle(graph()) == []


def test_no_package_imports_itself_by_way_of_others():
    packages: dict[str, set[str]] = {}
    for name, targets in graph().items():
        package = name.split(".")[1:2]
        for target in targets if package else ():
            packages.setdefault(package[0], set()).add(target.split(".")[1])
    assert circle({name: targets - {name} for name, targets in packages.items()}) == []


def test_the_search_for_circles_sees_imports_in_functions():
    assert "weir.whatif.run" in graph()["weir.library"]
    assert len(graph()) > 500
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}


# ── what stands for compatibility, and its doors ──

#: Modules that may be imported from outside, by package, and the packages that may.
DOORS: dict[str, tuple[set[str], set[str]]] = {
    "weir.compat.customresources": (
        {
            "definition",
            "definition_rules",
            "expression_types",
            "field_paths",
            "group_approval",
            "pruning",
            "reading",
        }
        | {"resource_rules", "schema", "served", "structural", "values"},
        {"weir.apiserver", "weir.cli", "weir.compat", "weir.lint", "weir.validate"},
    ),
    "weir.compat.policies": (
        {"dispatch", "expressions", "files", "matching", "mutating", "type_checking", "validating"},
        {"weir.apiserver", "weir.cli", "weir.controllers.compat", "weir.lint", "weir.validate"},
    ),
    "weir.apiserver.compat": (
        {"aggregation", "audit", "encryption.configuration", "policies", "resource_metrics"}
        | {f"customresources.{name}" for name in ("controller", "discovery", "openapi", "webhook_conversion")}
        | {f"flowcontrol.{name}" for name in ("bootstrap", "debug", "dispatcher", "levels")}
        | {f"webhooks.{name}" for name in ("client", "dispatch")},
        {
            f"weir.apiserver.{name}"
            for name in ("build", "filters", "handlers", "nonresource", "options", "run")
        }
        | {"weir.apiserver.server", "weir.cli"},
    ),
    "weir.controllers.compat": ({"certificates"}, {"weir.cli", "weir.simulation"}),
}


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@pytest.mark.parametrize("package", sorted(DOORS))
def test_what_stands_for_compatibility_has_narrow_doors(package):
    modules, visitors = DOORS[package]
    entered = {
        (name, target)
        for name, targets in graph().items()
        if not is_in(name, package)
        for target in targets
        if is_in(target, package)
    }
    assert {target.removeprefix(f"{package}.") for _, target in entered} == modules
    assert {visitor for visitor in visitors if any(is_in(name, visitor) for name, _ in entered)} == visitors
    assert [name for name, _ in entered if not any(is_in(name, visitor) for visitor in visitors)] == []


def test_the_mission_never_meets_what_stands_for_compatibility():
    """Whoever reads taints, devices, expressions, the operator or a tool need not know it is there."""
    mission = {"advise", "cel", "devices", "explain", "forecast", "lowering", "operator", "plan", "scheduler"}
    mission |= {"selectors", "taints", "ui", "whatif", "world"}
    met = {
        (name, target)
        for name, targets in graph().items()
        if name.split(".")[1:2] and name.split(".")[1] in mission
        for target in targets
        if "compat" in target.split(".")
    }
    assert met == set()


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
