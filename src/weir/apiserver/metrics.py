"""API server metrics, with upstream's names.

Spec: upstream's metric names. Labels are bounded: verbs, kinds, codes and plugin names, never an object's name.
Children are looked up once per combination of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from weir.apiserver.request_log import COMPONENT, Labels
from weir.observe.metrics import (
    CounterChild,
    GaugeChild,
    HistogramChild,
    Registry,
    add_process_metrics,
    exponential,
)

REQUEST_SECONDS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3),
    *(4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)
ADMISSION_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
WEBHOOK_SECONDS = (*ADMISSION_SECONDS, 10, 25)
_WHAT = ("group", "version", "resource", "subresource", "scope", "component")
MOST_REQUEST_KINDS = 10_000  # clients must not fill memory by asking for nonsense


class _Request(NamedTuple):
    total: CounterChild
    seconds: HistogramChild
    size: HistogramChild | None


class Metrics:
    """The API server's metrics; one per server."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry = registry or Registry()
        add_process_metrics(registry)
        self._requests: dict[tuple[Labels, int, str], _Request] = {}
        self._total = registry.counter(
            "apiserver_request_total",
            "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, "
            "scope, component, and HTTP response code.",
            ("verb", "dry_run", *_WHAT, "code"),
        )
        self._seconds = registry.histogram(
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds for each verb, dry run value, group, version, resource, "
            "subresource, scope and component.",
            ("verb", "dry_run", *_WHAT),
            buckets=REQUEST_SECONDS,
        )
        self._sizes = registry.histogram(
            "apiserver_response_sizes",
            "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and "
            "component.",
            ("verb", *_WHAT),
            buckets=exponential(1000, 10, 7),
        )
        self._long_running = registry.gauge(
            "apiserver_longrunning_requests",
            "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, "
            "scope and component.",
            ("verb", *_WHAT),
        )
        self._watchers = registry.gauge(
            "apiserver_registered_watchers",
            "Number of currently registered watchers for a given resource.",
            ("group", "version", "kind"),
        )
        self._watch_events = registry.counter(
            "apiserver_watch_events_total",
            "Number of events sent in watch clients",
            ("group", "version", "resource"),
        )
        self._watch_bytes = registry.histogram(
            "apiserver_watch_events_sizes",
            "Watch event size distribution in bytes",
            ("group", "version", "resource"),
            buckets=exponential(1024, 2, 8),
        )
        self._inflight = registry.gauge(
            "apiserver_current_inflight_requests",
            "Maximal number of currently used inflight request limit of this apiserver per request kind in last "
            "second.",
            ("request_kind",),
        )
        self._terminations = registry.counter(
            "apiserver_request_terminations_total",
            "Number of requests which apiserver terminated in self-defense.",
            ("verb", *_WHAT, "code"),
        )
        self._refused = registry.counter(
            "weir_apiserver_refused_total",
            "Number of requests that were turned away before it was known who sent them: no HTTP, too long a head, "
            "no room. They are in no audit log.",
            ("code",),
        )
        self._authenticated = registry.counter(
            "authentication_attempts", "Counter of authenticated attempts.", ("result",)
        )
        self._authorized = registry.counter(
            "authorization_attempts_total",
            "Counter of authorization attempts broken down by result.",
            ("result",),
        )
        self.audit_events = registry.counter(
            "apiserver_audit_event_total", "Counter of audit events generated and sent to the audit backend."
        ).child()
        self.audit_errors = registry.counter(
            "apiserver_audit_error_total",
            "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by "
            "the error.",
            ("plugin",),
        ).child("log")
        self._objects = registry.gauge(
            "apiserver_resource_objects",
            "Number of stored objects at the time of last check split by kind. In case of a fetching error, the "
            "value will be -1.",
            ("group", "resource"),
        )
        self._old_objects = registry.gauge(
            "apiserver_storage_objects",
            "[DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects at the time "
            "of last check split by kind. In case of a fetching error, the value will be -1.",
            ("resource",),
        )
        #: how many objects of each group and resource are stored; asked when metrics are read
        self.stored: Callable[[], Iterable[tuple[str, str, int]]] = tuple
        self.admission = AdmissionMetrics(registry)
        self.webhooks = WebhookMetrics(registry)
        self.conversions = ConversionMetrics(registry)
        success, failure, error = (self._authenticated.child(r) for r in ("success", "failure", "error"))
        self.authentication_success, self.authentication_failure = success, failure
        self.authentication_error = error
        self.authorization_allowed = self._authorized.child("allowed")
        self.authorization_denied = self._authorized.child("no-opinion")

    def observe_request(
        self, labels: Labels, code: int, seconds: float, response_bytes: int, dry_run: str = ""
    ) -> None:
        """Count one finished request; *dry_run* as `dry_run_label` gives it."""
        key = (labels, code, dry_run)
        found = self._requests.get(key) or self._request(key)
        found.total.value += 1
        found.seconds.observe(seconds)
        if found.size is not None:
            found.size.observe(response_bytes)

    def dropped(self, labels: Labels, dry_run: str = "") -> None:
        """Count a request that was refused because too many are in flight."""
        verb, *what = labels
        self._total.child(verb, dry_run, *what, "429").inc()
        self.terminated(labels, 429)

    def terminated(self, labels: Labels, code: int) -> None:
        """Count a request the server ended to protect itself: too many in flight (429), out of time (504)."""
        self._terminations.child(*labels, str(code)).inc()

    def refused(self, code: int) -> None:
        """Count a request that was turned away before it was one."""
        self._refused.child(str(code)).inc()

    def watch_opened(self, group: str, version: str, resource: str, kind: str, scope: str) -> WatchMetrics:
        """Count one more watch; its `closed` must be called when it ends."""
        what = (group, version, resource, "", scope, COMPONENT)
        watch = WatchMetrics(
            self._long_running.child("WATCH", *what),
            self._watchers.child(group, version, kind),
            self._watch_events.child(group, version, resource),
            self._watch_bytes.child(group, version, resource),
        )
        watch.open.inc()
        watch.registered.inc()
        return watch

    def inflight(self, request_kind: str) -> GaugeChild:
        """Return the gauge of one kind of requests: readOnly or mutating."""
        return self._inflight.child(request_kind)

    def render(self) -> bytes:
        """Return the page /metrics shows."""
        self.measure()
        return self.registry.render()

    def measure(self) -> None:
        """Bring the metrics that are read rather than counted up to date."""
        for group, resource, count in self.stored():
            self._objects.child(group, resource).value = count
            self._old_objects.child(f"{resource}.{group}" if group else resource).value = count

    def _request(self, key: tuple[Labels, int, str]) -> _Request:
        labels, code, dry_run = key
        if len(self._requests) >= MOST_REQUEST_KINDS:
            labels = labels._replace(group="other", version="other", resource="other", subresource="other")
        verb, *what = labels
        is_read = verb in ("GET", "LIST") or labels.subresource == "log"
        found = _Request(
            self._total.child(verb, dry_run, *what, str(code)),
            self._seconds.child(verb, dry_run, *what),
            self._sizes.child(verb, *what) if is_read else None,  # as upstream, of what is read
        )
        if len(self._requests) < MOST_REQUEST_KINDS:
            self._requests[key] = found
        return found


