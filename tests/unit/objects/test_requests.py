"""What a pod asks for: the request rule of core.md 3.7.5, resource by resource."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.objects.core import Node, Pod, read
from weir.objects.requests import RequestError, node_allocatable, pod_requests, show_amount
from weir.values.quantity import parse_quantity


def container(cpu: str = "", **rest: Any) -> dict[str, Any]:
    requests = {"cpu": cpu} if cpu else {}
    return {"name": "c", "resources": {"requests": requests}, **rest}


def sidecar(cpu: str) -> dict[str, Any]:
    return container(cpu, restartPolicy="Always")


def cpu(**spec: Any) -> int | None:
    return pod_requests(read(Pod, {"spec": spec})).get("cpu")


def test_containers_add_up():
    assert cpu(containers=[container("1"), container("250m"), container()]) == 1250


def test_an_init_container_counts_only_when_it_is_the_largest():
    assert cpu(containers=[container("1")], initContainers=[container("3"), container("2")]) == 3000
    assert cpu(containers=[container("4")], initContainers=[container("3")]) == 4000


def test_sidecars_run_beside_the_containers():
    assert cpu(containers=[container("1")], initContainers=[sidecar("500m")]) == 1500


def test_a_sidecar_counts_for_the_init_containers_after_it_only():
    assert cpu(containers=[container("1")], initContainers=[container("3"), sidecar("1")]) == 3000
    assert cpu(containers=[container("1")], initContainers=[sidecar("1"), container("3")]) == 4000


def test_overhead_comes_on_top():
    assert cpu(containers=[container("1")], overhead={"cpu": "100m"}) == 1100


def test_pod_level_requests_replace_the_sum():
    assert cpu(containers=[container("1")], resources={"requests": {"cpu": "4"}}) == 4000


def test_a_pod_level_limit_stands_in_only_where_no_container_asks():
    assert cpu(containers=[container("1")], resources={"limits": {"cpu": "4"}}) == 1000
    assert cpu(containers=[container()], resources={"limits": {"cpu": "4"}}) == 4000


def test_pod_level_requests_know_only_cpu_memory_and_hugepages():
    spec = {"containers": [], "resources": {"requests": {"example.com/gpu": "1", "hugepages-2Mi": "4Mi"}}}
    assert pod_requests(read(Pod, {"spec": spec})) == {"hugepages-2Mi": 4 * 2**20}


def test_a_limit_without_a_request_is_a_request():
    limits = {
        "name": "c",
        "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "2"}, "requests": {"cpu": "1"}},
    }
    assert pod_requests(read(Pod, {"spec": {"containers": [limits]}})) == {"nvidia.com/gpu": 1, "cpu": 1000}


def test_amounts_are_rounded_up_once_after_adding():
    assert cpu(containers=[container("0.1m")] * 10) == 1


def test_an_unreadable_amount_names_pod_and_resource():
    pod = read(Pod, {"metadata": {"name": "web"}, "spec": {"containers": [container("lots")]}})
    with pytest.raises(RequestError, match=r"Pod default/web: cpu: 'lots'"):
        pod_requests(pod)


def test_capacity_stands_in_for_allocatable_and_silence_stays_silence():
    assert node_allocatable(read(Node, {"status": {"capacity": {"cpu": 2}}})) == {"cpu": 2000}
    assert node_allocatable(read(Node, {})) is None


@given(st.sampled_from(["cpu", "memory", "pods"]), st.integers(0, 2**50))
def test_what_is_shown_means_what_was_counted(resource, amount):
    quantity = parse_quantity(show_amount(resource, amount))
    assert (quantity.milli_value if resource == "cpu" else quantity.value) == amount


# ── resized in place ──


def resized(asked: str, status: dict[str, Any], *conditions: dict[str, Any], **spec: Any) -> int | None:
    document = {
        "spec": {"containers": [container(asked)], **spec},
        "status": {"conditions": list(conditions), **status},
    }
    return pod_requests(read(Pod, document), set_aside=True).get("cpu")


def of_container(allocated: str = "", has: str = "") -> dict[str, Any]:
    said: dict[str, Any] = {"name": "c"}
    if allocated:
        said["allocatedResources"] = {"cpu": allocated}
    if has:
        said["resources"] = {"requests": {"cpu": has}}
    return {"containerStatuses": [said]}


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


@pytest.mark.parametrize(
    ("asked", "status", "conditions", "counted"),
    [
        ("1", {}, (), 1000),
        ("1", of_container("2", "2"), (), 2000),  # shrinks: the larger amount until it is done
        ("3", of_container("2", "2"), (DEFERRED,), 3000),  # grows: what it asks for already counts
        (
            "3",
            of_container("2", "1"),
            (INFEASIBLE,),
            2000,
        ),  # the node refused: what it asks for does not count
        ("1", of_container("2", "3"), (), 3000),
        ("3", {}, (INFEASIBLE,), None),  # refused, and nothing was ever given
    ],
)
def test_a_pod_being_resized_counts_at_the_most_of_what_it_asks_for_was_given_and_has(
    asked, status, conditions, counted
):
    assert resized(asked, status, *conditions) == counted


def test_what_a_pod_has_as_a_whole_goes_before_what_its_containers_have():
    status = {
        "resources": {"requests": {"cpu": "4"}},
        "allocatedResources": {"cpu": "2"},
        **of_container("9", "9"),
    }
    assert resized("1", status) == 4000


def test_a_pod_that_asks_as_a_whole_counts_at_the_most_too():
    status = {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "5"}}
    assert resized("1", status, resources={"requests": {"cpu": "2"}}) == 5000


def test_only_who_asks_for_it_hears_what_is_set_aside():
    document = {"spec": {"containers": [container("1")]}, "status": of_container("2", "2")}
    assert pod_requests(read(Pod, document))["cpu"] == 1000
