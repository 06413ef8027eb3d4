"""Flow control metrics, with upstream's names (`apiserver_flowcontrol_*`).

Labels are names of flow schemas and priority levels, which only administrators can create. A flow's children are
looked up once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from weir.apiserver.compat.flowcontrol.levels import Level
from weir.observe.metrics import Registry

SECONDS = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 100)
LENGTHS = (0, 10, 25, 50, 100, 250, 500, 1000)
QUEUE_FULL, CONCURRENCY, TIME_OUT = "queue-full", "concurrency-limit", "time-out"
_FLOW = ("priority_level", "flow_schema")
_LEVEL = ("priority_level",)


class FlowMetrics:
    """What is counted about the requests of one schema in one level."""

    __slots__ = ("executing", "length", "regular", "rejected", "seats_in_use", "unwaited", "waited",
                 "waiting", "watch", "width")  # fmt: skip

    def __init__(self, metrics: FlowControlMetrics, level: str, schema: str) -> None:
        self.executing = self.seats_in_use = self.waiting = 0
        names = (level, schema)
        self.rejected = partial(metrics.rejected.child, *names)
        self.waited = metrics.wait.child(*names, "true")
        metrics.dispatched.child(*names).look = lambda: self.waited.count  # each waits, if for no time
        self.unwaited = metrics.wait.child(*names, "false")
        self.regular = metrics.execution.child(*names, "regular")
        self.watch = metrics.execution.child(*names, "watch")
        self.width = metrics.width.child(*names)
        self.length = metrics.length.child(*names)
        metrics.executing.child(*names).look = lambda: self.executing
        metrics.seats_in_use.child(*names).look = lambda: self.seats_in_use
        metrics.waiting.child(*names).look = lambda: self.waiting


class FlowControlMetrics:
    """The metrics of flow control; one per server."""

    def __init__(self, registry: Registry | None = None) -> None:
        registry = registry or Registry()
        prefix = "apiserver_flowcontrol_"
        self.executing = registry.gauge(
            f"{prefix}current_executing_requests",
            "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority "
            "and Fairness subsystem.",
            _FLOW,
        )
        self.seats_in_use = registry.gauge(
            f"{prefix}current_executing_seats",
            "Seats occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in "
            "the API Priority and Fairness subsystem.",
            _FLOW,
        )
        self.waiting = registry.gauge(
            f"{prefix}current_inqueue_requests",
            "Number of requests currently pending in queues of the API Priority and Fairness subsystem.",
            _FLOW,
        )
        self.dispatched = registry.counter(
            f"{prefix}dispatched_requests_total",
            "Number of requests executed by API Priority and Fairness subsystem.",
            _FLOW,
        )
        self.rejected = registry.counter(
            f"{prefix}rejected_requests_total",
            "Number of requests rejected by API Priority and Fairness subsystem.",
            (*_FLOW, "reason"),
        )
        self.wait = registry.histogram(
            f"{prefix}request_wait_duration_seconds",
            "Length of time a request spent waiting in its queue.",
            (*_FLOW, "execute"),
            buckets=SECONDS,
        )
        self.execution = registry.histogram(
            f"{prefix}request_execution_seconds",
            "Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API "
            "Priority and Fairness subsystem.",
            (*_FLOW, "type"),
            buckets=SECONDS,
        )
        self.width = registry.histogram(
            f"{prefix}work_estimated_seats",
            "Number of estimated seats associated with requests that list or watch in API Priority and Fairness.",
            _FLOW,
            buckets=WIDTHS,
        )
        self.length = registry.histogram(
            f"{prefix}request_queue_length_after_enqueue",
            "Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued.",
            _FLOW,
            buckets=LENGTHS,
        )
        self._nominal, self._lower, self._upper = (
            registry.gauge(f"{prefix}{name}", text, _LEVEL)
            for name, text in (
                (
                    "nominal_limit_seats",
                    "Nominal number of execution seats configured for each priority level.",
                ),
                (
                    "lower_limit_seats",
                    "Configured lower bound on number of execution seats available to each priority level.",
                ),
                (
                    "upper_limit_seats",
                    "Configured upper bound on number of execution seats available to each priority level.",
                ),
            )
        )
        self._known: dict[tuple[str, str], FlowMetrics] = {}

    def of(self, level: str, schema: str) -> FlowMetrics:
        """Return the metrics of a schema in a level."""
        found = self._known.get((level, schema))
        if found is None:
            if len(self._known) >= MOST_TALLIES:
                self._known.clear()  # what is under way counts on its own to the end
            found = self._known[level, schema] = FlowMetrics(self, level, schema)
        return found

    def configured(self, levels: Iterable[Level]) -> None:
        """Note how many seats each level has."""
        for level in levels:
            name, seats = level.name, level.seats
            self._nominal.child(name).value = seats.nominal
            self._lower.child(name).value = seats.lower
            self._upper.child(name).value = seats.upper


MOST_TALLIES = 10_000
