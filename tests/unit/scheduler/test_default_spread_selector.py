"""Pods without constraints of their own are spread with those their services and controller select."""

from weir.gates import ALL_FEATURES
from weir.objects.core import LabelSelector, LabelSelectorRequirement, Node, Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.default_spread_selector import Controller, DefaultSpreadSelectors, Service
from weir.scheduler.pod_class import build

ZONE = "topology.kubernetes.io/zone"


def pod(name="p", owner=None):
    owners = [{"controller": True, "uid": "u", "name": "rs", **owner}] if owner else []
    metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}, "ownerReferences": owners}
    return read(Pod, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}})


def service(**selector):
    return read(Service, {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": selector}})


def replica_set(**selector):
    document = {
        "metadata": {"name": "rs", "namespace": "default"},
        "spec": {"selector": {"matchLabels": selector}},
    }
    return read(Controller, document)


def test_services_and_the_controller_are_merged():
    owners = DefaultSpreadSelectors()
    owners.put_service(None, service(app="web"))
    owners.put_controller("ReplicaSet", None, replica_set(app="web"))
    found = owners(build(pod(owner={"kind": "ReplicaSet", "apiVersion": "apps/v1"})))
    assert found == LabelSelector({"app": "web"}, (LabelSelectorRequirement("app", "In", ("web",)),))


def test_a_service_for_others_selects_nothing():
    owners = DefaultSpreadSelectors()
    owners.put_service(None, service(app="db"))
    assert owners(build(pod())) is None


def test_a_controller_of_another_kind_does_not_count():
    owners = DefaultSpreadSelectors()
    owners.put_controller("ReplicaSet", None, replica_set(app="web"))
    assert owners(build(pod(owner={"kind": "Job", "apiVersion": "batch/v1"}))) is None


def test_a_service_that_appears_later_spreads_the_next_pods():
    owners = DefaultSpreadSelectors()
    engine = Engine(ALL_FEATURES, default_selector=owners)
    for name, cpu in (("big", "64"), ("small", "1")):
        labels = {"kubernetes.io/hostname": name, ZONE: name}
        engine.table.put_node(
            read(Node, {"metadata": {"name": name, "labels": labels},
                        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}}})
        )  # fmt: skip
    places = []
    for number in range(4):
        if number == 2:
            owners.put_service(None, service(app="web"))
        places.append(engine.place(pod(f"p{number}")).node)
        engine.assume(f"default/p{number}", pod(f"p{number}"), places[-1])
    owners.put_service(service(app="web"), None)
    places.append(engine.place(pod("last")).node)
    assert places == ["big", "big", "small", "small", "big"]
