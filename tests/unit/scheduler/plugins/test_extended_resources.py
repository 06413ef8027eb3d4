"""Extended resources that devices offer: which claim stands for them, and where such pods go."""

from __future__ import annotations

from typing import Any

from tests.unit.devices.builders import DRIVER, rule
from tests.unit.scheduler.claim_scene import Scene, devices_of
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.objects.resource import DeviceClass
from weir.scheduler.cycle import Placement
from weir.scheduler.plugins.extended_resources import requests_and_mappings

GPU = "example.com/gpu"
Document = dict[str, Any]


def offering(name: str, resource: str | None = GPU, created: str = "2026-01-01T00:00:00Z") -> DeviceClass:
    spec = {"extendedResourceName": resource} if resource else {}
    return read(DeviceClass, {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec})


def container(name: str, **resources: Any) -> Document:
    wanted = {GPU: resources.pop("gpu", 1), **resources}
    return {"name": name, "resources": {"requests": {k: str(v) for k, v in wanted.items() if v}}}


def pod(*containers: Document, name: str = "p", **spec: Any) -> Pod:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return read(Pod, {"metadata": metadata, "spec": {"containers": list(containers), **spec}})


def node(scene: Scene, name: str, gpus: int) -> None:
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    scene.engine.table.put_node(
        read(Node, {"metadata": {"name": name}, "status": {"allocatable": allocatable}})
    )


class TestRequests:
    CLASSES = {GPU: "gpu"}

    def counts(self, wanted: Pod) -> dict[str, int]:
        requests, _ = requests_and_mappings(wanted, [GPU], self.CLASSES)
        return {request["name"]: request["exactly"]["count"] for request in requests}

    def served(self, wanted: Pod) -> list[tuple[str, str]]:
        _, mappings = requests_and_mappings(wanted, [GPU], self.CLASSES)
        return [(each["containerName"], each["requestName"]) for each in mappings]

    def test_every_container_has_its_own_request_named_by_its_place(self) -> None:
        wanted = pod(container("a", gpu=2, cpu=1), container("b", gpu=0), container("c"))
        assert self.counts(wanted) == {"container-0-request-1": 2, "container-2-request-0": 1}
        assert self.served(wanted) == [("a", "container-0-request-1"), ("c", "container-2-request-0")]

    def test_an_init_container_uses_the_devices_of_those_that_start_later(self) -> None:
        wanted = pod(container("main", gpu=2), initContainers=[container("init", gpu=1)])
        assert self.counts(wanted) == {"container-1-request-0": 2}
        assert self.served(wanted) == [("main", "container-1-request-0"), ("init", "container-1-request-0")]

    def test_an_init_container_that_needs_more_asks_for_the_rest(self) -> None:
        wanted = pod(container("main", gpu=1), initContainers=[container("init", gpu=3)])
        assert self.counts(wanted) == {"container-0-request-0": 2, "container-1-request-0": 1}

    def test_init_containers_that_end_share_the_largest_request(self) -> None:
        starting = [container("one", gpu=2), container("two", gpu=5), container("three", gpu=3)]
        wanted = pod(container("main", gpu=0), initContainers=starting)
        assert self.counts(wanted) == {"container-1-request-0": 5}
        assert {name for _, name in self.served(wanted)} == {"container-1-request-0"}

    def test_a_sidecar_keeps_its_own(self) -> None:
        sidecar = {**container("side", gpu=1), "restartPolicy": "Always"}
        wanted = pod(container("main", gpu=1), initContainers=[sidecar])
        assert self.counts(wanted) == {"container-0-request-0": 1, "container-1-request-0": 1}


