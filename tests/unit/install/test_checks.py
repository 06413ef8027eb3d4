"""A question that is not answered is not known, and never taken for a yes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import jsonschema_rs

from weir import errors
from weir.install.checks import Check, Verdict, ask_all, listed, milliseconds, report

SCHEMA = Path(__file__).parents[3] / "docs" / "reference" / "check.schema.json"


def test_what_may_not_be_asked_is_not_known():
    async def refused():
        raise errors.Forbidden("pods is forbidden:\n  no")

    async def broken():
        raise errors.InternalError("boom")

    found = asyncio.run(ask_all((("a", refused), ("b", broken))))
    assert [each.verdict for each in found] == [Verdict.UNKNOWN] * 2
    assert found[0].says == "you may not look: pods is forbidden: no"


def test_the_report_is_as_its_schema_says():
    checks = [Check("server", Verdict.FINE, "v1"), Check("hook", Verdict.TO_DO, "gone", "start it")]
    document = report("context a (https://b)", True, checks)
    assert jsonschema_rs.validator_for(json.loads(SCHEMA.read_text())).is_valid(document)
    assert document["checks"][1] == {"name": "hook", "verdict": "todo", "says": "gone", "do": "start it"}


def test_words():
    assert listed(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert (milliseconds(0.0123), milliseconds(2)) == ("12 ms", "2.0 s")
