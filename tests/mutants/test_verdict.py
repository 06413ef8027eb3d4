"""`make mutants` fails for the module in which too many survive, however well the others do."""

from __future__ import annotations

from tests.mutants.__main__ import below_the_bound, killed_percent
from tests.mutants.run import Result


def results(module: str, **outcomes: int) -> list[Result]:
    return [
        Result(f"{module} {outcome} {number}", module, number, outcome, 1)
        for outcome, count in outcomes.items()
        for number in range(count)
    ]


def test_one_weak_module_is_named_however_well_the_others_do():
    found = [*results("weir.strong", killed=980, timeout=20), *results("weir.weak", killed=18, survived=2)]
    assert killed_percent(found) > 95
    assert below_the_bound(found) == {"weir.weak": 90.0}


def test_what_no_test_reaches_is_not_killed():
    assert below_the_bound(results("weir.m", killed=9, unreached=1)) == {"weir.m": 90.0}


def test_just_enough_is_enough_and_nothing_is_all():
    assert below_the_bound(results("weir.m", killed=19, survived=1)) == {}
    assert killed_percent([]) == 100.0
