"""What programs read: every answer fits the published schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs

from tests.unit.advise.clusters import APART, ask, entry, node, workload
from weir.advise.report import document
from weir.advise.taints import UntoleratedTaint
from weir.advise.workload import advise
from weir.gates import ALL_FEATURES
from weir.objects.core import Taint

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "reference" / "advise.schema.json").read_text())
RATED = [node("n1", "a", sla="951"), node("n2", "b", sla="951"), node("n3", "b", sla="940")]


def test_every_answer_fits_the_published_schema():
    workloads = [
        workload(entry("sla", "Gt", "950"), entry("gpu", "Lt", "5"), replicas=3, **APART),
        workload(entry("sla", "Gt", "many")),
        workload(),
    ]
    untolerated = [UntoleratedTaint(Taint("old", "yes", "NoSchedule"), ("n1",))]
    found = document((advise(ask(each, *RATED)) for each in workloads), untolerated, ALL_FEATURES, {})
    jsonschema_rs.validator_for(SCHEMA).validate(found)
    first = found["workloads"][0]
    assert first["restingOn"] == {"key": "sla", "value": "951", "effect": "NoSchedule"}
    assert first["thresholds"][0]["tightest"] == {"value": "939", "nodes": 3}
    patched = first["changes"][0]["patch"]["spec"]["template"]["spec"]["tolerations"]
    assert [each["value"] for each in patched] == ["939", "5"]