class WatchMetrics(NamedTuple):
    """The metrics one watch moves."""

    open: GaugeChild
    registered: GaugeChild
    events: CounterChild
    bytes: HistogramChild

    def sent(self, size: int) -> None:
        self.events.value += 1
        self.bytes.observe(size)

    def closed(self) -> None:
        self.open.dec()
        self.registered.dec()


class AdmissionMetrics:
    """The time of every in-tree plugin (weir.apiserver.admission.chain.Durations)."""

    def __init__(self, registry: Registry) -> None:
        self._durations = registry.histogram(
            "apiserver_admission_controller_admission_duration_seconds",
            "Admission controller latency histogram in seconds, identified by name and broken out for each operation "
            "and API resource and type (validate or admit).",
            ("name", "operation", "rejected", "type"),
            buckets=ADMISSION_SECONDS,
        )

    def child(self, plugin: str, step: str, operation: str, rejected: bool) -> HistogramChild:
        return self._durations.child(plugin, operation, str(rejected).lower(), step)


class ConversionMetrics:
    """Calls of conversion webhooks of custom resources."""

    def __init__(self, registry: Registry) -> None:
        self._objects = registry.histogram(
            "apiserver_crd_conversion_webhook_duration_seconds",
            "CRD webhook conversion duration in seconds",
            ("crd_name", "from_version", "to_version", "succeeded"),
            buckets=tuple(0.001 * 2**power for power in range(15)),
        )
        self._requests = registry.counter(
            "apiserver_conversion_webhook_request_total",
            "Counter for conversion webhook requests with success/failure and failure error type",
            ("result", "failure_type"),
        )
        self._durations = registry.histogram(
            "apiserver_conversion_webhook_duration_seconds",
            "Conversion webhook request latency",
            ("result", "failure_type"),
            buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60),
        )

    def note(self, definition: str, versions: Iterable[str], to: str, failure: str, seconds: float) -> None:
        """Count one request about objects of *versions*; *failure* is "" when it succeeded."""
        result = "failure" if failure else "success"
        self._requests.child(result, failure).inc()
        self._durations.child(result, failure).observe(seconds)
        for version in versions:
            self._objects.child(definition, version, to, "false" if failure else "true").observe(seconds)


class WebhookMetrics:
    """Calls of admission webhooks."""

    def __init__(self, registry: Registry) -> None:
        self._durations = registry.histogram(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and "
            "API resource and type (validate or admit).",
            ("name", "operation", "rejected", "type"),
            buckets=WEBHOOK_SECONDS,
        )
        self._rejections = registry.counter(
            "apiserver_admission_webhook_rejection_count",
            "Admission webhook rejection count, identified by name and broken out for each admission type (validating "
            "or admit) and operation.",
            ("error_type", "name", "operation", "rejection_code", "type"),
        )
        self._requests = registry.counter(
            "apiserver_admission_webhook_request_total",
            "Admission webhook request total, identified by name and broken out for each admission type (validating "
            "or mutating) and operation.",
            ("code", "name", "operation", "rejected", "type"),
        )
        self._fail_open = registry.counter(
            "apiserver_admission_webhook_fail_open_count",
            "Admission webhook fail open count, identified by name and broken out for each admission type (validating "
            "or mutating).",
            ("name", "type"),
        )

    def called(
        self, name: str, step: str, operation: str, seconds: float, *, rejected: bool, code: int
    ) -> None:
        """Count one call and its time; *code* is the webhook's HTTP or rejection code, 0 when it gave none."""
        said = str(rejected).lower()
        self._durations.child(name, operation, said, step).observe(seconds)
        self._requests.child(str(code), name, operation, said, step).inc()

    def refused(self, name: str, step: str, operation: str, error_type: str, code: int) -> None:
        """Count a refusal; *error_type* is no_error, calling_webhook_error or apiserver_internal_error."""
        self._rejections.child(error_type, name, operation, str(code), step).inc()

    def failed_open(self, name: str, step: str) -> None:
        """Count a failed call that was ignored, as its failurePolicy says."""
        self._fail_open.child(name, step).inc()
