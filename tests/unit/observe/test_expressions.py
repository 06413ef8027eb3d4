"""Claims about weir.observe.expressions: cache hits and results of expressions are published by cache."""

import pytest

from weir.objects.core import Taint
from weir.observe.expressions import ExpressionMetrics
from weir.observe.metrics import Registry
from weir.taints.expression import Expressions

pytestmark = pytest.mark.proves("5500-105", "5500-125")


def test_hits_misses_results_and_times_are_shown():
    registry, expressions = Registry(), Expressions()
    ExpressionMetrics(registry).watch("scheduler", expressions)
    for text in ("taint.key == 'a'", "taint.key == 'b'", "int(taint.value) > 1", "taint.key == 'a'"):
        expressions.evaluate(text, Taint("a", "x", "NoSchedule"))
    page = registry.render().decode()
    for line in (
        'weir_cel_cache_requests_total{cache="scheduler",result="hit"} 1',
        'weir_cel_cache_requests_total{cache="scheduler",result="miss"} 3',
        'weir_cel_cache_entries{cache="scheduler"} 3',
        'weir_cel_evaluations_total{cache="scheduler",result="true"} 2',
        'weir_cel_evaluations_total{cache="scheduler",result="false"} 1',
        'weir_cel_evaluations_total{cache="scheduler",result="error"} 1',
        'weir_cel_evaluation_duration_seconds_count{cache="scheduler"} 4',
    ):
        assert line in page.splitlines()


def test_a_cache_that_comes_anew_replaces_the_former():
    registry = Registry()
    metrics = ExpressionMetrics(registry)
    for _ in range(2):  # a controller is elected again
        expressions = Expressions()
        metrics.watch("daemonset-controller", expressions)
        expressions.evaluate("true", Taint("a", "", "NoSchedule"))
    assert (
        'weir_cel_cache_requests_total{cache="daemonset-controller",result="miss"} 1\n'
        in registry.render().decode()
    )
