"""resource.k8s.io through the API: versions, times of taints, gates, the dialect of the stories."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.golden.cluster import Cluster
from weir.gates import ALL_FEATURES, Gates

API = "/apis/resource.k8s.io"
Call = Callable[..., Awaitable[dict[str, Any]]]


def play(script: Callable[[Call, Cluster], Awaitable[None]], gates: Gates = ALL_FEATURES) -> None:
    async def run() -> None:
        cluster = Cluster(gates)
        await cluster.start()

        async def call(
            method: str, path: str, body: Any = None, media: str = "application/json"
        ) -> dict[str, Any]:
            sent = b"" if body is None else json.dumps(body).encode()
            return await cluster.call(method, API + path, "", {"content-type": media}, sent)

        await script(call, cluster)

    asyncio.run(run())


def slice_body(*taints: dict[str, Any], version: str = "v1", **spec: Any) -> dict[str, Any]:
    body = {"taints": list(taints)} if taints else {}
    device = {"name": "gpu-0", "basic": body} if version == "v1beta1" else {"name": "gpu-0", **body}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n1",
            "devices": [device],
            **spec,
        },
    }


def claim_body(version: str = "v1", **asked: Any) -> dict[str, Any]:
    what = {"deviceClassName": "gpu", **asked}
    request = {"name": "r", **what} if version == "v1beta1" else {"name": "r", "exactly": what}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "golden"},
        "spec": {"devices": {"requests": [request]}},
    }


def rule_body(effect: str = "NoSchedule", version: str = "v1", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r", **more},
        "spec": {"deviceSelector": {}, "taint": {"key": "a", "effect": effect}},
    }


HOT = {
    "key": "hot",
    "effect": "NoSchedule",
    "evictionsPerSecond": 5,
    "description": "too warm",
    "data": {"c": 90},
}


class TestVersions:
    def test_a_slice_written_in_an_old_version_reads_as_v1_and_back(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            made = await call("POST", "/v1beta1/resourceslices", slice_body(HOT, version="v1beta1"))
            assert (made["code"], made["body"]["spec"]["devices"][0]["basic"]["taints"][0]["data"]) == (
                201,
                {"c": 90},
            )
            new = (await call("GET", "/v1/resourceslices/s"))["body"]
            assert new["spec"]["devices"][0]["taints"][0]["evictionsPerSecond"] == 5
            old = (await call("GET", "/v1beta1/resourceslices"))["body"]
            assert old["items"][0]["spec"] == made["body"]["spec"]
            assert new["metadata"]["managedFields"][0]["apiVersion"] == "resource.k8s.io/v1beta1"

        play(script)

    def test_a_request_is_flat_in_v1beta1_whoever_wrote_it(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            await call("POST", "/v1/namespaces/golden/resourceclaims", claim_body(count=2))
            old = (await call("GET", "/v1beta1/namespaces/golden/resourceclaims/c"))["body"]
            assert old["spec"]["devices"]["requests"][0]["count"] == 2
            assert old["apiVersion"] == "resource.k8s.io/v1beta1"

        play(script)

    def test_v1beta1_tells_an_empty_class_of_a_request_with_alternatives(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            body = claim_body()
            alternatives = [{"name": "a", "deviceClassName": "gpu"}]
            body["spec"]["devices"]["requests"] = [{"name": "r", "firstAvailable": alternatives}]
            await call("POST", "/v1/namespaces/golden/resourceclaims", body)
            old = (await call("GET", "/v1beta1/namespaces/golden/resourceclaims/c"))["body"]
            assert old["spec"]["devices"]["requests"][0]["deviceClassName"] == ""

        play(script)

    def test_in_v1beta1_a_request_without_a_class_is_not_filled_in(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            bad = claim_body("v1beta1", deviceClassName="", count=2)
            answer = await call("POST", "/v1beta1/namespaces/golden/resourceclaims", bad)
            assert [cause["message"] for cause in answer["body"]["details"]["causes"]] == [
                "Required value",
                'Unsupported value: "": supported values: "All", "ExactCount"',
            ]

        play(script)

    def test_slices_are_selected_by_their_pool_and_have_no_namespace(self) -> None:
        async def script(_: Call, cluster: Cluster) -> None:
            async def select(chosen: str) -> dict[str, Any]:
                query = f"fieldSelector={chosen}"
                return await cluster.call("GET", f"{API}/v1/resourceslices", query, {}, b"")

            sent = {"content-type": "application/json"}
            slice_ = json.dumps(slice_body()).encode()
            await cluster.call("POST", f"{API}/v1/resourceslices", "", sent, slice_)
            found = [len((await select(f"spec.pool.name={pool}"))["body"]["items"]) for pool in ("n1", "n2")]
            refused = await select("metadata.namespace=x")
            assert (found, refused["code"]) == ([1, 0], 400)

        play(script)

    def test_what_was_applied_in_one_version_is_owned_in_every_other(self) -> None:
        async def script(_: Call, cluster: Cluster) -> None:
            async def apply(version: str, manager: str, effect: str, more: str = "") -> dict[str, Any]:
                path, query = f"{API}/{version}/devicetaintrules/r", f"fieldManager={manager}{more}"
                body = json.dumps(rule_body(effect, version)).encode()
                sent = {"content-type": "application/apply-patch+yaml"}
                return await cluster.call("PATCH", path, query, sent, body)

            await apply("v1alpha3", "first", "NoSchedule")
            refused = await apply("v1", "second", "NoExecute")
            taken = await apply("v1beta2", "second", "NoExecute", "&force=true")
            owned = {
                entry["manager"]: "f:effect" in entry["fieldsV1"]["f:spec"]["f:taint"]
                for entry in taken["body"]["metadata"]["managedFields"]
            }
            causes = refused["body"]["details"]["causes"]
            assert (refused["code"], [cause["field"] for cause in causes]) == (409, [".spec.taint.effect"])
            assert owned == {"first": False, "second": True}

        play(script)

    def test_a_body_of_another_version_than_the_path_is_refused(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            answer = await call("POST", "/v1beta2/devicetaintrules", rule_body())
            assert (answer["code"], answer["body"]["message"]) == (
                400,
                "the API version in the data (resource.k8s.io/v1) does not match the expected API version "
                "(resource.k8s.io/v1beta2)",
            )

        play(script)

    def test_errors_speak_of_the_layout_of_v1(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            bad = claim_body("v1beta1", tolerations=[{"key": "a", "operator": "Near"}])
            answer = await call("POST", "/v1beta1/namespaces/golden/resourceclaims", bad)
            (cause,) = answer["body"]["details"]["causes"]
            assert cause["field"] == "spec.devices.requests[0].exactly.tolerations[0].operator"

        play(script)

    def test_a_patch_in_an_old_version_sees_the_old_layout(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            await call("POST", "/v1/resourceslices", slice_body())
            patch = [{"op": "add", "path": "/spec/devices/0/basic/taints", "value": [HOT]}]
            done = await call("PATCH", "/v1beta1/resourceslices/s", patch, "application/json-patch+json")
            new = (await call("GET", "/v1/resourceslices/s"))["body"]
            assert (done["code"], new["spec"]["devices"][0]["taints"][0]["key"]) == (200, "hot")

        play(script)

    @pytest.mark.parametrize(
        "path, warned",
        [
            ("/v1/resourceslices", None),
            ("/v1beta2/resourceslices", "1.36+, unavailable in v1.39+"),
            ("/v1beta1/resourceslices", "1.35+, unavailable in v1.38+"),
            ("/v1beta2/devicetaintrules", None),
            ("/v1alpha3/devicetaintrules", "1.36+, unavailable in v1.39+"),
            ("/v1alpha4/resourceslices", None),
        ],
    )
    def test_old_versions_say_so(self, path: str, warned: str | None) -> None:
        async def script(call: Call, _: Cluster) -> None:
            warning = (await call("GET", path))["headers"].get("Warning")
            assert (warned in str(warning)) if warned else warning is None

        play(script)

    def test_only_old_versions_take_a_rule_without_a_version_to_replace(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            await call("POST", "/v1/devicetaintrules", rule_body())
            old = await call("PUT", "/v1alpha3/devicetaintrules/r", rule_body(version="v1alpha3"))
            new = await call("PUT", "/v1/devicetaintrules/r", rule_body())
            assert (old["code"], new["code"]) == (200, 422)

        play(script)


class TestTimes:
    @pytest.mark.proves("5055-50")
    def test_a_driver_that_sends_a_taint_again_keeps_its_time(self) -> None:
        async def script(call: Call, cluster: Cluster) -> None:
            first = (await call("POST", "/v1/resourceslices", slice_body(HOT)))["body"]
            await cluster.clock.advance(60)
            again = (await call("PUT", "/v1/resourceslices/s", slice_body(HOT, {**HOT, "key": "new"})))[
                "body"
            ]
            old, new = (taint["timeAdded"] for taint in again["spec"]["devices"][0]["taints"])
            assert old == first["spec"]["devices"][0]["taints"][0]["timeAdded"] < new

        play(script)

    @pytest.mark.proves("5055-50")
    def test_a_rule_with_another_effect_starts_now_and_one_with_another_value_does_not(self) -> None:
        async def script(call: Call, cluster: Cluster) -> None:
            first = (await call("POST", "/v1/devicetaintrules", rule_body()))["body"]["spec"]["taint"][
                "timeAdded"
            ]
            await cluster.clock.advance(60)
            merge = "application/merge-patch+json"
            value = await call("PATCH", "/v1/devicetaintrules/r", {"spec": {"taint": {"value": "7"}}}, merge)
            assert value["body"]["spec"]["taint"]["timeAdded"] == first
            effect = {"spec": {"taint": {"effect": "NoExecute"}}}
            changed = (await call("PATCH", "/v1/devicetaintrules/r", effect, merge))["body"]
            assert changed["spec"]["taint"]["timeAdded"] > first
            assert changed["metadata"]["generation"] == 3

        play(script)


class TestGates:
    OFF = ALL_FEATURES.replace({"DRADeviceTaintRules": False, "DRADeviceTaints": False})

    def test_without_the_gate_taints_and_tolerations_are_dropped_silently(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            made = (await call("POST", "/v1/resourceslices", slice_body(HOT)))["body"]
            assert made["spec"]["devices"] == [{"name": "gpu-0"}]
            tolerant = claim_body(tolerations=[{"key": "a", "operator": "Exists"}])
            claim = (await call("POST", "/v1/namespaces/golden/resourceclaims", tolerant))["body"]
            assert "tolerations" not in claim["spec"]["devices"]["requests"][0]["exactly"]

        play(script, self.OFF)

    def test_without_dynamic_resource_allocation_the_group_is_not_there(self) -> None:
        async def script(call: Call, cluster: Cluster) -> None:
            for path in ("", "/v1", "/v1/resourceslices"):
                assert (await call("GET", path))["code"] == 404
            groups = await cluster.call("GET", "/apis", "", {}, b"")
            assert "resource.k8s.io" not in json.dumps(groups["body"])
            assert (await cluster.call("GET", "/apis/apps", "", {}, b""))["code"] == 200

        play(script, Gates({"DynamicResourceAllocation": False}))

    def test_a_taint_slice_without_the_gate_is_an_empty_slice(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            entry = {"device": "gpu-0", "taint": HOT}
            made = await call("POST", "/v1/resourceslices", slice_body(devices=[], taints=[entry]))
            assert (made["code"], made["body"]["spec"].get("taints")) == (201, None)

        play(script, self.OFF)

    def test_what_was_stored_with_the_gate_on_may_be_kept(self) -> None:
        async def script(call: Call, cluster: Cluster) -> None:
            await cluster.put(slice_body(HOT))
            kept = await call("PUT", "/v1/resourceslices/s", slice_body({**HOT, "key": "other"}))
            assert kept["body"]["spec"]["devices"][0]["taints"][0]["key"] == "other"

        play(script, self.OFF)


@pytest.mark.proves("5055-68", "5055-93")
def test_a_rule_is_of_the_cluster_and_its_generation_counts_changes_of_the_spec() -> None:
    async def script(call: Call, cluster: Cluster) -> None:
        rules = "/v1alpha3/devicetaintrules"
        taint = {"key": "hot", "effect": "None"}
        body = {
            "apiVersion": "resource.k8s.io/v1alpha3",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "r"},
        }
        await call("POST", rules, {**body, "spec": {"taint": taint}})
        seen = []
        for subresource, patch in (
            ("", {"metadata": {"labels": {"a": "b"}}}),
            ("/status", {"status": {"conditions": []}}),
            ("", {"spec": {"taint": {"effect": "NoExecute"}}}),
            ("", {"spec": {"taint": {"effect": "NoExecute"}}}),
        ):
            answer = await call("PATCH", f"{rules}/r{subresource}", patch, "application/merge-patch+json")
            seen.append(answer["body"]["metadata"]["generation"])
        found = await call("GET", f"{rules}/r")
        assert (seen, found["body"]["metadata"].get("namespace")) == ([1, 1, 2, 2], None)
        assert (await call("GET", "/v1alpha3/namespaces/default/devicetaintrules"))["code"] == 404

    play(script)


def test_a_driver_in_upper_case_earns_a_warning() -> None:
    async def script(call: Call, _: Cluster) -> None:
        made = await call("POST", "/v1/resourceslices", slice_body(driver="GPU.example.com"))
        text = "spec.driver: driver names should be lowercase; "
        assert (made["code"], text in str(made["headers"].get("Warning"))) == (201, True)

    play(script)

    def test_list_attributes_and_what_else_is_never_on_are_dropped_before_they_are_judged(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            attributes = {"a": {"string": "x", "versions": ["nonsense"]}}
            body = slice_body(devices=[{"name": "gpu-0", "attributes": attributes}])
            made = await call("POST", "/v1/resourceslices", body)
            assert made["body"]["spec"]["devices"][0]["attributes"] == {"a": {"string": "x"}}

        play(script)

    def test_without_consumable_capacity_policies_go_too(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            capacity = {"m": {"value": "8Gi", "requestPolicy": {"default": "1Gi"}}}
            device = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}
            made = await call("POST", "/v1/resourceslices", slice_body(devices=[device]))
            assert made["body"]["spec"]["devices"] == [{"name": "gpu-0", "capacity": {"m": {"value": "8Gi"}}}]

        play(script, ALL_FEATURES.replace({"DRAConsumableCapacity": False}))

    def test_without_consumable_capacity_nothing_of_it_can_be_asked_for(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            asks = {"cel": {"expression": "device.allowMultipleAllocations"}}
            body = claim_body(selectors=[asks])
            body["spec"]["devices"]["constraints"] = [{"distinctAttribute": "gpu.example.com/numa"}]
            answer = await call("POST", "/v1/namespaces/golden/resourceclaims", body)
            assert [cause["field"] for cause in answer["body"]["details"]["causes"]] == [
                "spec.devices.requests[0].exactly.selectors[0].cel.expression",
                "spec.devices.constraints[0].matchAttribute",
            ]

        play(script, ALL_FEATURES.replace({"DRAConsumableCapacity": False}))

    def test_without_extended_resources_a_class_has_no_such_name(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            body = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
            made = await call("POST", "/v1/deviceclasses", body)
            assert made["body"]["spec"] == {}

        play(script, ALL_FEATURES.replace({"DRAExtendedResource": False}))


class TestClaims:
    def test_nothing_asked_for_reads_as_null(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            body = {**claim_body(), "spec": {"devices": {"requests": []}}}
            made = await call("POST", "/v1/namespaces/golden/resourceclaims", body)
            assert made["body"]["spec"] == {"devices": {"requests": None}}

        play(script)

    def test_what_drivers_told_about_a_device_goes_when_the_claim_has_it_no_more(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            where = "/v1/namespaces/golden/resourceclaims"
            await call("POST", where, claim_body())
            device = {"driver": "d.example.com", "pool": "p", "device": "g"}
            allocation = {"devices": {"results": [{"request": "r", **device}]}}
            merge = "application/merge-patch+json"
            told = {"status": {"allocation": allocation, "devices": [{**device, "data": {"a": 1}}]}}
            assert (await call("PATCH", f"{where}/c/status", told, merge))["code"] == 200
            freed = await call("PATCH", f"{where}/c/status", {"status": {"allocation": None}}, merge)
            assert freed["body"]["status"] == {}

        play(script)

    def test_an_allocation_with_admin_access_needs_a_labelled_namespace_too(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            where = "/v1/namespaces/golden/resourceclaims"
            await call("POST", where, claim_body())
            result = {"request": "r", "driver": "d", "pool": "p", "device": "g", "adminAccess": True}
            status = {"status": {"allocation": {"devices": {"results": [result]}}}}
            answer = await call("PATCH", f"{where}/c/status", status, "application/merge-patch+json")
            assert [cause["field"] for cause in answer["body"]["details"]["causes"]] == [
                "status.allocation.devices.results[0].adminAccess"
            ]

        play(script)

    def test_admin_access_needs_a_labelled_namespace(self) -> None:
        async def script(call: Call, cluster: Cluster) -> None:
            path = "/v1/namespaces/golden/resourceclaims"
            refused = await call("POST", path, claim_body(adminAccess=True))
            assert refused["body"]["details"]["causes"][0]["field"] == "spec.devices.requests[0].adminAccess"
            label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
            await cluster.call(
                "PATCH",
                "/api/v1/namespaces/golden",
                "",
                {"content-type": "application/merge-patch+json"},
                json.dumps(label).encode(),
            )
            assert (await call("POST", path, claim_body(adminAccess=True)))["code"] == 201

        play(script)

    def test_a_status_write_takes_nothing_from_metadata(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            path = "/v1/namespaces/golden/resourceclaims"
            await call("POST", path, claim_body())
            merge = "application/merge-patch+json"
            patch = {"metadata": {"labels": {"a": "b"}, "finalizers": ["x.example/y"]}, "status": {}}
            done = (await call("PATCH", f"{path}/c/status", patch, merge))["body"]
            assert not done["metadata"].keys() & {"labels", "finalizers"}

        play(script)


STORY = {
    "apiVersion": "resource.k8s.io/v1alpha4",
    "kind": "ResourceSlice",
    "metadata": {"name": "gpu-node-01"},
    "spec": {
        "driver": "gpu.nvidia.example.com",
        "pool": {"name": "gpu-node-01"},
        "devices": [
            {
                "name": "gpu-0",
                "basic": {"attributes": {"memory": "32Gi", "computeCapability": "8.6"}},
                "taints": [{"key": "node.kubernetes.io/sla", "value": "980", "effect": "NoSchedule"}],
            }
        ],
    },
}


class TestDialect:
    def test_a_story_is_stored_as_an_ordinary_slice(self) -> None:
        async def script(call: Call, _: Cluster) -> None:
            made = await call("POST", "/v1alpha4/resourceslices", STORY)
            assert made["code"] == 201, made["body"]
            spec = (await call("GET", "/v1/resourceslices/gpu-node-01"))["body"]["spec"]
            assert (spec["nodeName"], spec["devices"][0]["taints"][0]["value"]) == ("gpu-node-01", "980")
            assert spec["devices"][0]["attributes"]["memory"] == {"string": "32Gi"}

        play(script)

    def test_a_claim_without_devices_is_understood_also_when_applied(self) -> None:
        claim = {
            "apiVersion": "resource.k8s.io/v1alpha4",
            "kind": "ResourceClaim",
            "metadata": {"name": "c"},
            "spec": {
                "requests": [
                    {
                        "name": "gpu",
                        "deviceClassName": "a100",
                        "tolerations": [{"key": "sla", "operator": "Gt", "value": "950"}],
                    }
                ]
            },
        }

        async def script(call: Call, cluster: Cluster) -> None:
            made = await cluster.call(
                "PATCH",
                API + "/v1alpha4/namespaces/golden/resourceclaims/c",
                "fieldManager=me",
                {"content-type": "application/apply-patch+yaml"},
                json.dumps(claim).encode(),
            )
            assert made["code"] == 201, made["body"]
            spec = (await call("GET", "/v1/namespaces/golden/resourceclaims/c"))["body"]["spec"]
            assert spec["devices"]["requests"][0]["exactly"]["tolerations"][0]["operator"] == "Gt"

        play(script)

    @pytest.mark.parametrize("media", ["strategic-merge-patch", "merge-patch"])
    def test_a_patch_may_be_written_in_the_dialect_too(self, media: str) -> None:
        async def script(call: Call, _: Cluster) -> None:
            await call("POST", "/v1alpha4/resourceslices", STORY)
            patch = {"spec": {"devices": [{"name": "gpu-0", "basic": {"attributes": {"cores": 8}}}]}}
            done = await call(
                "PATCH", "/v1alpha4/resourceslices/gpu-node-01", patch, f"application/{media}+json"
            )
            assert done["code"] == 200, done["body"]
            spec = done["body"]["spec"]
            assert spec["devices"] == [{"name": "gpu-0", "attributes": {"cores": {"int": 8}}}]
            assert spec["nodeName"] == "gpu-node-01"

        play(script)

    def test_names_only_the_dialect_allows_are_kept_by_updates_in_other_versions(self) -> None:
        story = json.loads(json.dumps(STORY))
        story["spec"]["driver"] = "nvidia.com/gpu"
        story["spec"]["devices"][0]["basic"]["attributes"] = {"compute-capability": "8.6"}

        async def script(call: Call, _: Cluster) -> None:
            made = await call("POST", "/v1alpha4/resourceslices", story)
            assert made["code"] == 201, made["body"]
            body = (await call("GET", "/v1/resourceslices/gpu-node-01"))["body"]
            body["metadata"]["labels"] = {"a": "b"}
            assert (await call("PUT", "/v1/resourceslices/gpu-node-01", body))["code"] == 200
            fresh = {**body, "metadata": {"name": "other"}}
            assert (await call("POST", "/v1/resourceslices", fresh))["code"] == 422

        play(script)

    def test_a_driver_with_slashes_can_be_allocated_and_tainted_once_it_has_devices(self) -> None:
        story = json.loads(json.dumps(STORY))
        story["spec"]["driver"] = "nvidia.com/gpu"
        request = {"name": "r", "exactly": {"deviceClassName": "c"}}
        claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
        result = {"request": "r", "driver": "nvidia.com/gpu", "pool": "p", "device": "gpu-0"}
        status = {"status": {"allocation": {"devices": {"results": [result]}}}}
        rule = {
            "metadata": {"name": "r"},
            "spec": {
                "deviceSelector": {"driver": "nvidia.com/gpu"},
                "taint": {"key": "k", "effect": "None"},
            },
        }

        async def script(call: Call, _: Cluster) -> None:
            await call("POST", "/v1/namespaces/default/resourceclaims", claim)
            where = "/v1/namespaces/default/resourceclaims/c/status"
            merge = "application/merge-patch+json"
            before = [
                await call("PATCH", where, status, merge),
                await call("POST", "/v1/devicetaintrules", rule),
            ]
            dialect = await call("POST", "/v1alpha4/devicetaintrules", {**rule, "metadata": {"name": "d"}})
            relabelled = {"metadata": {"labels": {"a": "b"}}}
            kept = await call("PATCH", "/v1/devicetaintrules/d", relabelled, merge)
            await call("POST", "/v1alpha4/resourceslices", story)
            after = [
                await call("PATCH", where, status, merge),
                await call("POST", "/v1/devicetaintrules", rule),
            ]
            assert [answer["code"] for answer in (*before, dialect, kept, *after)] == [
                422, 422, 201, 200, 200, 201,
            ]  # fmt: skip
            causes = [answer["body"]["details"]["causes"][0] for answer in before]
            assert [cause["field"] for cause in causes] == [
                "status.allocation.devices.results[0].driver",
                "spec.deviceSelector.driver",
            ]
            assert all(
                re.match(
                    'Invalid value: "nvidia.com/gpu": an? (lowercase )?RFC 1123 subdomain', cause["message"]
                )
                for cause in causes
            )

        play(script)

    @pytest.mark.parametrize("body", ["{", "[]", "7", '{"spec": 7}', '{"spec": {"devices": 7}}'])
    def test_nonsense_gets_one_clear_answer(self, body: str) -> None:
        async def script(_: Call, cluster: Cluster) -> None:
            answer = await cluster.call(
                "POST",
                API + "/v1alpha4/resourceslices",
                "",
                {"content-type": "application/json"},
                body.encode(),
            )
            assert answer["code"] in (400, 422)

        play(script)
