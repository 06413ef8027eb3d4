"""Credentials of the hooks: a certificate that is trusted and a path that is secret, at first, renewed, by anybody."""

from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest

from weir.client.http import trusting
from weir.lowering.webhooks import (
    MUTATING_CONFIGURATION,
    VALIDATING_CONFIGURATION,
    addressed,
    mutating_configuration,
    path_secret,
    validating_configuration,
)
from weir.operator import path_secrets
from weir.operator.certificates import (
    AUTHORITY_RENEWAL,
    LEAF_LIFETIME,
    CertificateError,
    Certificates,
    renewed,
)
from weir.operator.credentials import Credentials, wait_until_served
from weir.operator.path_secrets import OVERLAP, SETTLED
from weir.simulation.cluster import Cluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAME = "weir-operator.weir-system.svc"
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "certs", "namespace": "default"}}
HOOKS = ("MutatingWebhookConfiguration", "weir"), ("ValidatingWebhookConfiguration", "weir")


def configuration(kind: str, *names: str) -> dict[str, object]:
    hooks = [
        {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "clientConfig": {"url": "https://127.0.0.1:1/never"},
            "rules": [
                {
                    "apiGroups": ["none.example"],
                    "apiVersions": ["v1"],
                    "resources": ["x"],
                    "operations": ["CREATE"],
                }
            ],
        }
        for name in names
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "weir"},
        "webhooks": hooks,
    }


def serving(cluster: Cluster, *, names: tuple[str, ...] = (NAME,)) -> Credentials:
    return Credentials(
        cluster.client,
        cluster.clock,
        namespace="default",
        secret="certs",
        names=names,
        configurations=HOOKS,
    )


async def all_of(*replicas: Credentials) -> None:
    await asyncio.gather(*(one.ensure() for one in replicas))


def is_trusted(context: ssl.SSLContext, authority: bytes, name: str = NAME) -> bool:
    """Whether a client that trusts *authority* finishes a handshake; certificates are judged by the real clock."""
    client_in, client_out, server_in, server_out = (ssl.MemoryBIO() for _ in range(4))
    client = trusting(authority).wrap_bio(client_in, client_out, server_hostname=name)
    server = context.wrap_bio(server_in, server_out, server_side=True)
    for _ in range(6):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return False
            server_in.write(client_out.read())
            client_in.write(server_out.read())
    return client.version() is not None and client.getpeercert() is not None


def context_of(certificates: Certificates, tmp_path) -> ssl.SSLContext:
    (tmp_path / "crt").write_bytes(certificates.leaf)
    (tmp_path / "key").write_bytes(certificates.leaf_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    return context


def test_a_name_that_is_not_in_the_certificate_is_refused(tmp_path):
    now = datetime.now(UTC)
    made = renewed(None, [NAME, "10.0.0.1", "::1"], now)
    context = context_of(made, tmp_path)
    assert is_trusted(context, made.authority)
    assert is_trusted(context, made.authority, "10.0.0.1")
    assert is_trusted(context, made.authority, "::1")
    assert not is_trusted(context, made.authority, "other.weir-system.svc")


def test_a_renewed_authority_and_an_older_leaf_trust_each_other_both_ways(tmp_path):
    now = datetime.now(UTC)
    old = renewed(None, [NAME], now - timedelta(days=3650) + AUTHORITY_RENEWAL)
    new = renewed(old, [NAME], now)
    assert new.authority != old.authority and new.authority_key == old.authority_key and new.leaf != old.leaf
    context = context_of(new, tmp_path)
    assert is_trusted(context, new.authority) and is_trusted(context, old.authority)


def test_an_authority_that_is_renewed_alone_keeps_a_leaf_that_is_still_young():
    begun = renewed(None, [NAME], NOW)
    end = NOW + timedelta(days=3650) - AUTHORITY_RENEWAL
    young = renewed(begun, [NAME], end - timedelta(days=1))
    later = renewed(young, [NAME], end + timedelta(days=1))
    assert later.authority != young.authority and later.leaf == young.leaf


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.pop("ca.key"),
        lambda data: data.update({"tls.crt": "bm8="}),
        lambda data: data.update({"tls.key": data["ca.key"]}),
        lambda data: data.update({"ca.crt": "!"}),
        lambda data: data.update({"ca.crt": 5}),
    ],
)
def test_a_damaged_secret_is_made_anew(spoil):
    data = renewed(None, [NAME], NOW).data()
    spoil(data)
    assert Certificates.read(data) is None


