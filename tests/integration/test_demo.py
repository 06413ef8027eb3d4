"""The stories of the seeds, lived through: core.md section 10, row by row."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tests.integration.paced_stories import LATE_SECONDS, PACE, only_late, pace_of
from tests.stories import STORIES
from weir.cli._demo_plan import story_plan
from weir.cli.main import run
from weir.simulation.demo.judge import Judged
from weir.simulation.demo.play import Ended, play
from weir.simulation.demo.story import ExpectedOutcome

pytestmark = pytest.mark.proves("5471-85", "5721-91", "5500-63")

ROWS = {
    "S-blog 1 payment-processor", "S-blog 1 batch-job", "S-blog 2", "S-blog 3", "S-blog how-to",
    "S-5471 story 1", "S-5471 story 2 strict", "S-5471 story 2 drop", "S-5471 story 3", "S-5471 caveat",
    "S-5721 story 1", "S-5721 story 2", "S-5721 story 3", "S-5721 story 4", "S-5721 semantics", "S-5721 containerd",
    "S-5500 story 1", "S-5500 story 2", "S-5500 story 3", "S-5500 seconds", "S-5500 exclusive",
    "Deployment gate off scale", "Deployment gate off image",
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_comes_out_as_specified(story):
    ends = [moment for moment in play(story, planner=story_plan) if isinstance(moment, Ended)]
    wrong = [(j.outcome.about, j.differences) for end in ends for j in end.judged if not j]
    assert (wrong, [end.unexpected for end in ends if end.unexpected]) == ([], [])


def test_every_row_of_the_specified_scenarios_is_lived_through():
    assert {row for story in STORIES for row in story.rows} >= ROWS


STORY = """
title: One pod
source: a test
asks: Does it run?
nodes: [{name: n1, taints: ["sla=950:NoExecute"]}]
steps:
- event: it is created
  apply:
  - apiVersion: v1
    kind: Pod
    metadata: {name: p}
    spec:
      containers: [{name: c, image: i}]
      tolerations: [{key: sla, operator: Gt, value: "900", effect: NoExecute}]
  outcomes: [{pod: p, OUTCOME}]
- event: the taint changes
  taint: [{node: n1, taints: ["sla=800:NoExecute"]}]
  outcomes: [{pod: p, left: LEFT}]
