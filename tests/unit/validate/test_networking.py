"""Claims about weir.validate.networking: Ingress, NetworkPolicy, ServiceCIDR and IPAddress."""

from __future__ import annotations

from typing import Any

import pytest

from weir.validate import validate

WEB = {"service": {"name": "web", "port": {"number": 80}}}


def problems(spec: dict[str, Any], old: dict[str, Any] | None = None, kind: str = "Ingress") -> list[str]:
    def whole(found: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": "x", "namespace": "default", "resourceVersion": "1"}
        return {"apiVersion": "networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": found}

    return [str(each) for each in validate(whole(spec), None if old is None else whole(old))]


def one_path(**values: Any) -> dict[str, Any]:
    path = {"path": "/", "pathType": "Prefix", "backend": WEB, **values}
    return {"rules": [{"host": "a.example.com", "http": {"paths": [path]}}]}


INGRESSES = [
    ({"defaultBackend": WEB}, ""),
    ({}, "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"),
    (one_path(), ""),
    (one_path(path="a"), '[0].path: Invalid value: "a": must be an absolute path'),
    (one_path(path="/a/.."), "cannot end with '/..'"),
    (one_path(pathType="Suffix"), 'supported values: "Exact", "ImplementationSpecific", "Prefix"'),
    (one_path(backend={}), '.backend: Invalid value: "": resource or service backend is required'),
    ({"rules": [{"host": "10.0.0.1"}]}, "must be a DNS name, not an IP address"),
    ({"rules": [{"host": "*bar.com"}]}, "a wildcard DNS-1123 subdomain must start with '*.'"),
    ({"defaultBackend": WEB, "tls": [{"secretName": "A_"}]}, "spec.tls[0].secretName: Invalid value"),
]


@pytest.mark.parametrize(("spec", "text"), INGRESSES)
def test_ingresses(spec, text):
    found = problems(spec)
    assert len(found) == bool(text) and text in "".join(found)


def test_a_secret_name_that_was_broken_before_may_stay():
    broken = {"defaultBackend": WEB, "tls": [{"secretName": "A_"}]}
    assert problems(broken, broken) == []


def test_a_class_keeps_its_controller():
    before, after = {"controller": "a.io/b"}, {"controller": "a.io/c"}
    assert problems(after, before, "IngressClass") == [
        'spec.controller: Invalid value: "a.io/c": field is immutable'
    ]


def policy_problems(spec: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    def whole(found: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": "x", "namespace": "default", "resourceVersion": "1"}
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata,
            "spec": found,
        }

    return [str(each) for each in validate(whole(spec), None if old is None else whole(old))]


POLICIES = [
    ({"from": [{}]}, "spec.ingress[0].from[0]: Required value: must specify a peer"),
    ({"from": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}, "must not have bits set beyond the prefix length"),
    ({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}}]}, "strict subset of `cidr`"),
    ({"ports": [{"port": 9, "endPort": 5}]}, "must be greater than or equal to `port`"),
    ({"ports": [{"port": "http", "endPort": 5}]}, "may not be specified when `port` is non-numeric"),
]


@pytest.mark.parametrize(("rule", "text"), POLICIES)
def test_policies(rule, text):
    found = policy_problems({"podSelector": {}, "ingress": [rule]})
    assert len(found) == 1 and text in found[0]


def test_a_network_that_was_broken_before_may_stay():
    network = {"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}]}
    assert policy_problems(network, network) == []
    assert len(policy_problems(network)) == 1


def address_problems(
    spec: dict[str, Any], old: dict[str, Any] | None = None, kind: str = "ServiceCIDR", name: str = "x"
) -> list[str]:
    def whole(found: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": name, "resourceVersion": "1"}
        return {"apiVersion": "networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": found}

    return [str(each) for each in validate(whole(spec), None if old is None else whole(old))]


@pytest.mark.parametrize(
    ("cidrs", "text"),
    [
        (["10.9.0.0/24"], ""),
        (["10.9.0.0/24", "2001:db8::/64"], ""),
        ([], "at least one CIDR required"),
        (["2001:DB8::/64"], 'must be in canonical form ("2001:db8::/64")'),
        (["10.9.0.0/24", "10.8.0.0/24"], "may specify no more than one IP for each IP family"),
    ],
)
def test_ranges(cidrs, text):
    found = address_problems({"cidrs": cidrs})
    assert len(found) == bool(text) and text in "".join(found)


def test_a_range_may_only_gain_the_other_family():
    one, two = {"cidrs": ["10.9.0.0/24"]}, {"cidrs": ["10.9.0.0/24", "2001:db8::/64"]}
    assert address_problems(two, one) == []
    assert "field is immutable" in address_problems(one, two)[0]


def test_an_address_is_its_name():
    spec = {"parentRef": {"resource": "services", "name": "web"}}
    assert address_problems(spec, None, "IPAddress", "10.0.0.1") == []
    assert "must not have leading 0s" in address_problems(spec, None, "IPAddress", "10.0.0.01")[0]
