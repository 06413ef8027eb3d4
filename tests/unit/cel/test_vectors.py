"""All CEL vectors hold: our own, and the shared ones where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cel_vectors import is_cel_vectors, main, run_file, vector_files
from tests.conftest import NOT_OURS

_ROOT = Path(__file__).resolve().parents[3]
OWN = _ROOT / "tests" / "vectors" / "cel"
SHARED = Path(os.environ.get("WEIR_TESTDATA", _ROOT.parent / "shared" / "testdata"))


def _mismatches(path: Path) -> list[str]:
    return [f"{label}: {'; '.join(wrong)}" for label, wrong in run_file(path) if wrong]


@pytest.mark.parametrize("path", sorted(OWN.glob("*.json")), ids=lambda path: path.stem)
def test_own_vectors_hold(path: Path) -> None:
    assert _mismatches(path) == []


def test_shared_vectors_hold() -> None:
    files = [path for path in vector_files([str(SHARED)]) if is_cel_vectors(path)] if SHARED.is_dir() else []
    if not files:
        pytest.skip(f"no CEL vectors in {SHARED}, which is {NOT_OURS}: set WEIR_TESTDATA")
    assert [line for path in files for line in _mismatches(path)] == []


def test_a_wrong_vector_is_reported_and_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(
        '{"cases": [{"expr": "1 + 1", "outcome": "value", "value": {"type": "int", "value": 3}}]}'
    )
    assert (main([str(wrong)]), capsys.readouterr().out.splitlines()[-1]) == (1, "0 passed, 1 failed")
