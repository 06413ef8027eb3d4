"""The sentinel's counter as addresses."""

from __future__ import annotations

import pytest

from weir.lowering import sentinel


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
@pytest.mark.parametrize("counter", [0, 1, 255, 256, sentinel.MOST - 1])
def test_an_address_says_its_counter(family, counter):
    assert sentinel.counter_of(sentinel.address(counter, family)) == counter


@pytest.mark.parametrize("text", ["", "11.0.0.1", "9.255.255.255", "::1", "nothing"])
def test_other_addresses_say_none(text):
    assert sentinel.counter_of(text) == -1
    assert not sentinel.is_reached(sentinel.counter_of(text), 0)


def test_a_counter_that_began_again_is_after_the_last():
    assert sentinel.is_reached(sentinel.counter_of(sentinel.address(sentinel.MOST)), sentinel.MOST - 1)
    assert not sentinel.is_reached(sentinel.MOST - 1, 0)


def test_the_service_selects_the_pod_and_the_pod_is_never_scheduled():
    pod, service = sentinel.sentinel_pod(), sentinel.sentinel_service()
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"]
    assert pod["spec"]["schedulingGates"]
