"""A list that is four times as long is about four times the work to judge, not sixteen: counted in calls."""

from __future__ import annotations

from typing import Any

import pytest

from tests.work import count_calls
from weir.gates import ALL_FEATURES
from weir.objects.kinds import by_kind
from weir.validate import validate_served

POD, RUNTIME_CLASS = by_kind("v1", "Pod"), by_kind("node.k8s.io/v1", "RuntimeClass")
SIZES = 250, 1000
MOST = 6.0


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", **(container or {})}]
    return {"metadata": {"name": "a", "namespace": "d"}, "spec": {"containers": containers, **spec}}


def many(count, each):
    return [each(number) for number in range(count)]


def constraint(number):
    return {
        "maxSkew": 1,
        "topologyKey": f"k{number}",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }


LONG = {
    "spread constraints": (POD, lambda n: pod(topologySpreadConstraints=many(n, constraint))),
    "claims": (
        POD,
        lambda n: pod(
            {"resources": {"claims": many(n, lambda i: {"name": f"x{i}"})}},
            resourceClaims=many(n, lambda i: {"name": f"x{i}", "resourceClaimName": "y"}),
        ),
    ),
    "tolerations of a runtime class": (
        RUNTIME_CLASS,
        lambda n: {
            "metadata": {"name": "a"},
            "handler": "h",
            "scheduling": {"tolerations": many(n, lambda i: {"key": f"k{i}", "operator": "Exists"})},
        },
    ),
}


@pytest.mark.parametrize("what", LONG)
def test_work_grows_with_the_list(what):
    kind, make = LONG[what]

    def judge(size):
        document = make(size)
        return count_calls(lambda: validate_served(document, None, kind, ALL_FEATURES))

    judge(SIZES[0])  # what is found out once
    small, large = map(judge, SIZES)
    assert large / small < MOST


def test_errors_that_each_name_a_whole_list_are_cut():
    """Fifteen hundred claims that are not there, each answered with fifteen hundred that are: two megabytes."""
    names = [f"{'long' * 12}-{number}" for number in range(1500)]
    document = pod(
        {"resources": {"claims": [{"name": f"not-{name}"} for name in names]}},
        resourceClaims=[{"name": name, "resourceClaimName": "y"} for name in names],
    )
    found = validate_served(document, None, POD, ALL_FEATURES)
    assert 2 < len(found) < 50 and all(names[7] in error.detail for error in found[:2])
