"""Ginkgo's report read and counted: what was not seen to pass has failed."""

from __future__ import annotations

import json

from tests.upstream.results import Result, counts, read_results, reasons, spec_results, table
from tests.upstream.specs import Pattern, Selection

REPORT = [
    {
        "SpecReports": [
            {"LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "passed", "RunTime": 1},
            {
                "LeafNodeType": "It",
                "ContainerHierarchyTexts": ["[sig-apps] Job"],
                "LeafNodeText": "runs [Conformance]",
                "State": "passed",
                "RunTime": 1_500_000_000,
            },
            {
                "LeafNodeType": "It",
                "ContainerHierarchyTexts": ["[sig-apps] Job"],
                "LeafNodeText": "ends",
                "State": "failed",
                "RunTime": 2_000_000_000,
                "Failure": {"Message": "timed out\nafter 5m"},
            },
            {
                "LeafNodeType": "It",
                "ContainerHierarchyTexts": None,
                "LeafNodeText": "[sig-apps] clouds",
                "State": "skipped",
                "RunTime": 0,
                "Failure": {"Message": "only on gce"},
            },
        ]
    }
]
ASKED = ["[sig-apps] Job runs [Conformance]", "[sig-apps] Job ends", "[sig-apps] clouds", "[sig-apps] lost"]


def test_a_report_is_read():
    assert [(each.state, each.seconds, each.passed) for each in spec_results(REPORT, ASKED)] == [
        ("passed", 1.5, True),
        ("failed", 2.0, False),
        ("skipped", 0.0, False),
        ("missing", 0.0, False),
    ]


def test_a_result_is_told_in_one_line():
    told = [each.line() for each in spec_results(REPORT, ASKED)]
    assert told[1] == "failed      2.0 s  [sig-apps] Job ends: timed out after 5m"
    assert told[2] == "skipped itself    0.0 s  [sig-apps] clouds: only on gce"


def test_a_run_without_a_report_has_failed(tmp_path):
    (tmp_path / "report.json").write_text(json.dumps(REPORT)[:-5])
    for path in (tmp_path / "report.json", tmp_path / "none.json"):
        assert {each.state for each in read_results(path, ASKED)} == {"missing"}


def test_the_table_has_the_sums():
    apps = Selection("sig-apps", tuple(ASKED), {"[sig-apps] execs": Pattern("execs", "execs into a pod")})
    auth = Selection("sig-auth", (), {"[sig-auth] logs": Pattern("logs", "reads container logs")})
    groups = {"sig-auth": counts(auth, []), "sig-apps": counts(apps, spec_results(REPORT, ASKED))}
    assert table(groups).splitlines()[2:] == [
        "| sig-apps | 5 | 4 | 1 | 3 | 1 | 1 of 1 |",
        "| sig-auth | 1 | 0 | 0 | 0 | 1 | – |",
        "| all | 6 | 4 | 1 | 3 | 2 | 1 of 1 |",
    ]
    assert reasons(groups).splitlines()[2:] == ["| execs into a pod | 1 |", "| reads container logs | 1 |"]


def test_a_group_that_was_not_run_counts_nothing_as_passed():
    selection = Selection("sig-apps", ("[sig-apps] a",), {})
    assert counts(selection, [Result("[sig-apps] a", "timedout")])["failed"] == ["[sig-apps] a"]
