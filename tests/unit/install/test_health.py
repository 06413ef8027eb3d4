"""After the installation: what does not work is named, with what to do; what works is measured."""

from __future__ import annotations

import base64
import json

import pytest

from weir.clock import RealClock
from weir.gates import KUBERNETES_DEFAULTS
from weir.install.checks import Verdict
from weir.install.health import Health
from weir.install.manifests import Installation, documents
from weir.install.rights import CERTIFICATES
from weir.lowering.names import GATE, SENTINEL, TOLERATIONS, marker_key, toleration_hash
from weir.lowering.tolerations import MANY_ENTRIES, MOST_ENTRIES
from weir.lowering.webhooks import MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION, addressed
from weir.operator import path_secrets
from weir.operator.certificates import renewed
from weir.simulation.cluster import Cluster

NAMESPACE = "weir-system"
CLOCK = RealClock()  # it waits for answers, and virtual time stands still meanwhile
GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}
MARKER = {"key": marker_key(toleration_hash(GT)), "operator": "Exists"}
ENTRY = {"key": "sla", "operator": "Equal", "value": "950", "effect": "NoExecute"}


@pytest.fixture
def cluster():
    with Cluster(nodes=1, gates=KUBERNETES_DEFAULTS) as found:
        found.apply(*(each for each in documents(Installation(image="i")) if "Webhook" not in each["kind"]))
        yield found


def trusted(cluster, authority=None):
    """Let the webhook configurations trust *authority*, as the operator does; their hooks answer to nobody here."""
    bundle = base64.b64encode(authority or b"").decode()
    for document in documents(Installation(image="i")):
        if document["kind"].endswith("WebhookConfiguration"):
            for hook in document["webhooks"]:
                if bundle:
                    hook["clientConfig"]["caBundle"] = bundle
                hook["rules"] = [
                    {
                        "apiGroups": ["none.example"],
                        "apiVersions": ["v1"],
                        "resources": ["x"],
                        "operations": ["CREATE"],
                    }
                ]
            cluster.apply(document)


def asked(cluster):
    return {each.name: each for each in cluster._do(Health(cluster.client, CLOCK).checks())}


def pod(name, *tolerations, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {TOLERATIONS: json.dumps({toleration_hash(GT): GT})}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": list(tolerations), **spec},
    }


def test_an_installation_that_lost_its_hooks_is_told_what_to_do(cluster):
    found = asked(cluster)
    assert found["barrier"].verdict is Verdict.TO_DO and found["barrier"].do == "weir install again"
    assert not cluster._do(Health(cluster.client, CLOCK).installed())
    trusted(cluster)
    assert cluster._do(Health(cluster.client, CLOCK).installed())
    found = asked(cluster)
    assert "does not yet trust the hooks" in found["certificate"].says


def test_the_confirm_step_is_done_and_a_sentinel_that_is_gone_is_named(cluster):
    before = cluster.get("Pod", SENTINEL, NAMESPACE)
    assert asked(cluster)["confirm"].verdict is Verdict.FINE
    after = cluster.get("Pod", SENTINEL, NAMESPACE)
    assert before["status"].get("podIP") != after["status"]["podIP"] == "10.0.0.1"
    assert asked(cluster)["confirm"].verdict is Verdict.FINE
    assert cluster.get("Pod", SENTINEL, NAMESPACE)["status"]["podIP"] == "10.0.0.2"
    cluster.delete("Pod", SENTINEL, NAMESPACE)
    assert "is gone" in asked(cluster)["confirm"].says


def test_certificates_are_held_against_what_the_configurations_trust(cluster):
    made = renewed(None, ["weir-operator.weir-system.svc"], CLOCK.now())
    cluster.patch("Secret", CERTIFICATES, {"data": made.data()}, NAMESPACE)
    trusted(cluster, made.authority)
    assert asked(cluster)["certificate"].says == "good for 89 days; the operator renews it"
    other = renewed(None, ["weir-operator.weir-system.svc"], CLOCK.now())
    cluster.patch("Secret", CERTIFICATES, {"data": other.data()}, NAMESPACE)
    assert "trust another authority" in asked(cluster)["certificate"].says
    cluster.patch("Secret", CERTIFICATES, {"data": None}, NAMESPACE)
    assert asked(cluster)["certificate"].verdict is Verdict.NOTE


