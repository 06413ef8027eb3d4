"""What a plan names as not known: the objects of the cluster that it is about."""

from __future__ import annotations

from typing import Any

import pytest

from weir.plan.unknowns import unknowns


def named(kind: str, name: str = "web", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": "shop"}, **more}


def pod(name: str, seconds: int | None) -> dict[str, Any]:
    grace = {} if seconds is None else {"terminationGracePeriodSeconds": seconds}
    return named("Pod", name, spec=grace)


@pytest.mark.parametrize(
    "grace, said",
    [
        ([], "not promised"),
        ([None], "not promised"),
        ([30, 1], "not promised"),
        ([None, 600, 31], "; shop/p1 may take 600 s to end"),
    ],
)
def test_the_longest_grace_period_is_named(grace, said):
    first, *_ = unknowns([pod(f"p{n}", seconds) for n, seconds in enumerate(grace)], set(), ())
    assert first.endswith(said)


def test_autoscalers_of_what_is_moved_are_named():
    def scaler(name: str) -> dict[str, Any]:
        return named(
            "HorizontalPodAutoscaler", name, spec={"scaleTargetRef": {"kind": "Deployment", "name": name}}
        )

    objects = [scaler("web"), scaler("db"), named("Deployment")]
    _, text, *_ = unknowns((), {"shop/Deployment/web"}, objects)
    assert text.endswith(": the HorizontalPodAutoscaler shop/web scales pods that are moved")


def test_nodes_that_karpenter_manages_are_counted():
    nodes = [
        {"kind": "Node", "metadata": {"name": n, "labels": {"karpenter.sh/nodepool": "a"}}} for n in "ab"
    ]
    _, text, *_ = unknowns((), set(), [*nodes, {"kind": "Node", "metadata": {"name": "c"}}])
    assert text.endswith(": Karpenter manages 2 nodes")


def test_jobs_that_are_moved_are_named():
    *_, text = unknowns((), {"shop/Job/train", "shop/Deployment/web"}, ())
    assert text == "when jobs end: shop/train may end by themselves"


def test_a_cluster_without_any_of_them_names_none():
    assert not any(
        ":" in text for text in list(unknowns((), {"shop/Deployment/web"}, [named("Deployment")]))[1:]
    )