def test_other_names_get_another_leaf_of_the_same_authority():
    made = renewed(None, [NAME], NOW)
    assert renewed(made, [NAME, "host.example"], NOW).authority == made.authority
    assert renewed(renewed(made, [NAME, "host.example"], NOW), [NAME], NOW) is not made
    with pytest.raises(CertificateError, match="needs a name"):
        renewed(None, [], NOW)


def test_whoever_comes_first_makes_them_and_the_configurations_trust_them():
    with Cluster(nodes=0) as cluster:
        cluster.apply(SECRET, *(configuration(kind, "a.weir.dev", "b.weir.dev") for kind, _ in HOOKS))
        both = [serving(cluster), serving(cluster)]
        cluster._do(all_of(*both))
        assert both[0].served == both[1].served is not None
        for kind, name in HOOKS:
            found = cluster.get(kind, name, "")
            assert found is not None
            bundles = {hook["clientConfig"]["caBundle"] for hook in found["webhooks"]}
            assert [base64.b64decode(each) for each in bundles] == [both[0].served.authority]


def test_a_running_replica_renews_in_time_and_mends_what_others_take_away():
    with Cluster(nodes=0) as cluster:
        cluster.apply(SECRET, *(configuration(kind, "a.weir.dev") for kind, _ in HOOKS))
        one = serving(cluster)
        cluster._do(one.ensure())
        first = one.served
        assert first is not None
        cluster.background(one.run())
        cluster.delete(HOOKS[0][0], "weir", "")
        cluster.apply(configuration(HOOKS[0][0], "a.weir.dev"))
        cluster.advance(61)
        found = cluster.get(HOOKS[0][0], "weir", "")
        assert found is not None
        assert base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]) == first.authority
        old = renewed(None, [NAME], cluster.now - timedelta(days=61))
        cluster.apply({**SECRET, "data": old.data()})
        cluster.advance(61)
        assert one.served is not None and one.served.authority == old.authority
        assert one.served.leaf not in (first.leaf, old.leaf)
        assert one.served.expires > cluster.now + LEAF_LIFETIME - timedelta(minutes=2)


def test_without_the_secret_it_says_what_to_do_and_goes_on_trying():
    with Cluster(nodes=0) as cluster:
        one = serving(cluster)
        with pytest.raises(
            CertificateError, match="secret default/certs is not there: run weir install again"
        ):
            cluster._do(one.ensure())
        said: list[Exception] = []
        cluster.background(wait_until_served(one, cluster.clock, said.append))
        cluster.advance(5)
        assert said and one.served is None
        cluster.apply(SECRET)
        cluster.advance(5)
        assert one.served is not None


# ── the path ─────────────────────────────────────────────────────────────────────────────────────

OWN = (
    ("MutatingWebhookConfiguration", MUTATING_CONFIGURATION),
    (
        "ValidatingWebhookConfiguration",
        VALIDATING_CONFIGURATION,
    ),
)
SERVICE = {"service": {"name": "weir-operator", "namespace": "default", "port": 443}}


def own(cluster: Cluster, **more) -> Credentials:
    return Credentials(
        cluster.client,
        cluster.clock,
        namespace="default",
        secret="certs",
        names=[NAME],
        configurations=OWN,
        **more,
    )


