"""Metrics in Prometheus' text format: counters, gauges and histograms cheap enough for every request.

A `Registry` holds families, a family one child per set of label values. Hot paths keep their child: a count is one
addition, an observation one list append (folded into buckets when a thousand have accumulated, or when read). Callers
must bound label values. prometheus-client's children lock (docs/decisions/0011-own-metrics.md); it is the oracle of
the tests. Not thread-safe.
"""

from __future__ import annotations

import itertools
import operator
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Generic, TypeVar, cast

FOLD_AT = 1000
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class CounterChild:
    """One count. `inc` is a method for readers; a hot path may add to `value` itself."""

    __slots__ = ("look", "value")

    def __init__(self) -> None:
        self.value: float = 0
        self.look: Callable[[], float] | None = None

    def inc(self, by: float = 1) -> None:
        self.value += by


class GaugeChild:
    """One value that goes up and down, or is looked up when printed."""

    __slots__ = ("look", "value")

    def __init__(self) -> None:
        self.value: float = 0
        self.look: Callable[[], float] | None = None

    def inc(self, by: float = 1) -> None:
        self.value += by

    def dec(self, by: float = 1) -> None:
        self.value -= by

    def set(self, value: float) -> None:
        self.value = value


class HistogramChild:
    """One distribution: how many observations lie at or below each bound."""

    __slots__ = ("_bounds", "_counts", "_pending", "_sum", "note")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._pending: list[float] = []
        #: `observe` for the hottest paths; callers must `fold` after some hundred observations
        self.note: Callable[[float], None] = self._pending.append

    def observe(self, value: float) -> None:
        pending = self._pending
        pending.append(value)
        if len(pending) >= FOLD_AT:
            self.fold()

    @property
    def count(self) -> int:
        self.fold()
        return sum(self._counts)

    @property
    def sum(self) -> float:
        self.fold()
        return self._sum

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield (bound, observations at or below it), the last bound being infinity."""
        self.fold()
        total = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            yield bound, total

    def fold(self) -> None:
        """Count what was observed since the last time into its buckets."""
        if self._pending:
            for value in self._pending:
                self._counts[bisect_left(self._bounds, value)] += 1
            self._sum += sum(self._pending)
            self._pending.clear()


MOST_CHILDREN = 10_000
_OTHER = "other"
Child = TypeVar("Child", CounterChild, GaugeChild, HistogramChild)


class Family(Generic[Child]):
    """All children of one metric."""

    def __init__(
        self, name: str, help: str, kind: str, labels: Sequence[str], make: Callable[[], Child]
    ) -> None:
        self.name, self.help, self.kind = name, help, kind
        self.label_names: tuple[str, ...] = tuple(labels)
        self._make: Callable[[], Child] = make
        self._children: dict[tuple[str, ...], Child] = {}

    def child(self, *values: str) -> Child:
        """Return the child of these label values, created on first use."""
        found = self._children.get(values)
        if found is None:
            if len(values) != len(self.label_names):
                raise ValueError(
                    f"{self.name} has labels {', '.join(self.label_names)}; got {len(values)} values"
                )
            if len(self._children) >= MOST_CHILDREN:
                values = (_OTHER,) * len(values)  # bounded, since clients may invent label values
                if values in self._children:
                    return self._children[values]
            found = self._children[values] = self._make()
        return found

    def items(self) -> Iterator[tuple[tuple[str, ...], Child]]:
        """Yield every child with its label values."""
        yield from self._children.items()

    def lines(self) -> Iterator[str]:
        """Yield the family in text format."""
        yield from self.head()
        yield from self.samples()

    def head(self) -> Iterator[str]:
        """Yield what comes once before the samples of a metric."""
        yield f"# HELP {self.name} {_escape(self.help, quotes=False)}"
        yield f"# TYPE {self.name} {self.kind}"

    def samples(self, *first: tuple[str, str]) -> Iterator[str]:
        """Yield a line for every child, with *first* among its labels."""
        for values in sorted(self._children):
            labels = list(first)
            labels += zip(self.label_names, values, strict=True)
            yield from _samples(self.name, labels, self._children[values])


def _samples(
    name: str, labels: list[tuple[str, str]], child: CounterChild | GaugeChild | HistogramChild
) -> Iterator[str]:
    if isinstance(child, HistogramChild):
        for bound, count in child.cumulative():
            yield f"{name}_bucket{_labels([*labels, ('le', _bound(bound))])} {count}"
        yield f"{name}_sum{_labels(labels)} {_number(child.sum)}"
        yield f"{name}_count{_labels(labels)} {child.count}"
    else:
        yield f"{name}{_labels(labels)} {_number(child.look() if child.look else child.value)}"


class Registry:
    """Every metric of one process."""

    def __init__(self) -> None:
        self._families: dict[str, Family[CounterChild] | Family[GaugeChild] | Family[HistogramChild]] = {}

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Family[CounterChild]:
        family = Family(name, help, "counter", labels, CounterChild)
        self._add(family)
        return family

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Family[GaugeChild]:
        family = Family(name, help, "gauge", labels, GaugeChild)
        self._add(family)
        return family

    def find_gauge(self, name: str) -> Family[GaugeChild] | None:
        """Return the gauge of this name, if it was declared."""
        found = self._families.get(name)
        return cast(Family[GaugeChild], found) if found is not None and found.kind == "gauge" else None

    def histogram(
        self, name: str, help: str, labels: Sequence[str] = (), *, buckets: Sequence[float]
    ) -> Family[HistogramChild]:
        bounds = tuple(buckets)
        if list(bounds) != sorted(set(bounds)):
            raise ValueError(f"{name}: buckets must rise")
        family = Family(name, help, "histogram", labels, lambda: HistogramChild(bounds))
        self._add(family)
        return family

    def render(self) -> bytes:
        """Return everything in text format, sorted by name.

        >>> registry = Registry()
        >>> registry.counter("hits_total", "How often.", ["code"]).child("200").inc()
        >>> print(registry.render().decode(), end="")
        # HELP hits_total How often.
        # TYPE hits_total counter
        hits_total{code="200"} 1
        """
        lines = [line for _, family in sorted(self._families.items()) for line in family.lines()]
        return ("\n".join(lines) + "\n").encode() if lines else b""

    def reference(self) -> str:
        """Return a page that lists every metric: name, kind, labels, what it counts."""
        lines = ["| Metric | Kind | Labels | Help |", "|---|---|---|---|"]
        for name, family in sorted(self._families.items()):
            labels = ", ".join(f"`{label}`" for label in family.label_names) or "–"
            lines.append(f"| `{name}` | {family.kind} | {labels} | {family.help} |")
        return "\n".join(lines) + "\n"

    def families(
        self,
    ) -> Iterator[tuple[str, Family[CounterChild] | Family[GaugeChild] | Family[HistogramChild]]]:
        """Yield every metric by its name."""
        yield from self._families.items()

    def _add(self, family: Family[CounterChild] | Family[GaugeChild] | Family[HistogramChild]) -> None:
        if family.name in self._families:
            raise ValueError(f"metric {family.name} is declared twice")
        self._families[family.name] = family
        if not family.label_names:
            family.child()  # one that has no labels is shown from the start, as 0


def render_together(registries: Mapping[str, Registry]) -> bytes:
    """Return the metrics of several components on one page, told apart by the label `component`.

    A metric that has such a label of its own keeps it; process metrics have none.

    >>> one, two = Registry(), Registry()
    >>> for registry in (one, two):
    ...     registry.counter("hits_total", "How often.").child().inc()
    >>> print(render_together({"scheduler": one, "kubelet": two}).decode(), end="")
    # HELP hits_total How often.
    # TYPE hits_total counter
    hits_total{component="scheduler"} 1
    hits_total{component="kubelet"} 1
    """
    lines: dict[str, list[str]] = {}
    for component, registry in registries.items():
        for name, family in registry.families():
            of_process = name.startswith("process_")
            if name in lines and of_process:
                continue
            apart = [] if of_process or "component" in family.label_names else [("component", component)]
            lines.setdefault(name, list(family.head())).extend(family.samples(*apart))
    return "".join(f"{line}\n" for name in sorted(lines) for line in lines[name]).encode()


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bucket bounds that grow by *factor*, multiplied one by one as Go's client does: it rounds alike.

    >>> exponential(1000, 10, 3), exponential(1e-5, 1.5, 3)
    ((1000, 10000, 100000), (1e-05, 1.5000000000000002e-05, 2.2500000000000005e-05))
    """
    return tuple(itertools.accumulate(itertools.repeat(factor, count - 1), operator.mul, initial=start))


