"""Claims about weir.observe.logs: one event, one line."""

import io
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.observe.logs import Log, configure, pair


@pytest.fixture
def out():
    stream = io.StringIO()
    logger = logging.getLogger("weir")
    before = logger.handlers[:], logger.level, logger.propagate
    configure("info", stream)
    yield stream
    logger.handlers[:], logger.level, logger.propagate = before


def test_a_line_has_time_level_place_sentence_and_pairs(out):
    Log("weir.apiserver").info("Serving", address="127.0.0.1:6443", tls=True)
    when, rest = out.getvalue().split(" ", 1)
    assert when.endswith("Z") and rest == "info weir.apiserver Serving address=127.0.0.1:6443 tls=true\n"


def test_below_the_level_nothing_is_said(out):
    Log("weir.scheduler").debug("Considered", node="n1")
    assert out.getvalue() == ""


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


def test_an_unknown_level_is_named():
    with pytest.raises(ValueError, match="loud"):
        configure("loud")


def test_of_one_trouble_few_lines_are_told_and_later_how_many_were_left_out(out):
    logger = logging.getLogger("weir.apiserver")
    for second in [0.0] * 40 + [11.0]:
        record = logger.makeRecord("weir.apiserver", logging.ERROR, "", 0, "full path=%s", ("/x",), None)
        record.created = second
        logger.handle(record)
    lines = out.getvalue().splitlines()
    assert (len(lines), lines[-1].endswith("full path=/x leftOut=35")) == (6, True)


@pytest.mark.parametrize("odd", ["\x1b[2J", "\x9b2J", "\u202e", "\x85", "\x7f"], ids=ascii)
def test_no_control_character_reaches_who_reads_the_log(out, odd):
    log = Log("weir")
    log.warning(f"Read{odd}it", pod=f"a{odd}b")
    try:
        raise RuntimeError(f"boom{odd}")
    except RuntimeError:
        log.exception("Unexpected failure")
    assert all(line.isprintable() for line in out.getvalue().split("\n"))
