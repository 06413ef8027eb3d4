"""Services that change their type, as Kubernetes' own server prepares them."""

from __future__ import annotations

from typing import Any

from weir.apiserver.strategies.core.service import ServiceStrategy
from weir.gates import Gates
from weir.objects.kinds import by_kind

SERVICES = by_kind("v1", "Service")
STRATEGY = ServiceStrategy()


class Stored:
    """A store of services, as a strategy sees it."""

    now, gates = "2026-01-01T00:00:00Z", Gates()

    def __init__(self, *services: dict[str, Any]) -> None:
        self.services = [*services]

    def documents(self, kind: object) -> list[dict[str, Any]]:
        return self.services


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}]
    return {
        "metadata": {"namespace": "d", "name": name},
        "spec": {"type": "ClusterIP", "ports": ports, **spec},
    }


def created(*stored: dict[str, Any], **spec: Any) -> dict[str, Any]:
    new = service(**spec)
    STRATEGY.prepare_create(SERVICES, new, Stored(*stored))
    return new


def updated(old: dict[str, Any], *others: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the service after a client that read it changed these fields (None: removed them)."""
    new = {
        "metadata": dict(old["metadata"]),
        "spec": {key: value for key, value in {**old["spec"], **spec}.items() if value is not None},
        "status": old["status"],
    }
    new["spec"]["ports"] = [dict(port) for port in new["spec"].get("ports") or ()]
    STRATEGY.prepare_update(SERVICES, new, old, Stored(old, *others))
    return new


def problems(new: dict[str, Any], *others: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [str(each) for each in STRATEGY.problems(SERVICES, new, old, Stored(*others))]


def test_a_service_gives_its_address_back_for_a_name():
    named = updated(created(), type="ExternalName", externalName="a.example")["spec"]
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & named.keys()


def test_a_name_becomes_an_address_again():
    old = created()
    back = updated(
        updated(old, type="ExternalName", externalName="a.example"), type="ClusterIP", externalName=None
    )
    assert back["spec"] == old["spec"]


def test_an_address_that_is_changed_with_the_type_is_left_for_validation():
    named = updated(created(), type="ExternalName", externalName="a.example", clusterIP="10.0.9.9")["spec"]
    assert named["clusterIP"] == "10.0.9.9"


def test_a_service_that_is_to_be_reached_on_nodes_gets_a_port_and_gives_it_back():
    old = created()
    reached = updated(old, type="NodePort", externalTrafficPolicy="Cluster")
    assert reached["spec"]["ports"][0]["nodePort"] == 30000
    assert updated(reached, type="ClusterIP")["spec"] == old["spec"]


def test_a_port_keeps_its_number_by_its_name():
    old = created(type="NodePort")
    ports = [{"name": "other", "port": 1}, {"name": "http", "port": 8080}]
    assert [port["nodePort"] for port in updated(old, ports=ports)["spec"]["ports"]] == [30001, 30000]


def test_a_balancer_loses_what_only_balancers_have():
    old = created(
        type="LoadBalancer",
        externalTrafficPolicy="Local",
        allocateLoadBalancerNodePorts=True,
        loadBalancerClass="a/b",
    )
    old["status"] = {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}
    assert old["spec"]["healthCheckNodePort"] == 30001
    plain = updated(old, type="ClusterIP")
    assert plain["spec"] == created()["spec"]
    assert plain["status"] == {"loadBalancer": {}}


def test_a_status_is_no_change_of_the_type():
    old = created()
    new = {**old, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    STRATEGY.prepare_update(SERVICES, new, old, Stored(old))
    assert new["status"] == {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}


def test_what_another_service_holds_is_refused():
    other = created(name="other", type="NodePort", clusterIP="10.0.0.9")
    taken = created(other, type="NodePort", clusterIP="10.0.0.9")
    taken["spec"]["ports"][0]["nodePort"] = 30000
    assert problems(taken, other) == [
        'spec.clusterIPs: Invalid value: ["10.0.0.9"]: failed to allocate IP 10.0.0.9: '
        "provided IP is already allocated",
        "spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated",
    ]


def test_what_lies_in_no_range_is_refused():
    asked = created(type="NodePort", clusterIP="192.168.0.1")
    asked["spec"]["ports"][0]["nodePort"] = 29999
    assert problems(asked) == [
        'spec.clusterIPs: Invalid value: ["192.168.0.1"]: failed to allocate IP 192.168.0.1: '
        "the provided network does not match the current range",
        "spec.ports[0].nodePort: Invalid value: 29999: provided port is not in the valid range. "
        "The range of valid ports is 30000-32767",
    ]


def test_what_a_service_had_before_stays_its_own():
    old = created(clusterIP="192.168.0.1")
    new = updated(old, sessionAffinity="ClientIP")
    assert problems(new, old, old=old) == []


def test_a_dry_run_takes_nothing_so_only_the_range_of_addresses_counts():
    def dry(new: dict[str, Any]) -> list[str]:
        found = STRATEGY.problems(SERVICES, new, None, Stored(service(clusterIP="10.0.0.7")), dry_run=True)
        return [str(each) for each in found]

    assert dry(service(name="b", clusterIP="10.0.0.7", clusterIPs=["10.0.0.7"])) == []
    assert dry(service(name="b", type="NodePort", ports=[{"port": 80, "nodePort": 80}])) == []
    assert len(dry(service(name="b", clusterIP="10.9.0.7", clusterIPs=["10.9.0.7"]))) == 1
