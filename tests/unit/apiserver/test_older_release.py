"""A server of an older release on the same store: what it shows, refuses and loses, and what comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir import errors
from weir.apiserver.older_release import RELEASES, read, read_body, strip
from weir.objects.kinds import by_kind
from weir.simulation.cluster import Cluster, ComponentGates

PODS = by_kind("v1", "Pod")
OLDEST = RELEASES["1.34"]
OLD = ComponentGates(older=frozenset({"apiserver"}))
EXPRESSION = "taint.key == 'a'"


def template(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"expression": EXPRESSION}]}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name}, "template": {"spec": spec}}


def pod(name: str, *tolerations: dict[str, Any]) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": list(tolerations)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def expression(cluster: Cluster, name: str) -> str | None:
    found = cluster.get("PodTemplate", name)
    assert found is not None
    said: str | None = found["template"]["spec"]["tolerations"][0].get("expression")
    return said


def test_what_nobody_writes_comes_back_whole_and_what_is_written_does_not() -> None:
    with Cluster(nodes=1, controllers=("node-lifecycle",)) as cluster:
        cluster.create(pod("written", {"expression": EXPRESSION}))
        cluster.create(template("untouched"))
        before = cluster.get("PodTemplate", "untouched")
        cluster.set_gates(OLD)
        assert expression(cluster, "untouched") is None
        cluster.patch_status("Pod", "written", {"message": "seen by an old server"})
        cluster.set_gates(None)
        assert cluster.get("PodTemplate", "untouched") == before
        found = cluster.get("Pod", "written")
        assert found is not None
        assert "expression" not in found["spec"]["tolerations"][0]


def test_an_old_server_refuses_operators_it_does_not_know_in_its_own_words() -> None:
    gt = {"key": "sla", "operator": "Gt", "value": "5"}
    semver = {"key": "v", "operator": "SemverGt", "value": "1.0.0"}
    with Cluster(nodes=1, gates=OLD, controllers=("node-lifecycle",)) as cluster:
        for entry in (gt, semver):
            with pytest.raises(errors.Invalid, match=r'supported values: "Equal", "Exists"$'):
                cluster.create(pod("p", entry))
        version = json.loads(cluster._wait(cluster.client.call("GET", "/version")))
        assert (version["minor"], version["gitVersion"]) == ("34", "v1.34.0+weir")
        with pytest.raises(errors.NotFound):
            cluster._wait(cluster.client.call("GET", "/apis/resource.k8s.io/v1/devicetaintrules"))
        # clients choose the version of a kind by what discovery lists
        lists = {
            version: json.loads(cluster._wait(cluster.client.call("GET", f"/apis/resource.k8s.io/{version}")))
            for version in ("v1", "v1beta2", "v1alpha3")
        }
        serving = [
            version for version, found in lists.items() if "DeviceTaintRule" in json.dumps(found["resources"])
        ]
        assert serving == ["v1alpha3"] and lists["v1"]["resources"]
        group = json.loads(cluster._wait(cluster.client.call("GET", "/apis/resource.k8s.io")))
        assert "v1alpha4" not in [each["version"] for each in group["versions"]], "no release has it"
        with pytest.raises(errors.NotFound):
            cluster._wait(cluster.client.call("GET", "/apis/resource.k8s.io/v1alpha4/deviceclasses"))
        for path, expected in (("v1", False), ("v1alpha3", True)):
            described = cluster._wait(cluster.client.call("GET", f"/openapi/v3/apis/resource.k8s.io/{path}"))
            assert (b"/devicetaintrules/{name}" in described) is expected
    with (
        Cluster(
            nodes=1,
            gates=ComponentGates(older=frozenset({"apiserver=1.35"})),
            controllers=("node-lifecycle",),
        ) as newer,
        pytest.raises(errors.Invalid, match=r'supported values: "Equal", "Exists", "Lt", "Gt"$'),
    ):
        newer.create(pod("p", gt))


def test_an_unknown_field_warns_is_refused_or_is_passed_over() -> None:
    body = json.dumps(pod("p", {"expression": EXPRESSION, "tolerationSeconds": 5})).encode()
    warnings: list[str] = []
    kept = json.loads(read_body(body, PODS, OLDEST, "Warn", warnings))
    assert kept["spec"]["tolerations"] == [{"tolerationSeconds": 5}]
    assert warnings == ['unknown field "spec.tolerations[0].expression"']
    strict = r'^Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field'
    with pytest.raises(errors.BadRequest, match=strict):
        read_body(body, PODS, OLDEST, "Strict", [])
    merge = "application/merge-patch+json"
    with pytest.raises(errors.Invalid, match=r"strict decoding error: unknown field"):
        read_body(body, PODS, OLDEST, "Strict", [], patching=merge)
    with pytest.raises(
        errors.InternalError, match=r"\(/p; /v1, Kind=Pod\): .*: field not declared in schema"
    ):
        read_body(body, PODS, OLDEST, "Warn", [], patching="application/apply-patch+yaml")
    quiet: list[str] = []
    read_body(body, PODS, OLDEST, "Ignore", quiet)
    assert quiet == []


def test_rates_and_descriptions_of_device_taints_are_unknown() -> None:
    rule = {
        "spec": {"taint": {"key": "k", "effect": "NoExecute", "evictionsPerSecond": 2, "description": "d"}}
    }
    assert sorted(strip(rule, OLDEST)) == ["spec.taint.description", "spec.taint.evictionsPerSecond"]
    assert rule == {"spec": {"taint": {"key": "k", "effect": "NoExecute"}}}


def test_classes_and_selectors_of_rules_went_with_1_35() -> None:
    selector = {"driver": "d", "deviceClassName": "c", "selectors": []}
    assert list(strip({"spec": {"deviceSelector": dict(selector)}}, OLDEST)) == []
    gone = strip({"spec": {"deviceSelector": dict(selector)}}, RELEASES["1.35"])
    assert sorted(gone) == ["spec.deviceSelector.deviceClassName", "spec.deviceSelector.selectors"]


RULES = "/apis/resource.k8s.io/v1alpha3/devicetaintrules"


def rule(name: str, effect: str) -> dict[str, Any]:
    spec = {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": effect}}
    kind = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.proves("5055-88")
def test_effect_none_is_refused_before_1_35_unless_it_is_stored() -> None:
    def call(verb: str, path: str, body: Any = None, **more: Any) -> Any:
        answer = cluster._wait(
            cluster.client.call(verb, path, body=json.dumps(body).encode() if body else b"", **more)
        )
        return json.loads(answer)

    refused = r'spec\.taint\.effect: Unsupported value: "None": supported values: "NoExecute", "NoSchedule"$'
    merge = {"content_type": "application/merge-patch+json"}
    with Cluster(nodes=1, controllers=("node-lifecycle",)) as cluster:
        call("POST", RULES, rule("stored", "None"))
        cluster.set_gates(OLD)
        with pytest.raises(errors.Invalid, match=refused):
            call("POST", RULES, rule("new", "None"))
        call("POST", RULES, rule("other", "NoSchedule"))
        with pytest.raises(errors.Invalid, match=refused):
            call("PATCH", f"{RULES}/other", {"spec": {"taint": {"effect": "None"}}}, **merge)
        assert call("GET", f"{RULES}/stored")["spec"]["taint"]["effect"] == "None"
        call("PATCH", f"{RULES}/stored", {"metadata": {"labels": {"seen": "yes"}}}, **merge)
        call("DELETE", f"{RULES}/stored")
        with pytest.raises(errors.NotFound):
            call("GET", f"{RULES}/stored")
        cluster.set_gates(ComponentGates(older=frozenset({"apiserver=1.35"})))
        call("POST", RULES, rule("new", "None"))


@pytest.mark.parametrize("older", ["apiserver=1.20", "scheduler=1.34", "etcd"])
def test_what_cannot_be_played_is_said(older: str) -> None:
    with pytest.raises(ValueError, match=r"^older: "):
        ComponentGates(older=frozenset({older}))


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "taint", "key", "data", "name", "effect"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["spec", "metadata", "status"]), _json))
def test_what_has_none_of_the_fields_is_read_as_it_is(document: dict[str, Any]) -> None:
    text = json.dumps({"name": 1, **document}).encode()
    if read(text, OLDEST) is not text:
        changed = json.loads(text)
        assert list(strip(changed, OLDEST))
