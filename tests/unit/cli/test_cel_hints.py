"""`weir cel` teaches: exit codes in its help, the name that was meant, a schema for programs."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest

from weir.cli.main import run
from weir.exit_codes import FINDINGS, FINE, USAGE

SCHEMA = Path(__file__).parents[3] / "docs" / "reference" / "cel.schema.json"


@pytest.mark.parametrize("command", ["check", "eval", "cost"])
def test_the_help_says_the_exit_codes(capsys, command):
    run(["cel", command, "--help"])
    assert "Exit codes: 0 " in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("tiant.key == 'a'", "did you mean taint?"),
        ("taint.vlaue == 'a'", "did you mean value?"),
        ("taint.Effect == 'NoExecute'", "did you mean effect?"),
        ("semvr(taint.value).major() > 1", "did you mean semver?"),
        ("taint.key.startWith('a')", "did you mean startsWith?"),
        ("taint.key ==", ""),
    ],
)
def test_a_misspelt_name_is_shown_the_right_one(capsys, expression, hint):
    assert run(["cel", "check", expression, "-o", "json"]) == FINDINGS
    assert json.loads(capsys.readouterr().out)["refusal"]["hint"] == hint
    run(["cel", "check", expression])
    assert hint in capsys.readouterr().out


def test_the_json_fits_its_published_schema(capsys):
    validator = jsonschema_rs.validator_for(json.loads(SCHEMA.read_text()))
    for words, code in (
        (["check", "taint.key == 'a'"], FINE),
        (["check", "tiant"], FINDINGS),
        (["eval", "taint.key == 'a'", "a=b:NoExecute"], FINE),
        (["eval", "taint.key == 'a'", "b:NoExecute"], FINDINGS),
        (["eval", "int(taint.value) > 1", "b=x:NoExecute"], FINDINGS),
        (["cost", "taint.key == 'a' && taint.value == 'b'"], FINE),
    ):
        assert run(["cel", *words, "-o", "json"]) == code
        validator.validate(json.loads(capsys.readouterr().out))
    assert run(["cel", "eval", "true"]) == USAGE
