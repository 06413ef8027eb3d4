"""The live table takes back what it drew, and never more."""

from __future__ import annotations

import io

from weir.simulation.demo.words import Screen


def test_a_second_picture_takes_the_place_of_the_first():
    out = io.StringIO()
    screen = Screen(out, (80, 24))
    screen.draw(["one", "two"])
    screen.draw(["three"])
    assert out.getvalue() == "one\ntwo\n\033[2A\r\033[Jthree\n"


def test_what_is_left_stays():
    out = io.StringIO()
    screen = Screen(out, (80, 24))
    screen.draw(["picture"])
    screen.leave(["result"])
    screen.draw(["next"])
    assert out.getvalue() == "picture\n\033[1A\r\033[Jresult\nnext\n"


def test_a_picture_never_outgrows_the_terminal():
    out = io.StringIO()
    Screen(out, (20, 6)).draw([f"line {number} of a long table" for number in range(50)])
    lines = out.getvalue().splitlines()
    assert (len(lines), max(map(len, lines)) < 20, lines[-1].startswith("line 49")) == (4, True, True)
