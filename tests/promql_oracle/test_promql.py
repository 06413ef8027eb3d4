"""Claims about the PromQL of the tests: it answers as Prometheus' own engine does."""

from __future__ import annotations

import json

import pytest

from tests.promql import History, Vector
from tests.promql_oracle.__main__ import ANSWERS, PAGES, QUERIES, STEP, case

RECORDED = json.loads(ANSWERS.read_text())


def history(given: dict) -> History:
    """Return what was scraped: after a series ended it is on no page."""
    pages: list[tuple[float, dict[str, Vector]]] = [(float(at * STEP), {}) for at in range(PAGES)]
    for series in given["series"]:
        labels = tuple(
            sorted((name, value) for name, value in series["labels"].items() if name != "__name__")
        )
        for moment, value in series["samples"]:
            if value is None:
                continue
            pages[moment // STEP][1].setdefault(series["labels"]["__name__"], {})[labels] = float(value)
    return History(pages)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(len(RECORDED)))
def test_a_query_is_answered_as_prometheus_answers_it(seed, query):
    expected = {
        tuple(sorted((name, each) for name, each in labels.items() if name != "__name__")): float(value)
        for labels, value in RECORDED[seed][query]
    }
    assert history(case(seed)).ask(query) == pytest.approx(expected, rel=1e-9, nan_ok=True)
