"""Gateway API: its definitions with their CEL rules, its own examples good and bad, and its policy on upgrades."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tests.ecosystem.cluster import Cluster, Document, Refused, documents, wait_for
from tests.ecosystem.conftest import built

GROUP = "gateway.networking.k8s.io"
POLICY = "gateway.networking.k8s.io_vap_safeupgrades.yaml"


def channel(name: str) -> list[Path]:
    """Return the definitions of a channel, without its policy."""
    folder = built("gateway-api").source / "config" / "crd" / name
    return [path for path in sorted(folder.glob("gateway.*.yaml")) if path.name != POLICY]


def of_gateway_api(path: Path) -> list[Document]:
    return [each for each in documents(path) if each["apiVersion"].startswith(GROUP)]


@pytest.fixture(scope="module")
def standard(cluster: Cluster) -> Cluster:
    """The standard channel, installed."""
    cluster.define(*channel("standard"))
    return cluster


def test_every_example_of_the_standard_channel_is_taken(standard: Cluster):
    examples = sorted((built("gateway-api").source / "examples" / "standard").rglob("*.yaml"))
    wanted = [each for path in examples for each in documents(path)]
    places = {each["metadata"].get("namespace", "default") for each in wanted}
    for name in sorted(places):
        standard.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    taken = [made for document in wanted for made in standard.apply(document)]
    kinds = {made["kind"] for made in taken if made["apiVersion"].startswith(GROUP)}
    assert {"Gateway", "GatewayClass", "HTTPRoute", "GRPCRoute", "TLSRoute", "ReferenceGrant"} <= kinds
    assert len(taken) == len(wanted) > 90


def test_every_bad_example_is_refused_in_the_words_of_its_definition(standard: Cluster):
    said: dict[str, str] = {}
    bad = sorted((built("gateway-api").source / "hack" / "invalid-examples" / "standard").rglob("*.yaml"))
    for path in bad:
        (document,) = of_gateway_api(path)
        with pytest.raises(Refused) as refused:
            standard.create(document)
            pytest.fail(f"{path.name} was taken")
        assert refused.value.code == 422, f"{path.name}: {refused.value}"
        said[path.name] = refused.value.message
    assert len(said) > 25
    assert "hostname must not be specified for protocols ['TCP', 'UDP']" in said["hostname-tcp.yaml"]
    assert "tls must not be specified for protocols ['HTTP', 'TCP', 'UDP']" in said["tlsconfig-tcp.yaml"]
    assert "Must have port for Service reference" in said["httproute-portless-service.yaml"]
    redirected = said["invalid-request-redirect-with-backendref.yaml"]
    assert "RequestRedirect filter must not be used together with backendRefs" in redirected
    assert "Listener name must be unique within the Gateway" in said["duplicate-listeners.yaml"]


def test_a_gateway_says_whether_it_is_programmed_in_its_columns(standard: Cluster):
    gateway = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gateway",
        "metadata": {"name": "shown", "namespace": "default"},
        "spec": {"gatewayClassName": "one", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    }
    where = standard.path(standard.apply(gateway)[0])
    # What nobody has looked at yet has the conditions that the definition defaults to.
    conditions = {each["type"]: each["status"] for each in standard.get(where)["status"]["conditions"]}
    assert conditions == {"Accepted": "Unknown", "Programmed": "Unknown"}


def test_the_policy_keeps_experimental_definitions_away_from_standard_ones(standard: Cluster):
    folder = built("gateway-api").source / "config" / "crd"
    standard.apply(folder / "standard" / POLICY)
    routes = "gateway.networking.k8s.io_httproutes.yaml"
    (plain,), (experimental,) = (
        documents(folder / "standard" / routes),
        documents(folder / "experimental" / routes),
    )
    older = copy.deepcopy(plain)
    older["metadata"]["annotations"][f"{GROUP}/bundle-version"] = "v1.2.1"
    for document, reason in (
        (
            experimental,
            "Installing experimental CRDs on top of standard channel CRDs is prohibited by default",
        ),
        (older, "Installing CRDs with version before v1.5.0 is prohibited by default"),
    ):
        wait_for(lambda document=document, reason=reason: denied(standard, document, reason), reason)
    assert standard.apply(plain)[0]["metadata"]["annotations"][f"{GROUP}/channel"] == "standard"
    kept = standard.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/httproutes." + GROUP)
    assert kept["metadata"]["annotations"][f"{GROUP}/bundle-version"].startswith("v1.6.")


def denied(cluster: Cluster, document: Document, reason: str) -> bool:
    """Whether the policy, which takes a moment to be known, refuses *document*; nothing else may."""
    try:
        cluster.ask(
            "PATCH",
            f"{cluster.path(document)}?fieldManager=tests&force=true&dryRun=All",
            document,
            "application/apply-patch+yaml",
        )
    except Refused as refused:
        assert reason in refused.message, str(refused)
        return True
    return False