def test_pods_that_lag_are_held_or_are_full_are_counted(cluster):
    node = cluster.list("Node")[0]["metadata"]["name"]
    cluster.taint(node, "sla=950:NoSchedule", "sla=800:NoExecute")
    gate = [{"name": "mine"}]
    cluster.apply(pod("complete", MARKER, {**ENTRY}, schedulingGates=gate))
    assert asked(cluster)["pods"].says == "1 lowered pods, all with every entry they need"
    cluster.taint(node, "sla=950:NoExecute")
    cluster.apply(pod("lagging", MARKER, schedulingGates=gate))
    found = asked(cluster)["pods"]
    assert (
        found.verdict is Verdict.TO_DO
        and "1 lack entries for taints that exist (default/lagging)" in found.says
    )
    cluster.apply(pod("held", MARKER, ENTRY, schedulingGates=[{"name": GATE}]))
    assert "1 are still held (default/held)" in asked(cluster)["pods"].says
    half = [{**ENTRY, "value": str(1000 + number)} for number in range(MANY_ENTRIES)]
    cluster.delete("Pod", "lagging", "default")
    cluster.delete("Pod", "held", "default")
    cluster.apply(pod("many", MARKER, ENTRY, *half, schedulingGates=gate))
    found = asked(cluster)["pods"]
    assert (
        found.verdict is Verdict.NOTE
        and "500 entries or more: default/many; key sla has 1 values" in found.says
    )
    many = [{"key": f"k{number}", "operator": "Exists"} for number in range(MOST_ENTRIES)]
    cluster.apply(pod("full", MARKER, *many, schedulingGates=gate))
    assert "and get no more: default/full" in asked(cluster)["pods"].says


def test_a_key_with_many_values_is_named_before_a_pod_meets_them(cluster, monkeypatch):
    monkeypatch.setattr("weir.install.health.MANY_ENTRIES", 5)
    cluster.add_node("many-keys", taints=[f"sla-{number}=1:NoSchedule" for number in range(9)])
    assert asked(cluster)["pods"].verdict is Verdict.FINE, "no key has many"
    for number in range(5):
        cluster.add_node(f"many-{number}", taints=[f"sla={1000 + number}:NoExecute"])
    found = asked(cluster)["pods"]
    assert found.verdict is Verdict.NOTE and "key sla has 5 values; a new pod that would" in found.says


def test_an_operator_that_does_not_run_is_named(cluster):
    cluster.advance(60)
    found = asked(cluster)["operator"]
    assert found.verdict is Verdict.FINE and "2 of 2" in found.says
    cluster.patch("Deployment", "weir-operator", {"spec": {"replicas": 3}}, NAMESPACE)
    assert asked(cluster)["operator"].verdict is Verdict.TO_DO
    cluster.delete("Deployment", "weir-operator", NAMESPACE)
    assert "no deployment" in asked(cluster)["operator"].says


def test_a_hook_that_nobody_asks_is_not_known_to_work(cluster):
    trusted(cluster)
    assert asked(cluster)["hook"].verdict is Verdict.UNKNOWN
    assert asked(cluster)["its rights"].verdict is Verdict.FINE


@pytest.mark.parametrize("decided", [None, 0, 10])
def test_grace_is_what_the_installation_was_told(cluster, decided):
    cluster.apply(
        *(
            each
            for each in documents(Installation(image="i", grace_seconds=decided))
            if each["kind"] == "Deployment"
        )
    )
    assert cluster._do(Health(cluster.client, CLOCK).grace_seconds()) == decided
    cluster.delete("Deployment", "weir-operator", NAMESPACE)
    assert cluster._do(Health(cluster.client, CLOCK).grace_seconds()) is None


def called_by(cluster, secret):
    for kind, name in (
        ("MutatingWebhookConfiguration", MUTATING_CONFIGURATION),
        ("ValidatingWebhookConfiguration", VALIDATING_CONFIGURATION),
    ):
        found = cluster.get(kind, name, "")
        for hook in found["webhooks"]:
            hook["clientConfig"] |= addressed(hook["clientConfig"], hook["name"], secret)
        cluster.patch(kind, name, {"webhooks": found["webhooks"]})


def test_hooks_that_are_called_by_another_path_than_the_operator_accepts_are_named(cluster):
    trusted(cluster, b"authority")
    assert asked(cluster)["callers"].verdict is Verdict.TO_DO
    paths = path_secrets.renewed(None, CLOCK.now())
    cluster.patch("Secret", CERTIFICATES, {"data": paths.data()}, NAMESPACE)
    assert "no path that the operator accepts" in asked(cluster)["callers"].says
    called_by(cluster, "forged")
    assert asked(cluster)["callers"].verdict is Verdict.TO_DO
    (secret,) = paths.in_use(CLOCK.now())
    called_by(cluster, secret)
    found = asked(cluster)
    assert found["callers"].verdict is Verdict.NOTE and "any pod may connect" in found["callers"].says
    assert not any(secret in f"{each.says}{each.do}" for each in found.values())
    narrow = Installation(image="i", api_servers=("192.0.2.0/24",))
    cluster.apply(*(each for each in documents(narrow) if each["kind"] == "NetworkPolicy"))
    assert asked(cluster)["callers"].verdict is Verdict.FINE
