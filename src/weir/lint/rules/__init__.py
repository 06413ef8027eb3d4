"""Every lint rule, in the order of their codes. A new rule is a new file and a line here."""

from __future__ import annotations

from typing import Final

from weir.lint.rule import Rule
from weir.lint.rules import (
    w000_unreadable,
    w001_api_server,
    w002_duplicate_key,
    w003_not_integers,
    w004_not_versions,
    w005_missing_equal,
    w006_never_matches,
    w007_shadowed,
    w008_prerelease,
    w009_seconds_on_match,
    w010_empty_toleration,
    w011_tolerates_everything,
    w012_integer_spelling,
    w013_unreadable_taint,
    w014_gate_off,
    w015_kind_not_known,
    w020_expression_cost,
    w021_constant_expression,
    w022_expression_fails,
    w023_expression_noexecute,
    w030_refused_pods,
    w031_hot_loop,
    w032_unschedulable_pods,
    w040_expression_dropped,
    w041_lowered_mark,
    w042_bound_at_creation,
)

RULES: Final[tuple[Rule, ...]] = (
    w000_unreadable.RULE,
    w001_api_server.RULE,
    w002_duplicate_key.RULE,
    w003_not_integers.RULE,
    w004_not_versions.RULE,
    w005_missing_equal.RULE,
    w006_never_matches.RULE,
    w007_shadowed.RULE,
    w008_prerelease.RULE,
    w009_seconds_on_match.RULE,
    w010_empty_toleration.RULE,
    w011_tolerates_everything.RULE,
    w012_integer_spelling.RULE,
    w013_unreadable_taint.RULE,
    w014_gate_off.RULE,
    w015_kind_not_known.RULE,
    w020_expression_cost.RULE,
    w021_constant_expression.RULE,
    w022_expression_fails.RULE,
    w023_expression_noexecute.RULE,
    w030_refused_pods.RULE,
    w031_hot_loop.RULE,
    w032_unschedulable_pods.RULE,
    w040_expression_dropped.RULE,
    w041_lowered_mark.RULE,
    w042_bound_at_creation.RULE,
)
