"""What the API server says about network policies; the texts are a real server's (tests/kubernetes)."""

from __future__ import annotations

from typing import Any

import pytest

from weir.validate import validate


def problems(spec: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
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
    found = problems({"podSelector": {}, "ingress": [rule]})
    assert len(found) == 1 and text in found[0]


def test_a_network_that_was_broken_before_may_stay():
    network = {"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}]}
    assert problems(network, network) == []
    assert len(problems(network)) == 1
