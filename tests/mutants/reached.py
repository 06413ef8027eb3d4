"""The measured reach of the tests, and what has to be measured anew.

One file, reach.json, in the folder $WEIR_MUTANTS (.mutants): by test its seconds and its lines by module.
What surprises: a file of tests is measured again when it changed, or a module that it reaches; helpers that it imports
are not looked at (leave out REUSE=1 after a change to one).
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from tests.mutants.modules import MODULES, source_of

FOLDER = Path(os.environ.get("WEIR_MUTANTS", ".mutants"))
#: What stands for a test where lines of functions run before any test does.
IMPORT: Final = "import"
_ROOT: Final = Path(__file__).parents[2]


def digest(*texts: str) -> str:
    """Return what tells some texts from others."""
    return sha256("\0".join(texts).encode()).hexdigest()[:16]


def file_of(test: str) -> str:
    """Return the file of a test.

    >>> file_of("tests/unit/taints/test_judge.py::test_it[1]")
    'tests/unit/taints/test_judge.py'
    """
    return test.partition("::")[0]


def files_of_tests(folders: Iterable[str]) -> list[str]:
    """Return the files that hold tests, from the root of the checkout; in src those with examples."""
    found: list[str] = []
    for folder in folders:
        path = _ROOT / folder
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            name = str(file.relative_to(_ROOT))
            if file.name.startswith("test_") or (name.startswith("src/") and ">>>" in file.read_text()):
                found.append(name)
    return list(dict.fromkeys(found))


@dataclass(slots=True)
class Reached:
    """By test its seconds and its lines by module; by file of tests the state in which it was measured."""

    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls) -> Reached:
        kept = FOLDER / "reach.json"
        return cls(**json.loads(kept.read_text())) if kept.exists() else cls()

    def stale(self, files: Iterable[str]) -> list[str]:
        """Return the files to be measured: new ones, changed ones, and those that reach a module that changed."""
        modules = self._modules_by_file()
        return [file for file in files if self.states.get(file) != _state(file, modules[file])]

    def take(self, files: Iterable[str]) -> None:
        """Take what the processes of a run over some files wrote, and keep it."""
        measured = set(files)
        self.tests = {name: test for name, test in self.tests.items() if file_of(name) not in measured}
        at_import = self.tests.get(IMPORT, {"seconds": 0.0, "lines": {}})["lines"]
        for path in sorted(FOLDER.glob("reach-*.json")):
            self.tests.update(json.loads(path.read_text()))
            path.unlink()
            for module, lines in self.tests.get(IMPORT, {"lines": {}})["lines"].items():
                at_import[module] = sorted({*at_import.get(module, ()), *lines})
        self.tests[IMPORT] = {"seconds": 0.0, "lines": at_import}
        modules = self._modules_by_file()
        self.states |= {file: _state(file, modules[file]) for file in measured}
        (FOLDER / "reach.json").write_text(json.dumps({"tests": self.tests, "states": self.states}))

    def within(self, files: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the tests of some files."""
        wanted = set(files)
        return {name: test for name, test in self.tests.items() if file_of(name) in wanted or name == IMPORT}

    def _modules_by_file(self) -> defaultdict[str, set[str]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for name, test in self.tests.items():
            found[file_of(name)].update(test["lines"])
        return found


def _state(file: str, modules: Iterable[str]) -> str:
    reached = [source_of(module).read_text() for module in sorted(modules) if module in MODULES]
    return digest((_ROOT / file).read_text(), *MODULES, *reached)
