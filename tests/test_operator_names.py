"""Who names a toleration operator: only its definition decides by name, everybody else asks it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import weir
from weir.taints.operators import OPERATORS, Comparison

SOURCE = Path(weir.__file__).parent
NAMES = [each.name for each in OPERATORS.values() if isinstance(each, Comparison)]
#: A name by itself or in quotes, or what several of them begin with; not a name within a sentence.
NAMED = re.compile(rf"""(?:^|["'])(?:{"|".join(NAMES)}|Semver)(?:$|["'])""")

#: Modules that write an operator's name, and why no decision hangs on it.
ALLOWED = {
    "taints/operators.py": "the definition",
    "apiserver/older_release.py": "the words of Kubernetes 1.34, which never change",
    "client/cluster_gates.py": "probes: one pod that a server with the gate accepts",
    "conformance/features.py": "probes: one object for each feature",
    "operator/native.py": "probe: one pod template that a server with numeric operators accepts",
    "scheduler/plugins/node_affinity.py": "a message of Kubernetes'",
    "selectors/labels.py": "a message of Kubernetes'",
}


def constants(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module, its docstrings left out."""
    tree = ast.parse(path.read_text())
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def test_no_module_decides_by_the_name_of_an_operator():
    naming: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for line, text in constants(path):
            if NAMED.search(text):
                naming.setdefault(path.relative_to(SOURCE).as_posix(), []).append(
                    f"line {line}: {text[:60]!r}"
                )
    assert {name: lines for name, lines in naming.items() if name not in ALLOWED} == {}
    assert ALLOWED.keys() <= naming.keys(), "allowed, but names none"
