"""Claims about weir.apiserver.metrics: every metric moves when its event happens."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.apiserver.admission_world import Objects, create, ordinary, pod
from weir.apiserver import metrics as declared
from weir.apiserver.admission.chain import Chain
from weir.apiserver.auth.authn import Authenticator
from weir.apiserver.auth.authz import Authorizer
from weir.apiserver.compat.flowcontrol.metrics import FlowControlMetrics
from weir.apiserver.metrics import Metrics
from weir.apiserver.registry.codec import Reader
from weir.apiserver.registry.storage import Parts
from weir.apiserver.request_log import Labels
from weir.apiserver.server import ApiServer, Security
from weir.apiserver.transport.http import Request
from weir.clock import RealClock
from weir.errors import NotFound
from weir.gates import ALL_FEATURES
from weir.store.memory import MemoryStore

pytestmark = pytest.mark.proves("5471-105")

PODS = Labels("LIST", "", "v1", "pods", "", "namespace")


@pytest.fixture
def metrics():
    return Metrics()


def value(metrics, metric, /, **labels):
    """Return the sum over all samples of *metric* with *labels*; the parser adds a counter's `_total`."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if sample.name in (metric, f"{metric}_total") and labels.items() <= sample.labels.items()
    )


def test_a_request_is_counted_timed_and_measured(metrics):
    metrics.observe_request(PODS, 200, 0.004, 900)
    metrics.observe_request(PODS, 200, 0.03, 2000)
    labels = {
        "verb": "LIST",
        "resource": "pods",
        "version": "v1",
        "scope": "namespace",
        "component": "apiserver",
    }
    assert value(metrics, "apiserver_request_total", code="200", **labels) == 2
    assert value(metrics, "apiserver_request_duration_seconds_bucket", le="0.005", **labels) == 1
    assert value(metrics, "apiserver_response_sizes_sum", **labels) == 2900


def test_a_dry_run_is_told_apart(metrics):
    metrics.observe_request(PODS, 200, 0.1, 1, "All")
    assert value(metrics, "apiserver_request_total", dry_run="All") == 1


def test_nonsense_cannot_fill_the_memory(metrics, monkeypatch):
    monkeypatch.setattr(declared, "MOST_REQUEST_KINDS", 3)
    for number in range(10):
        metrics.observe_request(PODS._replace(resource=f"kind{number}"), 404, 0.1, 1)
    assert value(metrics, "apiserver_request_total", resource="other", code="404") == 7
    assert len(metrics._requests) == 3


def test_a_watch_is_open_until_it_is_closed(metrics):
    watch = metrics.watch_opened("", "v1", "pods", "Pod", "namespace")
    watch.sent(100)
    during = value(metrics, "apiserver_longrunning_requests"), value(metrics, "apiserver_registered_watchers")
    watch.closed()
    assert (during, value(metrics, "apiserver_longrunning_requests")) == ((1, 1), 0)
    assert value(metrics, "apiserver_watch_events_total", resource="pods") == 1
    assert value(metrics, "apiserver_watch_events_sizes_sum", resource="pods") == 100


def test_requests_in_flight_are_seen(metrics):
    metrics.inflight("mutating").inc()
    assert value(metrics, "apiserver_current_inflight_requests", request_kind="mutating") == 1


def test_only_what_is_read_is_measured(metrics):
    metrics.observe_request(PODS._replace(verb="POST", scope="resource"), 201, 0.1, 1000)
    metrics.observe_request(PODS._replace(verb="CONNECT", subresource="log", scope="resource"), 200, 0.1, 50)
    assert value(metrics, "apiserver_response_sizes_sum") == 50


def test_requests_refused_in_self_defence_are_counted(metrics):
    metrics.dropped(PODS, "All")
    metrics.terminated(PODS, 504)
    assert value(metrics, "apiserver_request_total", code="429", verb="LIST", dry_run="All") == 1
    assert value(metrics, "apiserver_request_terminations_total", code="429", verb="LIST") == 1
    assert value(metrics, "apiserver_request_terminations_total", code="504") == 1


def test_proofs_and_decisions_are_counted(metrics):
    metrics.authentication_success.inc()
    metrics.authentication_failure.inc()
    metrics.authorization_allowed.inc()
    metrics.authorization_denied.inc()
    assert value(metrics, "authentication_attempts") == value(metrics, "authorization_attempts_total") == 2


def test_every_plugin_is_timed_and_a_refusal_is_told_apart(metrics):
    Chain.build(ordinary(), durations=metrics.admission).mutate(create(pod()))
    with pytest.raises(NotFound):
        Chain.build(Objects(), durations=metrics.admission).mutate(create(pod()))
    name = "apiserver_admission_controller_admission_duration_seconds_count"
    assert value(metrics, name, name="Priority", type="admit", operation="CREATE", rejected="false") == 1
    assert value(metrics, name, name="NamespaceLifecycle", rejected="true") == 1


def test_webhook_calls_are_counted(metrics):
    metrics.webhooks.called("w", "validating", "CREATE", 0.2, rejected=True, code=403)
    metrics.webhooks.refused("w", "validating", "CREATE", "no_error", 403)
    metrics.webhooks.failed_open("w", "validating")
    assert value(metrics, "apiserver_admission_webhook_admission_duration_seconds_count", name="w") == 1
    assert value(metrics, "apiserver_admission_webhook_request_total", code="403", rejected="true") == 1
    assert value(metrics, "apiserver_admission_webhook_rejection_count", error_type="no_error") == 1
    assert value(metrics, "apiserver_admission_webhook_fail_open_count", name="w") == 1


def test_audit_events_are_counted(metrics):
    metrics.audit_events.inc()
    assert value(metrics, "apiserver_audit_event_total") == 1


def test_the_reference_page_lists_every_metric(metrics):
    page = Path(__file__).parents[3] / "docs" / "reference" / "metrics-apiserver.md"
    FlowControlMetrics(metrics.registry)
    assert page.read_text().endswith(metrics.registry.reference())


def test_stored_objects_are_counted_when_somebody_looks(metrics):
    stored = [("apps", "deployments", 2)]
    metrics.stored = lambda: stored
    before = value(metrics, "apiserver_resource_objects", group="apps", resource="deployments")
    stored[0] = ("apps", "deployments", 3)
    after = value(metrics, "apiserver_resource_objects", group="apps", resource="deployments")
    old = value(metrics, "apiserver_storage_objects", resource="deployments.apps")
    assert (before, after, old) == (2, 3, 3)


async def test_labels_name_only_what_is_served():
    """Whoever asks for nonsense, before proving anything, adds no line to /metrics."""
    metrics = Metrics()
    server = ApiServer(
        Parts(store := MemoryStore(), Reader(store), None, ALL_FEATURES, RealClock()),
        Security(Authenticator(), Authorizer(Reader(store))),
        metrics=metrics,
    )
    await server.handle(Request("GET", "/api/v1/namespaces/default/warm-up"))
    for number in range(200):
        for path in (
            f"/api/v1/namespaces/default/{number}{'z' * 1000}",
            f"/apis/{number}.example/v1/things",
            f"/api/v{number}/pods",
            f"/api/v1/namespaces/default/pods/p/{number}",
            f"/{number}",
        ):
            await server.handle(Request("GET", path))
    lines = metrics.render().decode().count("\n")
    await server.handle(Request("GET", "/api/v1/namespaces/default/pods/p/another"))
    assert metrics.render().decode().count("\n") == lines, "four more kinds of requests, and no more"
    assert "zzz" not in metrics.render().decode() and "example" not in metrics.render().decode()
