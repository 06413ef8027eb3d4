"""The more requests of a level are refused, the later clients are told to come back."""

from __future__ import annotations

from weir.apiserver.flowcontrol.retry_after import LONGEST, RetryAfter


def test_one_refusal_is_one_second():
    assert RetryAfter().refuse(100.5) == 1


def test_it_doubles_under_pressure_and_falls_again():
    retry = RetryAfter()
    said = [retry.refuse(100 + second + part / 10) for second in range(300) for part in range(10)]
    assert said[0] == 1 and sorted(said) == said and said[-1] == LONGEST
    later = [retry.refuse(1000 + 100 * second) for second in range(40)]
    assert later[-1] == 1
