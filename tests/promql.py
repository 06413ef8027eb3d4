"""Evaluates the PromQL of deploy/ and of the pages over scraped samples, where there is no Prometheus.

What these queries use, and nothing else: selectors, ranges, `rate`, `increase`, `histogram_quantile`, `sum` and `max`
with `by`, division, comparison with a number, `and`. `promql_oracle` holds it against Prometheus' own engine.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]
Vector = dict[Labels, float]
_TOKEN = re.compile(r"\s*(?:([a-zA-Z_:]\w*)|(\d+(?:\.\d+)?)|(\{[^}]*\})|(\[\w+\])|([()/,*+-]|[<>=!]=?))")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_UNITS = {"s": 1, "m": 60, "h": 3600}


def scrape(page: str, only: str = "") -> dict[str, Vector]:
    """Return the samples of a metrics page by name; with *only*, of that metric alone."""
    found: dict[str, Vector] = defaultdict(dict)
    if only:
        page = "".join(line for line in page.splitlines(keepends=True) if only in line)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found[sample.name][tuple(sorted(sample.labels.items()))] = sample.value
    return found


class History:
    """Pages of metrics scraped at some seconds, and queries about them at the last one."""

    def __init__(self, pages: Sequence[tuple[float, Mapping[str, Vector]]]) -> None:
        self._pages = pages

    def ask(self, query: str) -> Vector:
        """Return the series that *query* gives, by their labels."""
        reader = _Reader(self._pages, query)
        answer = reader.logical()
        assert not reader.left and isinstance(answer, dict), f"{query}: not understood at {reader.left}"
        return answer


class _Reader:
    def __init__(self, pages: Sequence[tuple[float, Mapping[str, Vector]]], query: str) -> None:
        self._pages, self._now = pages, pages[-1][0]
        self.left = [next(part for part in match.groups() if part) for match in _TOKEN.finditer(query)]
        assert re.sub(r"\s", "", query) == re.sub(r"\s", "", "".join(self.left)), query

    def _take(self, *wanted: str) -> str:
        return self.left.pop(0) if self.left and self.left[0] in wanted else ""

    def _must(self, wanted: str) -> None:
        assert self._take(wanted), f"{wanted} expected at {self.left}"

    def logical(self) -> Vector | float:
        left = self._compared()
        while self._take("and"):
            right = self._compared()
            assert isinstance(left, dict) and isinstance(right, dict)
            left = {labels: value for labels, value in left.items() if labels in right}
        return left

    def _compared(self) -> Vector | float:
        left = self._divided()
        if sign := self._take(">", "<"):
            limit = self._divided()
            assert isinstance(left, dict) and isinstance(limit, float)
            return {labels: value for labels, value in left.items() if (value > limit) == (sign == ">")}
        return left

    def _divided(self) -> Vector | float:
        left = self._term()
        while self._take("/"):
            right = self._term()
            assert isinstance(left, dict) and isinstance(right, dict)
            left = {labels: _divide(left[labels], right[labels]) for labels in left.keys() & right.keys()}
        return left

    def _term(self) -> Vector | float:
        word = self.left.pop(0)
        if word[0].isdigit():
            return float(word)
        if word in ("sum", "max"):
            by = self._by()
            self._must("(")
            inner = self.logical()
            self._must(")")
            assert isinstance(inner, dict)
            return _together(inner, by or self._by(), sum if word == "sum" else max)
        if word in ("rate", "increase"):
            self._must("(")
            answer = self._growth(*self._series())
            self._must(")")
            return answer if word == "increase" else {k: v / self._range for k, v in answer.items()}
        if word == "histogram_quantile":
            self._must("(")
            part = float(self.left.pop(0))
            self._must(",")
            buckets = self.logical()
            self._must(")")
            assert isinstance(buckets, dict)
            return _quantile(part, buckets)
        self.left.insert(0, word)
        name, matchers = self._series()
        return _chosen(self._pages[-1][1].get(name, {}), matchers)

    def _by(self) -> list[str]:
        names: list[str] = []
        if self._take("by"):
            self._must("(")
            while not self._take(")"):
                names.append(self.left.pop(0))
                self._take(",")
        return names

    def _series(self) -> tuple[str, list[tuple[str, str, str]]]:
        name = self.left.pop(0)
        braces = self.left.pop(0) if self.left and self.left[0][0] == "{" else ""
        if self.left and self.left[0][0] == "[":
            text = self.left.pop(0)[1:-1]
            self._range = float(int(text[:-1]) * _UNITS[text[-1]])
        return name, _MATCHER.findall(braces)

    def _growth(self, name: str, matchers: list[tuple[str, str, str]]) -> Vector:
        """Return by how much each counter rose within the range; a counter that fell began anew."""
        seen: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
        begin = self._now - self._range
        for moment, page in self._pages:
            if begin < moment <= self._now:
                for labels, value in _chosen(page.get(name, {}), matchers).items():
                    seen[labels].append((moment, value))
        return {
            labels: _increase(samples, begin, self._now)
            for labels, samples in seen.items()
            if len(samples) > 1
        }


def _increase(samples: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """Return the growth of a counter between two seconds, extrapolated to them where samples reach near.

    >>> _increase([(10, 0), (20, 10), (30, 20)], 5, 35), _increase([(10, 100), (20, 110)], -600, 600)
    (25.0, 20.0)
    """
    (first, lowest), (last, _) = samples[0], samples[-1]
    grown = sum(b - a if b >= a else b for (_, a), (_, b) in pairwise(samples))
    sampled = last - first
    step = sampled / (len(samples) - 1)
    before, after = (gap if gap < 1.1 * step else step / 2 for gap in (first - begin, end - last))
    if grown > 0 and lowest >= 0:  # a counter is not below zero
        before = min(before, sampled * lowest / grown)
    return grown * (sampled + before + after) / sampled


def _divide(one: float, other: float) -> float:
    return one / other if other else math.nan if not one or math.isnan(one) else math.copysign(math.inf, one)


def _chosen(series: Vector, matchers: list[tuple[str, str, str]]) -> Vector:
    def takes(labels: Labels) -> bool:
        for name, how, wanted in matchers:
            value = dict(labels).get(name, "")
            same = bool(re.fullmatch(wanted, value)) if "~" in how else value == wanted
            if same == how.startswith("!"):
                return False
        return True

    return {labels: value for labels, value in series.items() if takes(labels)}


def _together(series: Vector, by: list[str], how: Callable[[Iterable[float]], float]) -> Vector:
    groups: dict[Labels, list[float]] = defaultdict(list)
    for labels, value in series.items():
        groups[tuple((name, value) for name, value in labels if name in by)].append(value)
    return {labels: how(values) for labels, values in groups.items()}


def _quantile(part: float, buckets: Vector) -> Vector:
    groups: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
    for labels, value in buckets.items():
        rest = tuple(pair for pair in labels if pair[0] != "le")
        groups[rest].append((float(dict(labels)["le"]), value))
    return {
        labels: found for labels, each in groups.items() if (found := _interpolated(part, sorted(each))) >= 0
    }


def _interpolated(part: float, buckets: list[tuple[float, float]]) -> float:
    """Return the value below which *part* of the observations are; NaN for none, the last bound above all.

    >>> _interpolated(0.5, [(1.0, 0.0), (2.0, 10.0), (math.inf, 10.0)])
    1.5
    """
    rank, below, counted = part * buckets[-1][1], 0.0, 0.0
    if not buckets[-1][1]:
        return math.nan
    for bound, count in buckets:
        if count >= rank:
            return (
                below if math.isinf(bound) else below + (bound - below) * (rank - counted) / (count - counted)
            )
        below, counted = bound, count
    return below
