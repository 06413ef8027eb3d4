"""The sentinel's counter as addresses."""

from __future__ import annotations

import pytest

from weir.lowering import sentinel


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
@pytest.mark.parametrize("counter", [0, 1, 255, 256, sentinel.MOST - 1])
def test_an_address_says_its_counter(family, counter):
    assert sentinel.counter_of(sentinel.address(counter, family)) == counter


@pytest.mark.parametrize("text", ["", "11.0.0.0", "11.0.0.1", "9.255.255.255", "::1", "nothing"])
def test_other_addresses_say_none(text):
    assert sentinel.counter_of(text) == -1
    assert not sentinel.is_reached(sentinel.counter_of(text), 0)


def test_a_counter_that_began_again_is_after_the_last():
    assert sentinel.is_reached(sentinel.counter_of(sentinel.address(sentinel.MOST)), sentinel.MOST - 1)
    assert not sentinel.is_reached(sentinel.MOST - 1, 0)
    assert not sentinel.is_reached(sentinel.MOST // 2, 0), "half a round ahead is behind"
    assert sentinel.is_reached(sentinel.MOST // 2 - 1, 0)
    assert not sentinel.is_reached(-1, sentinel.MOST - 1), "no counter is not the one before 0"


def test_the_service_selects_the_pod_and_the_pod_is_never_scheduled():
    pod, service = sentinel.sentinel_pod(), sentinel.sentinel_service()
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"]
    assert pod["spec"]["schedulingGates"]


def test_the_pod_may_stand_where_the_level_restricted_is_enforced():
    spec = sentinel.sentinel_pod()["spec"]
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65534,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