"""


@pytest.fixture
def told(tmp_path, capsys):
    def tell(outcome, left="0s", *options):
        (tmp_path / "one.yaml").write_text(STORY.replace("OUTCOME", outcome).replace("LEFT", left))
        return run(["demo", "--folder", str(tmp_path), *options]), capsys.readouterr().out

    return tell


def test_right_expectations_end_well(told):
    code, said = told("node: n1, phase: Running")
    assert (code, "2 outcomes, all as specified" in said) == (0, True)


@pytest.mark.parametrize(
    "outcome, left",
    [
        ("node: n2", "0s"),
        ("node: null", "0s"),
        ("phase: Pending", "0s"),
        ("there: false", "0s"),
        ("node: n1", "30s"),
        ("events: ['Scheduled: nowhere']", "0s"),
        ("shows: {status.phase: Failed}", "0s"),
        ("refused: no such toleration", "0s"),
    ],
)
def test_a_wrong_expectation_fails_and_is_told(told, outcome, left):
    code, said = told(outcome, left)
    assert (code, "NOT as specified" in said) == (1, True)


def test_a_refusal_nobody_expected_fails(told):
    code, said = told("phase: Running", "0s}]\n  patch: [{object: Pod/p, merge: {spec: {nodeName: n2}}")
    assert (code, "NOT as specified: refused: Pod" in said) == (1, True)


@pytest.mark.parametrize(
    "plan, problem",
    [
        ('{name: p, change: "tant n1 a=1:NoExecute"}', "'tant' is no change"),
        ('{name: p, change: "drain n1", goals: {max-unavailable: "1"}}', ""),
        ('{name: p, change: "drain n1", goals: {max-unavailable: some}}', "'some': write a number of pods"),
        ('{name: p, change: "drain n1", goals: {budget: "1"}}', "'budget' is none of max-pending"),
        ('{name: p, change: "drain n2"}', "n2"),
    ],
)
def test_a_plan_that_cannot_be_read_is_refused(tmp_path, capsys, plan, problem):
    text = f"{{title: t, source: s, asks: a, nodes: [{{name: n1}}], steps: [{{event: e, plan: {plan}}}]}}"
    (tmp_path / "one.yaml").write_text(text)
    code = run(["demo", "--folder", str(tmp_path)])
    assert (code, problem in capsys.readouterr().err) == (2 if problem else 0, True)


def test_the_output_for_programs_has_a_schema_and_the_facts(told):
    code, said = told("phase: Pending", "0s", "-o", "json")
    document = json.loads(said)
    first = document["stories"][0]["steps"][0]["outcomes"][0]
    assert (code, document["schema"], document["asSpecified"], first["seen"]) == (
        1,
        "weir.simulation.demo/v1",
        False,
        {"phase": "Running"},
    )


def test_the_same_seed_tells_the_same_story(told):
    assert told("node: n1", "0s", "-o", "json") == told("node: n1", "0s", "-o", "json")


def test_in_real_time_the_same_comes_out(told, monkeypatch):
    waited = []
    monkeypatch.setattr("time.sleep", waited.append)
    code, _ = told("node: n1", "0s", "--real-time")
    assert (code, sum(waited) > 10) == (0, True)


def test_a_terminal_sees_a_live_table_and_then_the_lines():
    def read(descriptor):
        found = b""
        while select.select([descriptor], [], [], 60)[0]:
            try:
                piece = os.read(descriptor, 65536)
            except OSError:  # the other end of a pseudo-terminal is closed
                break
            if not piece:
                break
            found += piece
        return found.decode()

    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    command = [sys.executable, "-m", "weir.cli.main", "demo", "racks"]
    process = subprocess.Popen(command, stdout=theirs, env={**environment, "TERM": "xterm"})
    os.close(theirs)
    said = read(ours)
    os.close(ours)
    drawn, _, last = said.rpartition("\033[J")
    assert (process.wait(60), "POD" in drawn, "POD" in last, "bound on in-a1 and in-a2" in last) == (
        0,
        True,
        False,
        True,
    )


# ── what the pages show ──────────────────────────────────────────────────────────────────────────

ROOT = Path(__file__).parents[2]


def shown(page, command):
    """The block of *page* that begins with *command*, and the same block as it is printed now."""
    text = (ROOT / page).read_text()
    (block,) = re.findall(rf"```console\n\$ {re.escape(command)}\n(.*?)```", text, re.DOTALL)
    return text, block


@pytest.mark.parametrize(
    "page, command, words",
    [
        ("README.md", "weir demo inference", ("demo", "inference")),
        ("docs/howto/write-a-story.md", "weir demo --folder stories", ("demo", "--folder", "stories")),
        ("docs/howto/play-version-skew.md", "weir demo older-scheduler", ("demo", "older-scheduler")),
    ],
)
def test_a_page_shows_what_the_demo_prints(page, command, words, tmp_path, monkeypatch, capsys):
    """WEIR_UPDATE=1 writes it anew; how long it took is the reader's own."""
    text, block = shown(page, command)
    for story in re.findall(r"```yaml\n# (stories/\S+)\n(.*?)```", text, re.DOTALL):
        (tmp_path / story[0]).parent.mkdir(exist_ok=True)
        (tmp_path / story[0]).write_text(story[1])
    monkeypatch.chdir(tmp_path)
    code = run(list(words))
    found = re.sub(r"in \d+\.\d s$", "in … s", capsys.readouterr().out, flags=re.MULTILINE)
    if os.environ.get("WEIR_UPDATE"):
        (ROOT / page).write_text(text.replace(f"$ {command}\n{block}", f"$ {command}\n{found}"))
        block = found
    assert (code, block) == (0, found)


def test_the_picture_in_the_documents_is_the_one_that_is_drawn(capsys):
    code = run(["demo", "failure-probability", "-o", "svg"])
    assert (code, capsys.readouterr().out) == (0, (ROOT / "docs" / "pictures" / "demo.svg").read_text())


def test_a_picture_shows_one_story_only(capsys):
    assert (run(["demo", "-o", "svg"]), "a picture shows one story" in capsys.readouterr().err) == (2, True)


def test_the_python_of_the_page_about_skew_runs():
    page = (ROOT / "docs/howto/play-version-skew.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    played = {}
    exec(compile(code, "play-version-skew.md", "exec"), played)
    assert not played["old"].enabled("TaintTolerationComparisonOperators")


@pytest.mark.parametrize(
    "wanted, seen, late",
    [("0s", timedelta(seconds=9), True), ("0s", timedelta(seconds=40), False), ("0s", "never", False)],
)
def test_by_a_clock_that_runs_by_itself_a_component_may_be_a_little_late(wanted, seen, late):
    outcome = ExpectedOutcome(pod="p", left=wanted)
    judged = Judged(outcome, {"left": seen}, (f"left: specified {wanted}",))
    assert only_late(judged, pace=10.0) is late
    assert not only_late(Judged(outcome, {"left": seen}, ("left", "phase")), pace=10.0)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_by_a_clock_that_runs_no_step_is_over_before_anybody_acted(story):
    pace = pace_of(story, PACE)
    shortest = min(step.lasts.total_seconds() for step in story.steps)
    assert 1.0 <= pace <= PACE and (pace == 1.0 or shortest / pace >= LATE_SECONDS)
