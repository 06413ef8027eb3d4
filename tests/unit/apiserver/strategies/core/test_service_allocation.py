"""Addresses and ports of the nodes: which are free."""

from __future__ import annotations

import pytest

from weir.apiserver.strategies.core.service_allocation import (
    NODE_PORTS,
    RANGE,
    allocate_ports,
    free_address,
    used_ports,
)

FULL = {str(address) for address in RANGE.hosts()}


def test_the_last_free_address_is_found():
    assert free_address({"namespace": "d", "name": "s"}, FULL - {"10.0.0.4"}) == "10.0.0.4"


def test_a_full_range_says_so():
    with pytest.raises(ValueError, match="range is full"):
        free_address({"namespace": "d", "name": "s"}, FULL)


def test_a_balancer_may_do_without_ports_of_nodes():
    spec = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": [{"port": 80}]}
    allocate_ports(spec, [])
    assert spec["ports"] == [{"port": 80}]


def test_the_port_of_health_checks_is_in_use_as_others_are():
    balanced = {"spec": {"healthCheckNodePort": 30000, "ports": [{"nodePort": 30001}]}}
    assert used_ports([balanced]) == {30000, 30001}
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    allocate_ports(spec, [balanced])
    assert spec["ports"][0]["nodePort"] == 30002 in NODE_PORTS
