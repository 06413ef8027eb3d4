"""The one sum of what containers need: ints and quantities alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.objects.core import Pod, read
from weir.objects.pod_resources import container_totals, pod_total, qos_class, sum_of_containers
from weir.objects.requests import pod_requests

amounts = st.dictionaries(st.sampled_from(["memory", "example.com/a", "pods"]), st.integers(0, 50))


def test_an_init_container_counts_beside_the_sidecars_started_before_it():
    init = [({"m": 1}, True), ({"m": 5}, False), ({"m": 2}, True), ({"m": 4}, False)]
    assert sum_of_containers([{"m": 3}], init) == {"m": 7}  # 4 beside 1 + 2, more than 3 + 1 + 2


@given(st.lists(amounts, max_size=4), st.lists(st.tuples(amounts, st.booleans()), max_size=4))
def test_the_sum_is_the_greatest_of_everything_that_runs_at_one_time(containers, init):
    for resource in ("memory", "example.com/a", "pods"):
        moments = []
        running = 0
        for own, sidecar in init:
            moments.append(running + own.get(resource, 0))
            running += own.get(resource, 0) if sidecar else 0
        moments.append(running + sum(own.get(resource, 0) for own in containers))
        assert sum_of_containers(containers, init).get(resource, 0) == max(moments)


@given(st.lists(amounts, min_size=1, max_size=4), st.lists(st.tuples(amounts, st.booleans()), max_size=4))
def test_the_scheduler_and_quotas_count_the_same(containers, init):
    spec = {
        "containers": [_container(own) for own in containers],
        "initContainers": [
            {**_container(own), **({"restartPolicy": "Always"} if sidecar else {})} for own, sidecar in init
        ],
    }
    quantities = {name: amount.scaled(0) for name, amount in container_totals(spec, "requests").items()}
    assert pod_requests(read(Pod, {"spec": spec})) == quantities


def test_pod_level_amounts_replace_the_sum():
    spec = {
        "containers": [_container({"memory": 7, "example.com/a": 1})],
        "resources": {"requests": {"memory": "3", "example.com/a": "9"}},
    }
    assert {name: str(amount) for name, amount in pod_total(spec, "requests").items()} == {
        "memory": "3",
        "example.com/a": "1",
    }


def _container(own):
    return {"name": "c", "resources": {"requests": {name: str(amount) for name, amount in own.items()}}}


BOTH = {"cpu": "1", "memory": "1Gi"}
WHOLE = {"requests": BOTH, "limits": BOTH}


@pytest.mark.parametrize(
    ("pod_level", "containers", "expected"),
    [
        (None, [WHOLE, {}], "Burstable"),
        (None, [WHOLE, WHOLE], "Guaranteed"),
        (None, [{"requests": {"cpu": "0"}}], "BestEffort"),
        (None, [{"requests": {"example.com/a": "1"}}], "BestEffort"),
        (None, [{"requests": {"cpu": "1"}, "limits": BOTH}], "Burstable"),
        ({}, [WHOLE], "Guaranteed"),
        (WHOLE, [{}, {"requests": {"cpu": "1m"}}], "Guaranteed"),
        ({"requests": BOTH}, [WHOLE], "Burstable"),
        ({"limits": {"hugepages-2Mi": "2Mi"}}, [WHOLE], "BestEffort"),
    ],
)
def test_the_quality_of_service_class_is_that_of_the_pod_or_else_of_its_containers(
    pod_level, containers, expected
):
    spec = {"containers": [{"resources": each} for each in containers]}
    assert qos_class(spec if pod_level is None else {**spec, "resources": pod_level}) == expected
