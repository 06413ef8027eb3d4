"""`weir check`: a line for each question, and an exit code that scripts can rely on."""

from weir.cli.check import show, verdict
from weir.install.checks import Check, Verdict


def checks(*verdicts):
    return [
        Check(f"n{number}", each, "says", "do" if each is Verdict.TO_DO else "")
        for number, each in enumerate(verdicts)
    ]


def test_exit_codes():
    assert verdict(checks(Verdict.FINE, Verdict.NOTE)) == 0
    assert verdict(checks(Verdict.FINE, Verdict.UNKNOWN, Verdict.TO_DO)) == 1
    assert verdict(checks(Verdict.FINE, Verdict.UNKNOWN)) == 3


def test_one_line_each(capsys):
    show(checks(*Verdict))
    assert capsys.readouterr().out.splitlines() == [
        "✓ n0: says",
        "· n1: says",
        "✗ n2: says: do",
        "? n3: says",
    ]
