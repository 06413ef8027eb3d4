"""Claims about weir.observe.logs: one event, one line, as loud and in the form that was asked for."""

import io
import json
import logging
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.observe.logs import Log, ObjectRef, configure, pair

ROOT = Path(__file__).parents[3]


@pytest.fixture
def logs():
    """Configure logging for one test; returns what configures it and gives the stream."""
    logger = logging.getLogger("weir")
    before = logger.handlers[:], logger.level, logger.propagate

    def start(verbosity=0, form="plain"):
        stream = io.StringIO()
        configure(verbosity, stream, form)
        return stream

    yield start
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture
def out(logs):
    return logs()


def test_a_line_has_time_level_place_sentence_and_pairs(out):
    Log("weir.apiserver").info("Serving", address="127.0.0.1:6443", tls=True)
    when, rest = out.getvalue().split(" ", 1)
    assert when.endswith("Z") and rest == "info weir.apiserver Serving address=127.0.0.1:6443 tls=true\n"


@pytest.mark.parametrize("asked", range(11))
def test_a_level_shows_everything_up_to_itself(logs, asked):
    out, log = logs(asked), Log("weir.scheduler")
    for verbosity in range(11):
        log.v(verbosity, f"level {verbosity}")
    assert [line.split()[-1] for line in out.getvalue().splitlines()] == [str(n) for n in range(asked + 1)]
    assert [log.shows(n) for n in range(11)] == [n <= asked for n in range(11)]


def test_without_a_level_only_troubles_are_told(logs):
    out, log = logs(None), Log("weir.scheduler")
    log.info("Scheduling")
    log.warning("Slow")
    assert out.getvalue().split()[1:] == ["warning", "weir.scheduler", "Slow"]


def test_a_line_in_klogs_form(logs):
    out = logs(2, "text")
    log = Log("weir.scheduler")
    log.v(2, "Bound", pod=ObjectRef("default", "web"), attempts=2, node=None, note='a "b"\nc')
    log.error("failed to parse", err="no", taint="high")
    first, second = out.getvalue().splitlines()
    head = r"[IE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_logs\.py:\d+\] "
    assert re.fullmatch(
        head + re.escape(r'"Bound" pod="default/web" attempts=2 node=<nil> note="a \"b\"\nc"'), first
    )
    assert first[0] == "I" and second[0] == "E" and second.endswith('"failed to parse" err="no" taint="high"')


def test_a_line_in_json_has_the_names_of_kubernetes_components(logs):
    out = logs(4, "json")
    log = Log("weir.scheduler")
    log.v(4, "Bound", pod=ObjectRef("default", "web"), node=ObjectRef("", "n1"), attempts=2, value="a\x1b")
    log.error("failed", err="no")
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first.pop("ts") > 1.5e12 and re.fullmatch(r"observe/test_logs\.py:\d+", first.pop("caller"))
    assert first == {
        "logger": "weir.scheduler",
        "msg": "Bound",
        "v": 4,
        "pod": {"name": "web", "namespace": "default"},
        "node": {"name": "n1"},
        "attempts": 2,
        "value": "a\x1b",
    }
    assert "v" not in second and second["err"] == "no"


def test_a_bug_in_json_is_still_one_line(logs):
    out = logs(0, "json")
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        Log("weir").exception("Unexpected failure")
    line = json.loads(out.getvalue())
    assert line["err"] == "boom" and "Traceback" in line["stacktrace"]


def test_a_bug_brings_its_traceback(out):
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        Log("weir").exception("Unexpected failure", pod="ns/p")
    assert (
        "Unexpected failure pod=ns/p\nTraceback" in out.getvalue() and "RuntimeError: boom" in out.getvalue()
    )


@given(st.text())
def test_no_value_can_forge_a_line_or_a_pair(text):
    shown = pair("k", text)
    assert "\n" not in shown and "\r" not in shown
    assert shown.startswith('k="') or (" " not in shown and shown.count("=") == 1)


@pytest.mark.parametrize("wrong", [-1, 11])
def test_a_level_that_is_none_is_named(wrong):
    with pytest.raises(ValueError, match=str(wrong)):
        configure(wrong)


def test_of_one_trouble_few_lines_are_told_and_later_how_many_were_left_out(out):
    logger = logging.getLogger("weir.apiserver")
    for second in [0.0] * 40 + [11.0]:
        record = logger.makeRecord("weir.apiserver", logging.ERROR, "", 0, "full path=%s", ("/x",), None)
        record.created = second
        logger.handle(record)
    lines = out.getvalue().splitlines()
    assert (len(lines), lines[-1].endswith("full path=/x leftOut=35")) == (6, True)


@pytest.mark.parametrize("form", ["plain", "text", "json"])
@pytest.mark.parametrize("odd", ["\x1b[2J", "\x9b2J", "\u202e", "\x85", "\x7f"], ids=ascii)
def test_no_control_character_reaches_who_reads_the_log(logs, odd, form):
    out, log = logs(0, form), Log("weir")
    log.warning(f"Read{odd}it", pod=f"a{odd}b")
    try:
        raise RuntimeError(f"boom{odd}")
    except RuntimeError:
        log.exception("Unexpected failure")
    assert all(line.isprintable() for line in out.getvalue().split("\n"))


def test_the_reference_page_has_every_line_that_a_level_adds():
    said = set()
    for path in (ROOT / "src").rglob("*.py"):
        if path.name != "logs.py":
            text = path.read_text()
            said |= set(re.findall(r'\.v\(\s*(\d+),\s*"([^"]+)"', text))
            for level, first, second in re.findall(r'\.v\(\s*(\d+),\s*"([^"]+)" if \w+ else "([^"]+)"', text):
                said |= {(level, first), (level, second)}
    page = (ROOT / "docs" / "reference" / "logs.md").read_text()
    listed = set(re.findall(r"^\| (\d+) \| [^|]+ \| `([^`]+)` \|", page, re.M))
    # These two are chosen by a variable (the runner's three verbs, the two kinds of label).
    chosen = {("4", f"{verb} object") for verb in ("Created", "Deleted", "Patched")}
    chosen |= {("10", f"{what} failed for value in label") for what in ("Parse semver", "ParseInt")}
    assert listed == said | chosen
