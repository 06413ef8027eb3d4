"""A skew matrix for programs and as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from weir.whatif.skew import COLUMNS, Cell, Matrix, Row
from weir.whatif.skew_picture import picture, report

ROWS = (
    Row({"apiserver": "on"}, {name: Cell(True) for name in COLUMNS}),
    Row(
        {"apiserver": "off"},
        {**{name: Cell(None) for name in COLUMNS}, "accepted": Cell(False, "<no>", "a & b")},
    ),
)
MATRIX = Matrix("Pod/p", ("TaintTolerationCEL",), ("n",), ROWS)


def test_the_report_names_its_schema_and_every_cell() -> None:
    found = report(MATRIX)
    assert (found["schema"], found["dangerous"]) == ("weir.skew/v1", True)
    assert found["rows"][1]["accepted"] == {"fine": False, "seen": "<no>", "danger": "a & b"}
    assert found["rows"][1]["kept"]["fine"] is None


def test_the_picture_is_well_formed_and_says_why() -> None:
    root = ElementTree.fromstring(picture(MATRIX))
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "a & b" in titles
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "no ⚠" in words and "everything on" in words
