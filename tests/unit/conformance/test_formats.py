"""A run as a table, for programs, for pipelines and for browsers."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import jsonschema_rs
import pytest

from weir.cli._conformance_run import verdict
from weir.conformance.formats import html, junit, table
from weir.conformance.results import Difference, Offer, Report, Result, Verdict, document, keps_of
from weir.simulation.demo.story import find_stories, parse_story

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/reference/conformance.schema.json").read_text())


def story(name, source="KEP-5471, story 1"):
    steps = "[{event: e, outcomes: [{pod: p, phase: Running}]}]"
    return parse_story(
        f'{{title: "<{name}>", source: "{source}", asks: "a & b?", needs: [numeric], steps: {steps}}}', name
    )


REPORT = Report(
    "context c (https://c)",
    "v1.37.1",
    (
        Result(story("good"), Verdict.PASSES, 3, seconds=12.3),
        Result(
            story("bad"),
            Verdict.FAILS,
            2,
            (Difference("a taint comes", "web", "left: specified '0s', seen never"),),
        ),
        Result(story("absent", "KEP-5500"), Verdict.NOT_OFFERED, because="expressions: refused\x1b[31m"),
        Result(story("unknown", "mine"), Verdict.CANNOT_SAY, because="you may not create nodes"),
    ),
    {"numeric": Offer("numeric", True), "cel": Offer("cel", False, "the server drops it")},
    ((story("gates"), "it restarts components"),),
    61.0,
)


def test_the_table_is_by_kep_and_says_what_was_seen():
    said = "\n".join(line.text for line in table(REPORT))
    assert said.index("KEP-5471") < said.index("KEP-5500") < said.index("your own")
    for words in (
        "✓ good     passes: 3 outcomes",
        "✗ bad      fails: 1 of 2 outcomes not as specified",
        "a taint comes: web: left: specified '0s', seen never",
        "– absent   not offered: expressions: refused",
        "? unknown  cannot say\n      you may not create nodes",
        "– expressions in tolerations: the server drops it",
        "gates: it restarts components",
        "4 stories in context c (https://c), v1.37.1: 1 pass, 1 fail, 1 not offered, 1 cannot say; 61 s",
    ):
        assert words in said


def test_the_document_keeps_its_schema():
    found = json.loads(json.dumps(document(REPORT)))
    jsonschema_rs.validator_for(SCHEMA).validate(found)
    assert found["counts"] == {"passes": 1, "fails": 1, "not offered": 1, "cannot say": 1}
    assert [each["verdict"] for each in found["stories"]] == ["passes", "fails", "not offered", "cannot say"]


def test_junit_counts_what_fails_and_skips_what_is_not_offered():
    root = ElementTree.fromstring(junit(REPORT))
    numbers = {
        suite.get("name"): {n: suite.get(n) for n in ("tests", "failures", "errors", "skipped")}
        for suite in root
    }
    assert numbers["KEP-5471, numeric tolerations"] == {
        "tests": "2",
        "failures": "1",
        "errors": "0",
        "skipped": "0",
    }
    assert numbers["KEP-5500, expressions in tolerations"]["skipped"] == "1"
    assert root.find(".//testcase[@name='bad']/failure").get("message").startswith("a taint comes: web")


def test_the_page_is_whole_and_escapes_what_it_shows():
    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open, self.outside = [], []

        def handle_starttag(self, tag, attributes):
            if tag not in ("meta", "br"):
                self.open.append(tag)
            self.outside += [value for name, value in attributes if name in ("src", "href")]

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    page, reader = html(REPORT), Reader()
    reader.feed(page)
    assert (reader.open, reader.outside) == ([], [])
    assert "&lt;bad&gt;" in page and "a &amp; b?" in page and "\x1b" not in page


@pytest.mark.parametrize(
    "verdicts, code",
    [
        ([Verdict.PASSES, Verdict.NOT_OFFERED], 0),
        ([Verdict.PASSES, Verdict.CANNOT_SAY], 3),
        ([Verdict.CANNOT_SAY, Verdict.FAILS], 1),
    ],
)
def test_exit_codes(verdicts, code):
    assert verdict(Report("c", "v", tuple(Result(story("s"), each) for each in verdicts))) == code


def test_every_story_is_about_a_kep():
    assert {kep for each in find_stories() for kep in keps_of(each)} <= {
        "5055",
        "5471",
        "5500",
        "5721",
        "3329",
    }
