"""What programs read: every answer fits the published schema, and says the same as the text."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from weir.cli.main import run
from weir.scheduler.reasons import Reason

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs" / "reference" / "explain.schema.json").read_text())
INPUTS = sorted((ROOT / "tests" / "golden" / "explain").glob("*.input.yaml"))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name.removesuffix(".input.yaml"))
def test_every_answer_fits_the_published_schema(path: Path, capsys: pytest.CaptureFixture[str]):
    command = path.read_text().splitlines()[0].removeprefix("# weir ").format(shlex.quote(str(path)))
    run([*shlex.split(command), "-o", "json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema_rs.validator_for(SCHEMA).validate(document)
    assert [pod["fits"] for pod in document["pods"]] == [
        any(group["fits"] for group in pod["groups"]) and not pod["blockers"] for pod in document["pods"]
    ]


def test_the_schema_knows_every_kind_of_reason():
    kinds = {reason.kind for reason in Reason.__subclasses__() if isinstance(reason.kind, str)}
    assert set(SCHEMA["$defs"]["reason"]["properties"]["kind"]["enum"]) == kinds