def used(cluster: Cluster) -> set[str]:
    """Return the secrets that the configurations name."""
    return {
        path_secret(hook["clientConfig"], hook["name"])
        for kind, name in OWN
        for hook in cluster.get(kind, name, "")["webhooks"]
    }


@pytest.fixture(params=[SERVICE, {"url": "https://192.0.2.1:9443"}], ids=["service", "url"])
def installed(request):
    with Cluster(nodes=0) as cluster:
        cluster.apply(SECRET, mutating_configuration(request.param), validating_configuration(request.param))
        yield cluster, request.param


def test_both_configurations_get_one_secret_path_and_only_it_is_admitted(installed):
    cluster, config = installed
    one = own(cluster)
    assert not one.admits("") and used(cluster) == {""}
    cluster._do(one.ensure())
    (secret,) = used(cluster)
    assert one.admits(secret) and not one.admits("") and len(secret) == 48
    cluster.apply(mutating_configuration(config), validating_configuration(config))
    cluster._do(one.ensure())
    assert used(cluster) == {secret}, "whoever applies manifests again takes nothing away for long"


def test_what_others_take_away_is_mended_at_once(installed):
    cluster, config = installed
    one = own(cluster)
    cluster._do(one.ensure())
    (secret,) = used(cluster)
    cluster.background(one.run())
    cluster.advance(20)
    patch = {"webhooks": []}
    for kind, name in OWN:
        found = cluster.get(kind, name, "")
        for hook in found["webhooks"]:
            hook["clientConfig"] = {**hook["clientConfig"], **addressed(config, hook["name"], "forged")}
        patch = {"webhooks": found["webhooks"]}
        cluster.patch(kind, name, patch)
    cluster.advance(0.5)
    assert used(cluster) == {secret}


def test_a_rotation_is_never_ahead_of_a_replica_and_the_old_path_works_meanwhile(installed, monkeypatch):
    monkeypatch.setattr(path_secrets, "ROTATION", timedelta(minutes=5))
    cluster, _ = installed
    both = [own(cluster), own(cluster)]
    cluster._do(all_of(*both))
    (first,) = used(cluster)
    for one in both:
        cluster.background(one.run())
    for _ in range(100):
        cluster.advance(10)
        assert all(one.admits(secret) for one in both for secret in used(cluster))
        if used(cluster) != {first}:
            break
    (second,) = used(cluster)
    assert second != first and all(one.admits(first) for one in both)
    monkeypatch.setattr(path_secrets, "ROTATION", timedelta(days=1))
    cluster.advance(OVERLAP + timedelta(minutes=1))
    assert not any(one.admits(first) for one in both)


def test_a_process_that_starts_makes_a_new_secret_unless_another_just_did(installed):
    cluster, _ = installed
    cluster._do(own(cluster).ensure())
    (first,) = used(cluster)
    cluster._do(own(cluster).ensure())
    cluster.advance(timedelta(hours=1))
    cluster._do(own(cluster).ensure())
    again = own(cluster)
    cluster._do(again.ensure())
    assert used(cluster) == {first}, "not before every replica has read it"
    cluster.advance(SETTLED)
    cluster._do(again.ensure())
    assert first not in used(cluster) and again.admits(first)


def test_emptying_the_secret_ends_the_old_path_at_once(installed):
    cluster, _ = installed
    one = own(cluster)
    cluster._do(one.ensure())
    (first,) = used(cluster)
    cluster.patch("Secret", "certs", {"data": None}, "default")
    cluster._do(one.ensure())
    assert first not in used(cluster) and not one.admits(first)


def test_with_a_certificate_of_somebody_elses_the_path_is_secret_too(installed):
    cluster, _ = installed
    one = own(cluster, static=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    cluster._do(one.ensure())
    (secret,) = used(cluster)
    assert one.admits(secret) and one.served is None
    for kind, name in OWN:
        assert not any("caBundle" in hook["clientConfig"] for hook in cluster.get(kind, name, "")["webhooks"])
