"""The lint rules, by code. A new rule is a check and a Rule in the module of its subject, and a line here."""

from __future__ import annotations

from typing import Final

from weir.lint.rule import Rule
from weir.lint.rules import (
    api_server,
    comparisons,
    documents,
    expressions,
    stock_clusters,
    tolerations,
    workloads,
)

RULES: Final[tuple[Rule, ...]] = (
    documents.W000,
    api_server.W001,
    documents.W002,
    comparisons.W003,
    comparisons.W004,
    comparisons.W005,
    tolerations.W006,
    tolerations.W007,
    comparisons.W008,
    tolerations.W009,
    tolerations.W010,
    tolerations.W011,
    comparisons.W012,
    comparisons.W013,
    tolerations.W014,
    documents.W015,
    tolerations.W016,
    expressions.W020,
    expressions.W021,
    expressions.W022,
    expressions.W023,
    workloads.W030,
    workloads.W031,
    workloads.W032,
    stock_clusters.W040,
    stock_clusters.W041,
    stock_clusters.W042,
    documents.W050,
)
