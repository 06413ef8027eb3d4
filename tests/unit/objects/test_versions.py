"""The versions of resource.k8s.io lose nothing, and the stories' dialect means what it says."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from weir.objects.v1alpha4 import relax
from weir.objects.versions import from_v1, to_v1

_taints = st.lists(
    st.fixed_dictionaries(
        {"key": st.text(max_size=3)},
        optional={"evictionsPerSecond": st.integers(), "data": st.just({"a": 1})},
    )
)
_devices = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(max_size=5)},
        optional={
            "attributes": st.just({"a": {"int": 1}}),
            "taints": _taints,
            "nodeName": st.text(min_size=1),
        },
    ),
    min_size=1,
)
_specs = st.fixed_dictionaries(
    {"driver": st.text()},
    optional={
        "devices": _devices,
        "taints": st.lists(st.fixed_dictionaries({"device": st.text()})),
        "nodeName": st.text(min_size=1),
        "allNodes": st.just(True),
    },
)
_exactly = st.fixed_dictionaries(
    {"deviceClassName": st.text(min_size=1)},
    optional={
        "count": st.integers(),
        "tolerations": st.lists(st.fixed_dictionaries({"expression": st.text()})),
        "adminAccess": st.booleans(),
    },
)
_requests = st.lists(
    st.fixed_dictionaries({"name": st.text(), "exactly": _exactly})
    | st.fixed_dictionaries({"name": st.text(), "firstAvailable": st.lists(_exactly)})
)


@given(_specs)
def test_a_slice_comes_back_from_every_version_as_it_was(spec: dict[str, Any]) -> None:
    document = {"metadata": {"name": "s"}, "spec": spec}
    for version in ("v1", "v1beta2", "v1beta1", "v1alpha4"):
        assert to_v1(version, "ResourceSlice", from_v1(version, "ResourceSlice", document)) == document


@given(_requests)
def test_a_claim_and_a_template_come_back_as_they_were(requests: list[Any]) -> None:
    spec = {"devices": {"requests": requests, "constraints": [{"matchAttribute": "a/b"}]}}
    for kind, document in (
        ("ResourceClaim", {"spec": spec}),
        ("ResourceClaimTemplate", {"spec": {"spec": spec}}),
    ):
        assert to_v1("v1beta1", kind, from_v1("v1beta1", kind, document)) == document


def test_v1beta1_says_not_set_with_empty_values() -> None:
    found = to_v1("v1beta1", "ResourceSlice", {"spec": {"nodeName": "", "allNodes": False}})
    assert found == {"spec": {}}


def test_a_request_of_v1beta1_with_alternatives_only_has_no_exactly() -> None:
    request = {"name": "r", "firstAvailable": [{"name": "a"}]}
    document = {"spec": {"devices": {"requests": [request]}}}
    assert to_v1("v1beta1", "ResourceClaim", document) == document


class TestDialect:
    def test_a_story_slice_becomes_an_ordinary_one(self) -> None:
        story = {
            "metadata": {"name": "gpu-node-01"},
            "spec": {
                "driver": "nvidia.com/gpu",
                "devices": [
                    {
                        "name": "gpu-0",
                        "basic": {
                            "attributes": {"memory": "32Gi", "cores": 8, "ecc": True},
                            "capacity": {"memory": "80Gi"},
                            "taints": [{"key": "a"}],
                        },
                        "taints": [{"key": "sla", "value": "980", "effect": "NoSchedule"}],
                    }
                ],
            },
        }
        assert relax("ResourceSlice", story)["spec"] == {
            "driver": "nvidia.com/gpu",
            "pool": {"name": "gpu-node-01", "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {"memory": {"string": "32Gi"}, "cores": {"int": 8}, "ecc": {"bool": True}},
                    "capacity": {"memory": {"value": "80Gi"}},
                    "taints": [{"key": "a"}, {"key": "sla", "value": "980", "effect": "NoSchedule"}],
                }
            ],
        }

    def test_a_named_pool_is_on_the_node_of_that_name(self) -> None:
        found = relax("ResourceSlice", {"metadata": {"name": "s"}, "spec": {"pool": {"name": "node-7"}}})
        assert found["spec"]["nodeName"] == "node-7"

    def test_templates_are_claims_one_level_deeper(self) -> None:
        found = relax("ResourceClaimTemplate", {"spec": {"spec": {"requests": [{"name": "r", "count": 2}]}}})
        assert found["spec"]["spec"] == {"devices": {"requests": [{"name": "r", "exactly": {"count": 2}}]}}

    @given(
        st.recursive(
            st.none() | st.integers() | st.text(),
            lambda c: (
                st.lists(c)
                | st.dictionaries(
                    st.sampled_from(
                        ["spec", "devices", "basic", "taints", "requests", "pool", "metadata", "attributes"]
                    ),
                    c,
                )
            ),
        )
    )
    def test_nonsense_is_left_for_the_decoder(self, document: Any) -> None:
        for kind in ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"):
            relaxed = relax(kind, document)
            assert isinstance(document, dict) or relaxed == document

    @given(_specs)
    def test_what_is_v1_already_only_gains_what_was_missing(self, spec: dict[str, Any]) -> None:
        once = relax("ResourceSlice", {"metadata": {"name": "s"}, "spec": spec})
        assert relax("ResourceSlice", once) == once


def test_requests_of_a_claim_in_both_places_are_asked_for_together() -> None:
    spec = {"requests": [{"name": "b"}], "devices": {"requests": [{"name": "a"}]}}
    assert relax("ResourceClaim", {"spec": spec})["spec"] == {
        "devices": {"requests": [{"name": "a"}, {"name": "b"}]}
    }
