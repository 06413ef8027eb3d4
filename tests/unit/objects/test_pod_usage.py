"""What simulated pods use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weir.objects.pod_usage import UsageModel, container_usage, load_of, shared
from weir.values.quantity import Quantity


@given(st.integers(0, 10**9), st.integers(1, 1000))
def test_pods_that_share_a_load_bear_it_all(nanocores: int, pods: int) -> None:
    each = shared(Quantity(nanocores, -9), pods, "cpu")
    assert abs(each.scaled(-9) * pods - nanocores) <= pods


def test_a_load_below_zero_or_unreadable_is_none() -> None:
    for text in ("-1", "much", ""):
        assert load_of({"metadata": {"annotations": {"weir.dev/cpu-load": text}}}, "cpu") is None


def test_a_pod_divides_its_part_among_its_containers() -> None:
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    used = container_usage(pod, {"name": "a"}, UsageModel(share=None), {"cpu": Quantity(1)})
    assert {name: str(amount) for name, amount in used.items()} == {"cpu": "500m"}
