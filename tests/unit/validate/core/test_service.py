"""Tests of the rules of Services and Endpoints."""

from __future__ import annotations

import pytest

import weir


def endpoints(**subset):
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "web", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "10.0.0.1"}], **subset}],
    }


@pytest.mark.parametrize("subset", [{}, {"ports": None}, {"ports": []}, {"ports": [{"port": 80}]}])
def test_endpoints_may_have_no_ports_or_one_without_a_name(subset):
    assert weir.validate(endpoints(**subset)) == []


def test_several_ports_of_endpoints_need_names():
    errors = weir.validate(endpoints(ports=[{"port": 80}, {"port": 81}]))
    assert [str(error) for error in errors] == [
        "subsets[0].ports[0].name: Required value",
        "subsets[0].ports[1].name: Required value",
    ]
