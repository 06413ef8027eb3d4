"""left-out.yaml against the recorded names of all specs: no pattern without a spec, no spec without an answer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.upstream import page
from tests.upstream.specs import (
    CONFORMANCE,
    GROUPS,
    LEFT_OUT,
    Pattern,
    group_of,
    has_piece,
    read_names,
    read_patterns,
    select,
    selections,
)

NAMES = read_names()
PATTERNS = read_patterns()
SELECTIONS = {each.group: each for each in selections(NAMES, PATTERNS)}
ROOT = Path(__file__).parents[2]


def test_the_recorded_names_are_those_of_one_whole_suite():
    assert sum(CONFORMANCE in name for name in NAMES) == 462
    assert sorted(set(NAMES)) == NAMES


def test_every_group_of_the_file_is_one():
    assert set(PATTERNS) <= set(GROUPS)


@pytest.mark.parametrize("group", PATTERNS)
def test_every_pattern_leaves_something_out_that_no_other_does(group):
    used = {pattern.text for pattern in SELECTIONS[group].left_out.values()}
    assert [pattern.text for pattern in PATTERNS[group] if pattern.text not in used] == []


@pytest.mark.parametrize("group", PATTERNS)
def test_every_exception_saves_a_spec(group):
    entries = yaml.safe_load(LEFT_OUT.read_text())[group]
    exceptions = [each for entry in entries for each in entry.get("but", ())]
    run = SELECTIONS[group].run
    assert [each for each in exceptions if not any(has_piece(name, each) for name in run)] == []


def test_every_reason_is_given_once_in_a_group_and_says_something():
    for group, entries in yaml.safe_load(LEFT_OUT.read_text()).items():
        said = [entry["reason"] for entry in entries]
        assert len(said) == len(set(said)), group
        assert all(len(reason.split()) > 1 for reason in said), group


def test_every_spec_is_run_or_left_out():
    assert sorted(name for each in SELECTIONS.values() for name in each.names) == NAMES


@pytest.mark.parametrize(
    "text, name, matches",
    [
        ("Job should run", "[sig-apps] Job should run a job", True),
        ("[sig-apps]*once", "[sig-apps] Job should run once", True),
        ("once*[sig-apps]", "[sig-apps] Job should run once", False),
        ("job", "[sig-apps] Job", False),
        ("ab*bc", "abc", False),
    ],
)
def test_a_pattern_is_a_piece_of_the_name(text, name, matches):
    assert Pattern(text, "").matches(name) is matches


def test_the_first_pattern_gives_the_reason():
    found = select(
        "sig-apps",
        ["[sig-apps] a b", "[sig-apps] c", "[sig-cli] a"],
        [Pattern("a b", "1"), Pattern("b", "2")],
    )
    assert (found.run, found.left_out) == (("[sig-apps] c",), {"[sig-apps] a b": Pattern("a b", "1")})


@pytest.mark.parametrize(
    "name, group",
    [
        ("[sig-node] [DRA] control plane", "dra"),
        ("[sig-node] Pods", "sig-node"),
        ("[sig-windows] Pods", "others"),
    ],
)
def test_a_spec_has_one_group(name, group):
    assert group_of(name) == group


def test_the_page_shows_the_numbers_that_are_kept():
    shown = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
    assert shown.endswith(page.section())


def test_the_program_is_asked_for_by_its_path(tmp_path):
    told = subprocess.run(
        [ROOT / "tests" / "upstream" / "build"],
        env={"PATH": "/usr/bin:/bin", "E2E_TEST": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stderr) == (1, f"E2E_TEST={tmp_path / 'none'} is no program\n")
