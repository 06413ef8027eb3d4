"""What the API server says about ranges of service addresses; the texts are a real server's (tests/kubernetes)."""

from __future__ import annotations

from typing import Any

import pytest

from weir.validate import validate


def problems(
    spec: dict[str, Any], old: dict[str, Any] | None = None, kind: str = "ServiceCIDR", name: str = "x"
) -> list[str]:
    def whole(found: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": name, "resourceVersion": "1"}
        return {"apiVersion": "networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": found}

    return [str(each) for each in validate(whole(spec), None if old is None else whole(old))]


@pytest.mark.parametrize(
    ("cidrs", "text"),
    [
        (["10.9.0.0/24"], ""),
        (["10.9.0.0/24", "2001:db8::/64"], ""),
        ([], "at least one CIDR required"),
        (["2001:DB8::/64"], 'must be in canonical form ("2001:db8::/64")'),
        (["10.9.0.0/24", "10.8.0.0/24"], "may specify no more than one IP for each IP family"),
    ],
)
def test_ranges(cidrs, text):
    found = problems({"cidrs": cidrs})
    assert len(found) == bool(text) and text in "".join(found)


def test_a_range_may_only_gain_the_other_family():
    one, two = {"cidrs": ["10.9.0.0/24"]}, {"cidrs": ["10.9.0.0/24", "2001:db8::/64"]}
    assert problems(two, one) == []
    assert "field is immutable" in problems(one, two)[0]


def test_an_address_is_its_name():
    spec = {"parentRef": {"resource": "services", "name": "web"}}
    assert problems(spec, None, "IPAddress", "10.0.0.1") == []
    assert "must not have leading 0s" in problems(spec, None, "IPAddress", "10.0.0.01")[0]