class TestPlacing:
    def test_a_pod_that_asks_for_the_resource_gets_devices_of_the_class(self) -> None:
        scene = Scene(nodes=1, gpus=3)
        scene.put(offering("gpu"))
        assert isinstance(scene.place(pod(container("c", gpu=2))), Placement)
        promise = scene.reserve(pod(container("c", gpu=2)), "node-1")
        assert devices_of(promise) == ["gpu-0", "gpu-1"]
        assert promise.extended is not None
        assert promise.extended.mappings == [
            {"containerName": "c", "resourceName": GPU, "requestName": "container-0-request-0"}
        ]

    def test_every_class_can_be_asked_for_by_its_own_name(self) -> None:
        scene = Scene(nodes=1, gpus=1)
        implicit = "deviceclass.resource.kubernetes.io/gpu"
        assert isinstance(scene.place(pod(container("c", gpu=0, **{implicit: 1}))), Placement)

    def test_devices_are_counted_together_with_those_of_claims(self) -> None:
        scene = Scene(nodes=1, gpus=2)
        scene.put(offering("gpu"))
        scene.schedule(pod(container("c", gpu=2), name="first"))
        assert scene.why(pod(container("c"), name="second")) == (
            "0/1 nodes are available: 1 cannot allocate all claims."
        )

    def test_such_a_request_tolerates_nothing(self) -> None:
        scene = Scene(nodes=1)
        scene.put(offering("gpu"))
        scene.put(rule("r", {}, "a:NoSchedule"))
        assert scene.why(pod(container("c"))).endswith("1 cannot allocate all claims.")

    def test_a_node_whose_device_plugin_offers_the_resource_needs_no_claim(self) -> None:
        scene = Scene(nodes=0)
        scene.put(offering("gpu"))
        node(scene, "old", gpus=1)
        answer = scene.place(pod(container("c")))
        assert isinstance(answer, Placement)
        assert scene.engine.reserve(pod(container("c")), answer.node) == []

    def test_a_node_whose_device_plugin_is_exhausted_does_not_turn_to_devices(self) -> None:
        scene = Scene(nodes=1)
        scene.put(offering("gpu"))
        node(scene, "node-1", gpus=1)
        assert scene.why(pod(container("c", gpu=2))).endswith(f"1 Insufficient {GPU}.")

    def test_a_class_that_offers_the_resource_later_is_taken_up(self) -> None:
        scene = Scene(nodes=1)
        assert scene.why(pod(container("c"))).endswith(f"1 Insufficient {GPU}.")
        scene.put(offering("gpu"))
        assert isinstance(scene.place(pod(container("c"))), Placement)
        scene.put(offering("gpu", None))
        assert scene.why(pod(container("c"))).endswith(f"1 Insufficient {GPU}.")

    def test_of_two_classes_the_younger_offers_the_resource(self) -> None:
        scene = Scene(nodes=1)
        scene.put(offering("young", created="2026-02-01T00:00:00Z"))
        scene.put(offering("old"))
        assert scene.claims.extended[GPU] == "young"

    def test_of_two_classes_of_one_age_the_first_by_name_does(self) -> None:
        scene = Scene(nodes=1)
        scene.put(offering("b"))
        scene.put(offering("a"))
        assert scene.claims.extended[GPU] == "a"

    def test_with_the_feature_off_nothing_is_delegated(self) -> None:
        scene = Scene(nodes=1, gates=ALL_FEATURES.replace({"DRAExtendedResource": False}))
        scene.put(offering("gpu"))
        assert scene.why(pod(container("c"))).endswith(f"1 Insufficient {GPU}.")

    def test_the_claim_of_an_earlier_attempt_is_given_up_first(self) -> None:
        scene = Scene(nodes=1)
        scene.put(offering("gpu"))
        left = scene.claim(
            "p-extended-resources-x",
            annotations={"resource.kubernetes.io/extended-resource-claim": "true"},
            ownerReferences=[{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}],
        )
        wanted = pod(container("c"))
        assert scene.why(wanted).endswith("1 cannot schedule extended resource claim.")
        assert scene.engine.post_filter(wanted) == left
        scene.claims.remove_claim(left.key)
        assert isinstance(scene.place(wanted), Placement)

    def test_claims_and_resources_of_one_pod_do_not_share_devices(self) -> None:
        scene = Scene(nodes=1, gpus=2)
        scene.put(offering("gpu"))
        scene.claim("c")
        both = pod(container("c"), resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
        assert isinstance(scene.place(both), Placement)
        assert devices_of(scene.reserve(both, "node-1")) == ["gpu-0", "gpu-1"]
        assert DRIVER in str(scene.claims.in_use.devices)