def add_process_metrics(registry: Registry) -> None:
    """Declare the usual metrics of the process itself; those this system does not know are left out."""
    started = time.time()
    cpu = registry.counter(
        "process_cpu_seconds_total", "Total user and system CPU time spent in seconds."
    ).child()
    cpu.look = time.process_time
    registry.gauge(
        "process_start_time_seconds", "Start time of the process since unix epoch in seconds."
    ).child().set(started)
    if not Path("/proc/self/statm").exists():
        return
    page = os.sysconf("SC_PAGE_SIZE")

    def pages(column: int) -> Callable[[], float]:
        return lambda: float(Path("/proc/self/statm").read_text().split()[column]) * page

    registry.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.").child().look = pages(0)
    registry.gauge("process_resident_memory_bytes", "Resident memory size in bytes.").child().look = pages(1)
    registry.gauge("process_open_fds", "Number of open file descriptors.").child().look = lambda: float(
        sum(1 for _ in Path("/proc/self/fd").iterdir())
    )


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    inside = ",".join(f'{name}="{_escape(value)}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


def _escape(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def _bound(value: float) -> str:
    """Return a bucket's bound as Go's client prints it, whose words queries use.

    >>> [_bound(bound) for bound in (0.005, 1, 2.5, 100_000, 1_000_000, 1_048_576, 1e-05, float("inf"))]
    ['0.005', '1', '2.5', '100000', '1e+06', '1.048576e+06', '1e-05', '+Inf']
    """
    if value == float("inf"):
        return "+Inf"
    if 1e-4 <= abs(value) < 1e6 or not value:
        return _number(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, rest = str(digits[0]), "".join(map(str, digits[1:]))
    power = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{first}{'.' if rest else ''}{rest}e{power:+03d}"


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
